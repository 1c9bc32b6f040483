import type { MiddlewareHandler } from 'hono'
import { startDelivery } from '../../delivery/accounting/delivery.ts'
import { startWebhooks } from '../../delivery/webhooks/delivery.ts'
import type { Env } from '../../env.ts'
import type { AdminContext } from '../../operation/admin/context.ts'
import { deploymentStorage, type FileStorage } from '../../resources/files/storage.ts'
import type { CompanyContext, Database, DatabaseUse, Idempotency } from '../db/client.ts'
import { databaseFor, directoryFor } from '../db/placement.ts'
import type { RequestUsage } from '../gate/middleware.ts'
import type { Permission } from '../gate/permissions.ts'
import type { Token } from '../gate/tokens.ts'
import { type AddressPolicy, addressPolicy } from '../http/address.ts'
import type { Lease } from '../http/memory.ts'

/** What a handler knows of its request. The company is the token's; there is no other. */
export interface RequestContext extends CompanyContext {
  requestId: string
  /** When the request arrived, in milliseconds since the epoch. */
  now: number
  token: Token
  /** Opens the database that has the token's own row. */
  openDirectory: () => Database
  /** Opens the storage of companies without one of their own; null where the deployment has none. */
  deploymentStorage: () => FileStorage | null
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
  /** The request's `Idempotency-Key`; null where there is none, or the operation does not take one. */
  idempotency: Idempotency | null
  /** Starts the delivery of the company's accounting events, after the response. */
  deliverAccounting: () => void
  /** Starts the delivery to the company's webhook endpoints, if it has any, after the response. */
  announceChange: () => void
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
    token?: Token
    context: RequestContext
    usage: RequestUsage
    /** What the route requires of the token. */
    required?: Permission
    /** The memory for large bodies that the request uses. */
    lease: Lease
    /** What the endpoint's `prefetch` reads. */
    prefetched: Promise<void> | undefined
    /** SHA-256 of the body of a request with an `Idempotency-Key`. */
    bodyHash: string | undefined
    /** The matched contract's operation, for the log. */
    operation?: string
    /** Who sends a request to the administration API, for the log, and what its handlers know of it. */
    actor?: string
    admin: AdminContext
  }
}

/** Opens the company's database and hands the bindings on, each as what it is for. Runs behind `authenticate`. */
export const openContext: MiddlewareHandler<AppEnv> = async (c, next) => {
  const { env } = c
  const now = c.get('receivedAt')
  const waitUntil = (work: Promise<unknown>) => c.executionCtx.waitUntil(work)
  const usage = c.get('usage')
  const { token } = usage
  const { companyId } = token
  c.set('token', token)
  const use = c.get('databaseUse')
  const db = openDatabase(env, usage, c.req.header('x-bookmark'), use)
  c.set('context', {
    requestId: c.get('requestId'),
    now,
    token,
    companyId,
    db,
    openDirectory: () => directoryFor(env, { meter: usage, use }),
    deploymentStorage: () => deploymentStorage(env, c.req.url, now),
    mailContents: env.FILES,
    cache: env.CACHE,
    credentialsKey: env.CREDENTIALS_KEY,
    addresses: addressPolicy(env),
    ifNoneMatch: c.req.header('if-none-match') ?? null,
    ifMatch: c.req.header('if-match') ?? null,
    idempotency: null,
    deliverAccounting: () => waitUntil(startDelivery(env, companyId, db.primaryRegion())),
    announceChange: () => {
      if (token.hasWebhooks) waitUntil(startWebhooks(env, companyId, db.primaryRegion()))
    },
    rememberFreshness: () => usage.remember(),
    waitUntil,
  })
  await next()

  const bookmark = db.bookmark()
  const { headers } = c.res
  if (bookmark) headers.set('X-Bookmark', bookmark)
  headers.set('Server-Timing', `db;dur=${db.waitedMs()}`)
}

/**
 * The database of the request's company. While the request runs beside the call of its token's object, its reads wait for
 * that call too, and are repeated where the company was moved meanwhile.
 */
function openDatabase(env: Env, usage: RequestUsage, sent: string | undefined, use: DatabaseUse): Database {
  const open = ({ companyId, database, companySlot: slot }: Token) => {
    const mark = usage.freshness(sent)
    const opened = databaseFor(
      env,
      { companyId, database, slot },
      { ...(mark !== 'primary' && { bookmark: mark }), meter: usage, use, onMoved: () => usage.forget() },
    )
    usage.open(opened.bookmark)
    return opened
  }
  const assumed = usage.token
  let db = open(assumed)
  if (!usage.isAssumed) return db

  const settle = async () => {
    const { database } = await usage.admitted()
    if (database !== assumed.database) db = open(usage.token)
    return db
  }
  return {
    read: async (queries) => {
      const first = db
      const [values, settled] = await Promise.all([first.read(queries), settle()])
      return settled === first ? values : settled.read(queries)
    },
    write: async (queries) => (await settle()).write(queries),
    writeIdempotent: async (queries) => (await settle()).writeIdempotent(queries),
    bookmark: () => db.bookmark(),
    primaryRegion: () => db.primaryRegion(),
    waitedMs: () => db.waitedMs(),
  }
}
