import { type SQL, sql } from 'drizzle-orm'
import { ApiError } from '../http/errors.ts'
import { describeBytes } from '../http/messages.ts'
import { type Database, orm, type Placeholders, prepare } from './client.ts'
import { databaseMessage } from './failures.ts'
import { isHere } from './placement.ts'
import { auditLog, companies, type idempotencyKeys } from './schema.ts'
import { CHANGE_BYTES, STORED_BYTES } from './stored-bytes.ts'
import { named } from './tables.ts'

// The storage quota of a company. Triggers count most tables in the transaction of a change; a table whose rows no request
// updates or deletes has no trigger for that. Entries of the audit log and idempotent results are counted by one statement
// at the end of each batch of the API, which checks the quota as well.

const change = sql.raw(String(CHANGE_BYTES))

/** The feed's bytes follow from its first and last sequence. */
const feedBytes = sql`${change} * (companies.last_change - coalesce(
  (SELECT min(sequence) - 1 FROM changes WHERE changes.company_id = companies.id), companies.last_change))`

/** All that a company stores, but for its mail, in a statement on `companies`. */
export const storedBytes = sql<number>`(companies.stored_bytes + ${feedBytes})`

type Batch = Placeholders<'companyId' | 'tokenId' | 'now', 'idempotencyKey'>

/** The error of SQLite names the quota. */
const EXCEEDED = /storage_quota_exceeded (\d+)/

/**
 * Counts what the batch has added to the audit log and to the idempotent results. `stored_bytes_checked` also has every
 * change of the feed: a batch that does not raise it is never refused.
 */
function countBatch(p: Batch, kind: 'write' | 'deletion' | 'mail') {
  const { companyId, tokenId, idempotencyKey: key, now } = p
  const results = sql`UNION ALL SELECT 0, stored_bytes FROM idempotency_keys
    WHERE company_id = ${companyId} AND token_id = ${tokenId} AND key = ${key} AND created_at = ${now}`
  const added = sql`(SELECT coalesce(sum(bytes), 0) AS bytes, max(id) AS newest FROM (
    SELECT audit_counted AS id, 0 AS bytes FROM companies WHERE id = ${companyId}
    UNION ALL SELECT id, stored_bytes FROM audit_log INDEXED BY audit_log_company
      WHERE company_id = ${companyId} AND id > (SELECT audit_counted FROM companies WHERE id = ${companyId})
    ${key ? results : sql``})) AS added`
  const counted = sql`companies.stored_bytes + added.bytes`
  const measure = sql`(${counted} + ${change} * companies.last_change)`
  const isOver = sql`companies.recounted_at IS NOT NULL AND ${measure} > companies.stored_bytes_checked
    AND ${counted} + ${feedBytes} > companies.storage_quota_bytes`
  const failure = sql`json_extract('{}', 'storage_quota_exceeded ' || companies.storage_quota_bytes)`
  const isChanged = sql`companies.stored_bytes_checked <> ${measure}`
  return orm
    .update(companies)
    .set({
      stored_bytes: counted,
      audit_counted: sql`added.newest`,
      stored_bytes_checked: kind === 'deletion' ? measure : sql`iif(${isOver}, ${failure}, ${measure})`,
      ...(kind === 'mail' && { mail_bytes_checked: sql`companies.mail_bytes` }),
    })
    .from(added)
    .where(
      sql`companies.id = ${companyId} AND (${isChanged}${kind === 'mail' ? sql` OR companies.mail_bytes_checked <> companies.mail_bytes` : sql``})`,
    )
}

/** The last statement of every batch of the API. It undoes a batch that raises what is stored above the quota. */
export const checkQuota = prepare((p: Batch) => countBatch(p, 'write'))
/** The same of a batch that deletes, which is never refused. */
export const countDeletion = prepare((p: Batch) => countBatch(p, 'deletion'))
/** {@link checkQuota} of a write of email threads: a trigger also undoes it when it raised `mail_bytes` above their quota. */
export const checkMailQuotas = prepare((p: Batch) => countBatch(p, 'mail'))

/** 413 for a batch that {@link checkQuota} has undone; null for any other failure. */
export function quotaRefusal(error: unknown): ApiError | null {
  const [, quota] = EXCEEDED.exec(databaseMessage(error)) ?? []
  if (quota === undefined) return null
  const message = `The company would store more than its quota, ${describeBytes(Number(quota))}: delete or shorten what it stores, or ask the operator for more`
  return new ApiError('too_large', { message, details: { reason: 'storage_quota', limit_bytes: Number(quota) } })
}

/** Subtracts rows that the same batch removes next. */
export function uncount(table: typeof auditLog | typeof idempotencyKeys, rows: SQL) {
  const isCounted =
    table === auditLog ? sql`id <= (SELECT audit_counted FROM companies AS c WHERE c.id = company_id)` : sql`true`
  const removed = sql`(SELECT company_id, sum(stored_bytes) AS bytes FROM ${table}
    WHERE ${rows} AND ${isCounted} GROUP BY company_id) AS removed`
  const less = (name: 'stored_bytes' | 'stored_bytes_checked') => sql`companies.${named(name)} - removed.bytes`
  return orm
    .update(companies)
    .set({ stored_bytes: less('stored_bytes'), stored_bytes_checked: less('stored_bytes_checked') })
    .from(removed)
    .where(sql`companies.id = removed.company_id`)
}

/** An id of the audit log is given out again when the newest entries are removed: it would count as counted. */
export function lowerAuditCounted() {
  const newest = sql`coalesce((SELECT max(id) FROM audit_log WHERE company_id = companies.id), 0)`
  return orm.update(companies).set({ audit_counted: newest }).where(sql`audit_counted > ${newest}`)
}

/** Recounts all rows of a company. */
export function recountOf(companyId: number, nowMs: number) {
  const sums = Object.keys(STORED_BYTES).map((name) => {
    const isOf = sql`company_id = ${companyId}${name === 'accounting_outbox' ? sql` AND state <> 'done'` : sql``}`
    return sql`coalesce((SELECT sum(stored_bytes) FROM ${named(name)} WHERE ${isOf}), 0)`
  })
  return orm
    .update(companies)
    .set({
      stored_bytes: sql`counted.bytes`,
      stored_bytes_checked: sql`counted.bytes + ${change} * companies.last_change`,
      audit_counted: sql`coalesce((SELECT max(id) FROM audit_log WHERE company_id = ${companyId}), 0)`,
      recounted_at: nowMs,
    })
    .from(sql`(SELECT ${sql.join(sums, sql` + `)} AS bytes) AS counted`)
    .where(sql`companies.id = ${companyId}`)
}

const DAY_MS = 86_400_000
/** Companies recounted by one sweep, every 5 minutes: 1,024 take less than a day. */
const RECOUNTED_AT_ONCE = 4

/** Recounts some companies of a database, each once a day: so a row that was written without its triggers counts too. */
export async function recountDaily(db: Database, nowMs: number): Promise<void> {
  const [due] = await db.read([
    orm
      .select({ id: companies.id })
      .from(companies)
      .where(sql`coalesce(recounted_at, 0) < ${nowMs - DAY_MS} AND ${isHere}`)
      .orderBy(sql`coalesce(recounted_at, -1)`)
      .limit(RECOUNTED_AT_ONCE),
  ])
  for (const { id } of due) await db.writeIdempotent([recountOf(id, nowMs)])
}
