import type { WriteContext } from '../db/context.ts'
import type { GateEnv } from '../gate/admit.ts'
import type { Token } from '../gate/tokens.ts'
import type { AddressPolicy } from '../http/outbound.ts'

/** The deployment's own storage: account-level S3 keys to its bucket, since a binding cannot presign. */
export interface DeploymentStorage {
  bucket: R2Bucket
  endpoint: string
  name: string
  region: string
  accessKeyId: string
  secretAccessKey: string
  isRelayed: boolean
}

/** A handler's context of its request. The company is always the token's. */
export interface RequestContext extends WriteContext {
  token: Token
  url: string
  /** The storage for companies without their own; null if the deployment has none. */
  deploymentStorage: () => DeploymentStorage | null
  /** The deployment's bucket for contents of email threads that are not in the database. */
  mailContents: R2Bucket
  /** KV for data that may be stale: suppliers' responses. */
  cache: KVNamespace
  credentialsKey: string
  addresses: () => AddressPolicy
  ifNoneMatch: string | null
  ifMatch: string | null
  /** A list sets it to the next page's cursor: the response gets its `Link`. */
  nextCursor?: string | null
  /** Makes later reads of the token at least as fresh as this one. */
  rememberFreshness: () => Promise<void>
  waitUntil: (work: Promise<unknown>) => void
}

export interface AppEnv extends GateEnv {
  Variables: GateEnv['Variables'] & {
    context: RequestContext
    /** The matched contract's operation, for the log. */
    operation?: string
    /** The administration API's caller and company, for the log. */
    actor?: string
    companyId?: number
  }
}
