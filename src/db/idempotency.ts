import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { type ApiError, conflict, unusable } from '../http/errors.ts'
import { actorOf } from './audit.ts'
import { databaseMessage, type Idempotency, orm, type Placeholders, prepare, type Statements } from './client.ts'
import { insertRow } from './columns.ts'
import { idempotencyKeys } from './schema.ts'
import { IDEMPOTENCY_TTL_MS } from './sweep.ts'

/** The placeholders of a keyed write. Without a key they are not given. */
export type KeyName = 'idempotencyKey' | 'fingerprint' | 'position'

/** Who changes something, and with which key. */
export function writerOf(context: RequestContext) {
  const { key, fingerprint, position } = context.idempotency ?? {}
  return { ...actorOf(context), idempotencyKey: key, fingerprint, position }
}

/**
 * A change, as one batch. With the request's `Idempotency-Key` it happens once: the batch stores its result, or fails as
 * a whole on the stored one.
 */
export interface Write<T> {
  statements: Statements
  /** The place of the {@link resultStatement}; the last where it is left out. */
  result?: number
  /** The place of the statement that returns a row when it writes an accounting event. */
  event?: number
  /** Whether it leaves the same when it runs twice. */
  isIdempotent?: boolean
  /** Decodes the result. @throws ApiError when the batch changed nothing */
  read: (result: string | null) => T
}

/** Selects the result of a write, which is JSON or null; with a key, stores it beside. */
export function resultStatement(p: Placeholders<'companyId' | 'tokenId' | 'now', KeyName>, result: SQL) {
  const { companyId, tokenId, idempotencyKey, fingerprint, position, now } = p
  if (!idempotencyKey) return orm.select({ result: sql<string | null>`(${result})`.as('result') }).from(sql`(SELECT 1)`)
  const key = { company_id: companyId, token_id: tokenId, key: idempotencyKey, position }
  return insertRow(
    idempotencyKeys,
    { ...key, fingerprint, result: sql`(${result})`, created_at: now },
    sql`WHERE true`,
  ).returning({ result: idempotencyKeys.result })
}

/** The error by which {@link requireVersion} fails its batch: only triggers have RAISE. */
const VERSION_MISMATCH = 'version_mismatch'

/**
 * A statement that fails its batch when the row exists in another version.
 *
 * @param versions JSON array of the acceptable ones
 */
export function requireVersion(table: SQL, isRow: SQL, versions: SQL) {
  // The path depends on the row, or SQLite would evaluate it without one.
  const failure = sql`json_extract('{}', ${sql.raw(`'${VERSION_MISMATCH}'`)} || version)`
  return orm
    .select({ mismatch: sql`${failure}`.as('mismatch') })
    .from(sql`${table}`)
    .where(sql`${isRow} AND version NOT IN (SELECT value FROM json_each(${versions}))`)
}

/**
 * Runs a write in one round trip; two when the key is that of an earlier request, whose result is then returned.
 *
 * @throws ApiError 400 when the key is that of another request, 409 for an `external_id` that is taken, 412 for another
 *   version than `If-Match` names
 */
export async function runWrite<T>(context: RequestContext, write: Write<T>): Promise<T> {
  const { db, idempotency } = context
  const run = write.isIdempotent || idempotency ? db.writeIdempotent : db.write
  const results = await run(write.statements).catch(async (error: unknown) => {
    const refusal = refusalOf(error)
    if (!refusal) throw error
    const stored = idempotency ? await findStored(context, idempotency) : undefined
    if (stored === 'expired') return run(write.statements)
    if (!stored) throw refusal
    return stored
  })
  if ('result' in results) return write.read(results.result)
  const rows = results as readonly unknown[][]
  if (write.event !== undefined && rows[write.event]?.length) context.deliverAccounting()
  const [last] = (rows.at(write.result ?? -1) ?? []) as { result: string | null }[]
  const value = write.read(last?.result ?? null)
  context.announceChange()
  return value
}

/** What a failed batch means for the caller; null where it is no refusal. */
export function refusalOf(error: unknown): ApiError | null {
  const message = databaseMessage(error)
  if (message.includes(VERSION_MISMATCH)) return unusable('version_mismatch')
  if (/UNIQUE constraint failed: (clients|orders)\.company_id, \1\.external_id/.test(message)) {
    return unusable('external_id_taken')
  }
  if (!message.includes('UNIQUE constraint failed: idempotency_keys')) return null
  return conflict('idempotency_key_in_use', 1)
}

type KeyValues = Placeholders<'companyId' | 'tokenId' | 'idempotencyKey' | 'position'>

const isKey = (p: KeyValues) => sql`company_id = ${p.companyId} AND token_id = ${p.tokenId}
  AND key = ${p.idempotencyKey} AND position = ${p.position}`

const storedResult = prepare((p: KeyValues) => {
  const { result, fingerprint, created_at } = idempotencyKeys
  return orm.select({ result, fingerprint, created_at }).from(idempotencyKeys).where(isKey(p))
})

const removeKey = prepare((p: KeyValues) => orm.delete(idempotencyKeys).where(isKey(p)))

/** @throws ApiError 400 when the key is that of another request */
async function findStored({ db, companyId, token, now }: RequestContext, idempotency: Idempotency) {
  const { key: idempotencyKey, position, fingerprint } = idempotency
  const key = { companyId, tokenId: token.id, idempotencyKey, position }
  const [[stored]] = await db.read([storedResult(key)])
  if (!stored) return undefined
  if (stored.created_at <= now - IDEMPOTENCY_TTL_MS) {
    await db.writeIdempotent([removeKey(key)])
    return 'expired'
  }
  if (stored.fingerprint !== fingerprint) throw unusable('idempotency_key_reused')
  idempotency.isReplayed = true
  return { result: stored.result }
}

const storedOnly = prepare((p: Placeholders<'companyId' | 'tokenId' | 'now' | 'response', KeyName>) =>
  resultStatement(p, sql`${p.response}`),
)

/**
 * Stores the response of a change that happened outside of the database, or of a request without one; returns the stored
 * response of an earlier request with the same key. Without a key nothing is stored.
 */
export async function storeResponse<T>(context: RequestContext, response: T): Promise<T> {
  if (!context.idempotency) return response
  const { requestId, ...values } = writerOf(context)
  const statements = [storedOnly({ ...values, response: JSON.stringify(response) })] as const
  return runWrite(context, { statements, read: (result) => JSON.parse(result ?? 'null') as T })
}

/** The stored response of an earlier request with the same key, for changes outside of the database. */
export async function findResponse<T>(context: RequestContext): Promise<T | undefined> {
  const stored = context.idempotency ? await findStored(context, context.idempotency) : undefined
  return typeof stored === 'object' ? (JSON.parse(stored.result ?? 'null') as T) : undefined
}
