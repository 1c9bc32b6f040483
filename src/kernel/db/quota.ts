import { type SQL, sql } from 'drizzle-orm'
import { ApiError } from '../http/errors.ts'
import { describeBytes } from '../http/messages.ts'
import { type Database, databaseMessage, type Filled, statement } from './client.ts'
import { isHere } from './placement.ts'
import { BYTES_A_ROW, STORED_BYTES } from './schema.ts'

// The storage quotas of a company. Triggers count its rows in the transaction of a change; a table whose rows no request
// updates or deletes has no trigger for that.

const rowsIn = (table: keyof typeof BYTES_A_ROW, key: 'id' | 'sequence') => {
  const end = (name: 'min' | 'max') => `(SELECT ${name}(${key}) FROM ${table} WHERE company_id = companies.id)`
  return `${BYTES_A_ROW[table]} * coalesce(1 + ${end('max')} - ${end('min')}, 0)`
}

const STORED = `(companies.stored_bytes + ${rowsIn('changes', 'sequence')} + ${rowsIn('audit_log', 'id')})`

/** All that a company stores, but for its mail, in a statement on `companies`. */
export const storedBytes = sql<number>`${sql.raw(STORED)}`

const IS_OVER = `(recounted_at IS NOT NULL AND ${STORED} > storage_quota_bytes)`
const CHECKED = `iif(${IS_OVER}, ${STORED}, 0), iif(mail_bytes > mail_quota_bytes, mail_bytes, 0)`
const NOTE_BEFORE = `UPDATE companies SET (stored_bytes_checked, mail_bytes_checked) = (SELECT ${CHECKED})
  WHERE id = ? AND (stored_bytes_checked, mail_bytes_checked) <> (${CHECKED})`

const IS_RAISED = `(${IS_OVER} AND ${STORED} > stored_bytes_checked)`
const IS_MAIL_RAISED = '(mail_bytes > mail_quota_bytes AND mail_bytes > mail_bytes_checked)'
const FAIL_IF_RAISED = `SELECT json_extract('{}', iif(${IS_MAIL_RAISED},
    'mail_quota_exceeded ' || mail_quota_bytes, 'storage_quota_exceeded ' || storage_quota_bytes))
  FROM companies WHERE id = ? AND (${IS_RAISED} OR ${IS_MAIL_RAISED})`

/**
 * Puts the first and the last statement around those of a write: the write is undone if it raises what the company stores
 * above a quota. They write no row unless the company is above one. A deletion is never refused, so it needs neither.
 */
export function withinQuotas<const T extends readonly Filled<unknown>[]>(companyId: number, statements: T) {
  return [statement(NOTE_BEFORE, companyId), ...statements, statement(FAIL_IF_RAISED, companyId)] as const
}

/** 413 for a batch undone by {@link withinQuotas}; null for any other failure. */
export function quotaRefusal(error: unknown): ApiError | null {
  const [, of, quota] = /(storage|mail)_quota_exceeded (\d+)/.exec(databaseMessage(error)) ?? []
  if (quota === undefined) return null
  const limit_bytes = Number(quota)
  const message =
    of === 'mail'
      ? `The thread would exceed the company’s quota of stored mail, ${describeBytes(limit_bytes)}`
      : `The company would store more than its quota, ${describeBytes(limit_bytes)}: delete or shorten what it stores, or ask the operator for more`
  return new ApiError('too_large', { message, details: { reason: 'storage_quota', limit_bytes } })
}

/** Subtracts idempotent results that the same batch removes next. */
export function uncountResults(rows: SQL) {
  return statement(sql`UPDATE companies SET stored_bytes = companies.stored_bytes - removed.bytes FROM (
      SELECT company_id, sum(stored_bytes) AS bytes FROM idempotency_keys WHERE ${rows} GROUP BY company_id) AS removed
    WHERE companies.id = removed.company_id`)
}

export function recountOf(companyId: number, nowMs: number) {
  const sums = Object.keys(STORED_BYTES).map((name) => {
    const isOf = `company_id = companies.id${name === 'accounting_outbox' ? " AND state <> 'done'" : ''}`
    return `coalesce((SELECT sum(stored_bytes) FROM ${name} WHERE ${isOf}), 0)`
  })
  return statement(
    `UPDATE companies SET stored_bytes = ${sums.join(' + ')}, recounted_at = ? WHERE id = ?`,
    nowMs,
    companyId,
  )
}

const DAY_MS = 86_400_000
/** Companies recounted by one sweep, every 5 minutes: 1,024 take less than a day. */
const RECOUNTED_AT_ONCE = 4
/** A recount of 2 GB takes seconds, for which the other companies wait: a larger company's triggers must do. */
const RECOUNTED_MAX_BYTES = 200_000_000

/** Recounts some companies, each once a day, for rows written without triggers. In any order: one may always fail. */
export async function recountDaily(db: Database, nowMs: number): Promise<void> {
  const [due] = await db.read([
    statement<{ id: number }>(sql`SELECT id FROM companies WHERE ${isHere} AND (recounted_at IS NULL
      OR (recounted_at < ${nowMs - DAY_MS} AND stored_bytes <= ${RECOUNTED_MAX_BYTES}))
      ORDER BY random() LIMIT ${RECOUNTED_AT_ONCE}`),
  ])
  for (const { id } of due) await db.writeIdempotent([recountOf(id, nowMs)])
}
