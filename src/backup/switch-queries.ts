import { getTableColumns } from 'drizzle-orm'
import { type CompanyContext, statement } from '../db/client.ts'
import { DIRECTORY } from '../db/placement.ts'
import { columnsOf, tableOf } from '../db/tables.ts'
import type { Row } from './format.ts'
import { whileAway } from './move-queries.ts'
import { AUDIT, CHANGES, EVENTS, FULL_TEXT, MOVED, type MovedTable, REMOVED } from './move-tables.ts'

/** Rows that one statement removes; few where a row may have 2 MB. */
const REMOVED_ROWS = 500
const REMOVED_SEGMENTS = 20

const conditionOf = (table: string) =>
  table === 'email_thread_segments'
    ? 'thread_id IN (SELECT t.id FROM email_threads AS t WHERE t.company_id = ?1)'
    : 'company_id = ?1'

/** Prime, so that every digit of a number counts. */
const MODULUS = 1_000_003

/** How many rows a table has of the company, and a checksum of them that does not depend on their order. */
function fingerprint(companyId: number, { table, where = '1' }: MovedTable) {
  const isNumbered = table === EVENTS.table || table === AUDIT.table
  const values = columnsOf({ table })
    .filter(({ name }) => !(isNumbered && name === 'id'))
    .map(({ name, dataType }, index) => {
      const column = `"${name}"`
      const isText = dataType === 'string' || dataType === 'json'
      // The ends of a large text are not worth reading all of it.
      const ends =
        name === 'data' ? '' : ` + coalesce(unicode(${column}), 0) * 7 + coalesce(unicode(substr(${column}, -1)), 0)`
      const number = isText ? `octet_length(${column}) * 31${ends}` : `CAST(${column} * 10000 AS INTEGER)`
      return `coalesce((${number}) % ${MODULUS}, ${MODULUS}) * ${2 * index + 1}`
    })
  return statement<{ name: string; count: number; checksum: number }>(
    `SELECT '${table}' AS name, count(*) AS count, coalesce(sum(${values.join(' + ')}), 0) % 4503599627370449 AS checksum
      FROM ${table} WHERE ${conditionOf(table)} AND ${where}`,
    companyId,
  )
}

/** Removes changes that the old database has removed meanwhile, for their age. */
export async function removeOldChanges({ companyId, db }: CompanyContext, oldest: number): Promise<void> {
  await db.writeIdempotent([
    statement('DELETE FROM changes WHERE company_id = ?1 AND sequence < ?2', companyId, oldest),
  ])
}

/** What triggers keep, which must be the same in both databases. */
const DERIVED = [
  ['order_counts', 'sum(count * (client_id % 997 + 1))', 'count > 0'],
  ['client_blocks', 'sum(live * (block % 997 + 1))', 'live > 0'],
  ['thread_context_links', 'sum(entity_id % 1000003)', '1'],
] as const

/** Entries of the audit log that no sweep removes for another day. */
const AUDITED_MS = 89 * 24 * 3_600_000

/** The number of rows of each table of the company, and their checksums. */
export async function readFingerprints({ companyId, db }: CompanyContext, nowMs: number) {
  const derived = DERIVED.map(([table, sum, where]) =>
    statement<{ name: string; count: number; checksum: number }>(
      `SELECT '${table}' AS name, count(*) AS count, coalesce(${sum}, 0) AS checksum FROM ${table}
        WHERE company_id = ?1 AND ${where}`,
      companyId,
    ),
  )
  const counters = statement<{ name: string; count: number; checksum: number }>(
    `SELECT 'companies' AS name, client_count * 1000003 + order_count AS count, 0 AS checksum
      FROM companies WHERE id = ?1`,
    companyId,
  )
  // The sweep removes older entries, in the old database only.
  const audit = { ...AUDIT, where: `at > ${nowMs - AUDITED_MS}` }
  const [first, ...rest] = [...MOVED, CHANGES, EVENTS, audit].map((moved) => fingerprint(companyId, moved))
  const results = first ? await db.read([first, ...rest, ...derived, counters]) : []
  return results.flat()
}

/** Columns of `companies` that are of one database. */
const OWN_COLUMNS = ['id', 'slot', 'database', 'database_slot', 'mail_quota_bytes']

