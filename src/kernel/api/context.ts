import type { Env } from '../../env.ts'
import type { Database, DatabaseUse } from '../db/client.ts'
import type { WriteContext } from '../db/context.ts'
import type { RequestUsage } from '../gate/token-request.ts'
import type { Token } from '../gate/tokens.ts'
import type { AddressPolicy } from '../http/address.ts'
import type { Lease } from '../http/memory.ts'

/** The deployment's own storage: account-level S3 keys to its bucket, which a binding cannot presign with. */
export interface DeploymentStorage {
  bucket: R2Bucket
  endpoint: string
  name: string
  region: string
  accessKeyId: string
  secretAccessKey: string
  /** Whether URLs lead through the relay of development. */
  isRelayed: boolean
}

/** What a handler knows of its request. The company is the token's; there is no other. */
export interface RequestContext extends WriteContext {
  token: Token
  /** Opens the database that has the token's own row. */
  openDirectory: () => Database
  /** Of companies without a storage of their own; null where the deployment has none. */
  deploymentStorage: DeploymentStorage | null
  /** Of the deployment: contents of email threads that the database does not hold. */
  mailContents: R2Bucket
  /** What may be stale: suppliers' responses. */
  cache: KVNamespace
  /** Decrypts the credentials of integrations. */
  credentialsKey: string
  /** Which addresses of integrations are called. */
  addresses: AddressPolicy
  /** The request's `If-None-Match` and `If-Match`. */
  ifNoneMatch: string | null
  ifMatch: string | null
  /** Makes later reads of the token at least as fresh as this one. */
  rememberFreshness: () => Promise<void>
  /** Work that continues after the response. */
  waitUntil: (work: Promise<unknown>) => void
}

/** Hono's types of this application. */
export interface AppEnv {
  Bindings: Env
  Variables: {
    requestId: string
    /** When the request arrived, in milliseconds since the epoch. */
    receivedAt: number
    databaseUse: DatabaseUse
    token?: Token | undefined
    context: RequestContext
    usage: RequestUsage
    /** The memory for large bodies that the request uses. */
    lease: Lease
    /** What the endpoint's `prefetch` reads. */
    prefetched: Promise<void> | undefined
    /** SHA-256 of the body of a request with an `Idempotency-Key`. */
    bodyHash: string | undefined
    /** The matched contract's operation, for the log. */
    operation?: string
    /** Who sends a request to the administration API, and the company that they administer, for the log. */
    actor?: string
    companyId?: number
  }
}
