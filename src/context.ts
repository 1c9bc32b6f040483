import type { Token } from './auth/tokens.ts'
import type { Database } from './db/client.ts'
import type { Env } from './env.ts'
import type { FileStorage } from './files/storage.ts'
import type { RequestUsage } from './rate-limit/usage.ts'
import type { Verdict } from './rate-limit/window.ts'
import type { Lease } from './http/memory.ts'

/** What a handler knows of the request that it answers. The company is the token's; there is no other. */
export interface RequestContext {
  requestId: string
  /** Milliseconds since the epoch, when the request came. */
  now: number
  token: Token
  companyId: number
  db: Database
  /** Where files are kept for companies without a storage of their own; null where the deployment has none. */
  deploymentStorage: FileStorage | null
  /** What may be old: suppliers' answers. */
  cache: KVNamespace
  /** Decrypts the credentials of integrations. */
  credentialsKey: string
  /** The request's `If-None-Match`. */
  ifNoneMatch: string | null
  /** After the answer: has the company's notices for its accounting system delivered. */
  wakeAccounting: () => void
  /** Work that goes on after the answer. */
  later: (work: Promise<unknown>) => void
}

/** Hono's types of this application. */
export interface AppEnv {
  Bindings: Env
  Variables: {
    requestId: string
    token?: Token
    context: RequestContext
    usage: RequestUsage
    /** What the limiter says of this request. */
    limit: Promise<Verdict>
    /** What the request holds of the isolate's memory for large bodies. */
    lease: Lease
    /** The matched contract's operation, for the log. */
    operation?: string
  }
}