/** Completes the company's row in its new database, which takes writes from now on. Nothing refers to it yet. */
export async function openDestination({ companyId, db }: CompanyContext, company: Row): Promise<void> {
  const names = Object.keys(company).filter((name) => !OWN_COLUMNS.includes(name))
  const set = names.map((name) => `"${name}" = ?`)
  const values = names.map((name) => company[name] ?? null)
  await db.writeIdempotent([
    statement("UPDATE company_guards SET state = 'open' WHERE company_id = ?", companyId),
    // The quota does not refuse what is stored already.
    statement(`UPDATE companies SET mail_quota_bytes = ${2 ** 50} WHERE id = ?`, companyId),
    statement(`UPDATE companies SET ${set.join(', ')} WHERE id = ?`, ...values, companyId),
    statement('UPDATE companies SET mail_quota_bytes = ? WHERE id = ?', company.mail_quota_bytes ?? null, companyId),
  ])
}

/** Refuses writes in the new database again: what is copied stays. */
export async function closeDestination({ companyId, db }: CompanyContext): Promise<void> {
  await db.writeIdempotent([
    statement("UPDATE company_guards SET state = 'away' WHERE company_id = ? AND state = 'open'", companyId),
  ])
}

/**
 * The moment of a move: the old database refuses every request from here on and names the new one. Where it is the
 * directory, this is one transaction with the placement.
 *
 * @returns whether the company was still frozen; else nothing is changed
 */
export async function closeSource(
  { companyId, db }: CompanyContext,
  { source, destination, slot }: { source: string; destination: string; slot: number },
): Promise<boolean> {
  const leave = statement<{ state: string }>(
    "UPDATE company_guards SET state = 'away', frozen_at = NULL WHERE company_id = ? AND state = 'frozen' RETURNING state",
    companyId,
  )
  const where = "EXISTS (SELECT 1 FROM company_guards WHERE company_id = ?3 AND state = 'away')"
  const placed = statement(
    `UPDATE companies SET database = ?1, database_slot = ?2 WHERE id = ?3 AND ${where}`,
    ...[destination, slot, companyId],
  )
  const [rows] = await db.write([leave, ...(source === DIRECTORY ? [placed] : [])])
  return rows.length > 0
}

export async function isAway({ companyId, db }: CompanyContext): Promise<boolean> {
  const [rows] = await db.read([
    statement("SELECT 1 AS one FROM company_guards WHERE company_id = ? AND state = 'away'", companyId),
  ])
  return rows.length > 0
}

/** Writes where a company is into the directory. @param context of the directory */
export async function setPlacement({ companyId, db }: CompanyContext, database: string, slot: number): Promise<void> {
  const [binding, place] = database === DIRECTORY ? [null, null] : [database, slot]
  const update = 'UPDATE companies SET database = ?, database_slot = ? WHERE id = ?'
  await db.writeIdempotent([statement(update, binding, place, companyId)])
}

/**
 * Removes some rows of a company from a database in which it is `away`.
 *
 * @param step the place in the list of what is removed
 * @returns the next step; null when everything is removed
 */
export async function removeRows(context: CompanyContext, database: string, step: number): Promise<number | null> {
  const { companyId, db } = context
  const remove = removal(companyId, step)
  if (remove) {
    const [[found]] = await db.writeIdempotent([remove.count, ...whileAway(context, [remove.statement])])
    return (found?.count ?? 0) < remove.limit ? step + 1 : step
  }
  if (database !== DIRECTORY) {
    await db.writeIdempotent(whileAway(context, [statement('DELETE FROM companies WHERE id = ?', companyId)]))
  }
  return null
}

/** The statements that remove up to `limit` rows, and count them before: full-text tables do not return what they remove. */
function removing(companyId: number, limit: number, table: string, key: string, where: string) {
  const rows = `SELECT ${key} FROM ${table} WHERE ${where} LIMIT ${limit}`
  return {
    limit,
    count: statement<{ count: number }>(`SELECT count(*) AS count FROM (${rows})`, companyId),
    statement: statement(`DELETE FROM ${table} WHERE (${key}) IN (${rows})`, companyId),
  }
}

function removal(companyId: number, step: number) {
  const table = FULL_TEXT[step]
  if (table) {
    const slot = '(SELECT CAST(slot AS INTEGER) << 53 FROM companies WHERE id = ?1)'
    return removing(companyId, REMOVED_ROWS, table, 'rowid', `rowid >= ${slot} AND rowid <= ${slot} + 9007199254740991`)
  }
  const removed = REMOVED[step - FULL_TEXT.length]
  if (!removed) return null
  const limit = /segments|uploads/.test(removed.table) ? REMOVED_SEGMENTS : REMOVED_ROWS
  const ofCompany = 'company_id' in getTableColumns(tableOf(removed.table)) ? ['company_id'] : []
  const key = [...ofCompany, ...removed.key].join(', ')
  return removing(companyId, limit, removed.table, key, conditionOf(removed.table))
}
