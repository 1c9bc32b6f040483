import { type SQL, sql } from 'drizzle-orm'
import { ApiError } from '../http/errors.ts'
import { describeBytes } from '../http/messages.ts'
import { type Database, databaseMessage, type Filled, orm, type Placeholders, prepareBatch } from './client.ts'
import { named } from './columns.ts'
import { isHere } from './placement.ts'
import { BYTES_A_ROW, companies, idempotencyKeys, STORED_BYTES } from './schema.ts'

// The storage quotas of a company. Triggers count its rows in the transaction of a change; a table whose rows no request
// updates or deletes has no trigger for that.

const rowsIn = (table: keyof typeof BYTES_A_ROW, key: 'id' | 'sequence') => {
  const end = (name: 'min' | 'max') =>
    sql.raw(`(SELECT ${name}(${key}) FROM ${table} WHERE ${table}.company_id = companies.id)`)
  return sql`${sql.raw(String(BYTES_A_ROW[table]))} * coalesce(1 + ${end('max')} - ${end('min')}, 0)`
}

/** All that a company stores, but for its mail, in a statement on `companies`. */
export const storedBytes = sql<number>`(companies.stored_bytes + ${rowsIn('changes', 'sequence')} + ${rowsIn('audit_log', 'id')})`

const isOverStorage = sql`(companies.recounted_at IS NOT NULL AND ${storedBytes} > companies.storage_quota_bytes)`
const isOverMail = sql`(companies.mail_bytes > companies.mail_quota_bytes)`

const quotaChecks = prepareBatch((p: Placeholders<'companyId'>) => {
  const isCompany = sql`companies.id = ${p.companyId}`
  const before = {
    stored_bytes_checked: sql`iif(${isOverStorage}, ${storedBytes}, 0)`,
    mail_bytes_checked: sql`iif(${isOverMail}, companies.mail_bytes, 0)`,
  }
  const isRaised = sql`${isOverStorage} AND ${storedBytes} > companies.stored_bytes_checked`
  const isMailRaised = sql`${isOverMail} AND companies.mail_bytes > companies.mail_bytes_checked`
  const failure = sql`json_extract('{}', iif(${isMailRaised},
    'mail_quota_exceeded ' || companies.mail_quota_bytes, 'storage_quota_exceeded ' || companies.storage_quota_bytes))`
  return [
    orm
      .update(companies)
      .set(before)
      .where(sql`${isCompany} AND (companies.stored_bytes_checked, companies.mail_bytes_checked)
        <> (${before.stored_bytes_checked}, ${before.mail_bytes_checked})`),
    orm
      .select({ failure: failure.as('failure') })
      .from(companies)
      .where(sql`${isCompany} AND (${isRaised} OR ${isMailRaised})`),
  ]
})

/**
 * Puts the first and the last statement around those of a write: the write is undone if it raises what the company stores
 * above a quota. They write no row unless the company is above one. A deletion is never refused, so it needs neither.
 */
export function withinQuotas<const T extends readonly Filled<unknown>[]>(companyId: number, statements: T) {
  const [before, after] = quotaChecks({ companyId })
  return [before, ...statements, after] as const
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
  return orm
    .update(companies)
    .set({ stored_bytes: sql`companies.stored_bytes - removed.bytes` })
    .from(
      sql`(SELECT company_id, sum(stored_bytes) AS bytes FROM ${idempotencyKeys} WHERE ${rows} GROUP BY company_id) AS removed`,
    )
    .where(sql`companies.id = removed.company_id`)
}

export function recountOf(companyId: number, nowMs: number) {
  const sums = Object.keys(STORED_BYTES).map((name) => {
    const isOf = sql`company_id = ${companyId}${name === 'accounting_outbox' ? sql` AND state <> 'done'` : sql``}`
    return sql`coalesce((SELECT sum(stored_bytes) FROM ${named(name)} WHERE ${isOf}), 0)`
  })
  return orm
    .update(companies)
    .set({ stored_bytes: sql.join(sums, sql` + `), recounted_at: nowMs })
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
