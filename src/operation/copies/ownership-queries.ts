import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { Administrator } from '../../kernel/db/audit.ts'
import { adminEntry } from '../../kernel/db/audit.ts'
import { statement } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { DIRECTORY } from '../../kernel/db/placement.ts'
import { named, tableOf } from '../../kernel/db/tables.ts'
import type { Row, Value } from './format.ts'
import { COPY_CHANGES, isAmong, whileAway } from './move-queries.ts'
import { CHANGES, FULL_TEXT, MOVED, type MovedTable, REMOVED } from './move-tables.ts'
import { ofCompany, readPage } from './queries.ts'

/** Limits the rows that one statement removes; few, since a row may have 2 MB. */
const REMOVED_ROWS = 500
const REMOVED_SEGMENTS = 20

const conditionOf = (table: string) =>
  table === 'email_thread_segments'
    ? 'thread_id IN (SELECT t.id FROM email_threads AS t WHERE t.company_id = ?1)'
    : 'company_id = ?1'

/** Removes changes that the old database has expired meanwhile. */
export async function removeOldChanges({ companyId, db }: CompanyContext, oldest: number): Promise<void> {
  await db.writeIdempotent([
    statement('DELETE FROM changes WHERE company_id = ?1 AND sequence < ?2', companyId, oldest),
  ])
}

/** Rows that are compared at once. */
const COMPARED_ROWS = 1_000
/** The sweep removes older changes and audit entries soon, and in the old database only. */
const CHANGES_MS = 30 * 24 * 3_600_000
const AUDIT_MS = 89 * 24 * 3_600_000

/** Selects the rows to compare: some keys, or all after one key up to another. */
export interface Compared {
  keys?: readonly Value[][]
  after: Value[] | null
  until?: Value[] | null
  /** The last change to compare. */
  newest?: number | null
}

/** A page of rows to compare. */
export async function readCompared(context: CompanyContext, moved: MovedTable, which: Compared) {
  const { table, key, order = key } = moved
  const { keys, after, until, newest } = which
  const isOf = keys ? isAmong(context, moved, keys) : ofCompany(context, moved)
  const list = (values: SQL[]) => sql.join(values, sql`, `)
  const upTo = until ? sql`AND (${list(order.map(named))}) <= (${list(until.map((value) => sql`${value}`))})` : sql``
  const copied = newest == null ? sql`` : sql`AND sequence <= ${newest} AND at > ${Date.now() - CHANGES_MS}`
  const plan = { table, key: order, pageRows: COMPARED_ROWS }
  return readPage(context, { plan, where: sql`${isOf} ${upTo} ${copied}` }, after)
}

/** Finds the newest copied change; 0 without any. */
export async function readNewestChange({ companyId, db }: CompanyContext): Promise<number> {
  const newest = 'SELECT coalesce(max(sequence), 0) AS sequence FROM changes WHERE company_id = ?'
  const [[row]] = await db.read([statement<{ sequence: number }>(newest, companyId)])
  return row?.sequence ?? 0
}

/** Sums to compare at the end besides row counts: rows written by triggers, and rows with other ids. */
const SUMS: [table: string, sum: string, where: string][] = [
  ['thread_context_links', 'sum(entity_id % 1000003)', '1'],
  [
    'accounting_outbox',
    "sum(order_id % 1000003 * 31 + created_at % 1000003 + octet_length(operation || state || coalesce(request_body, '')))",
    "state <> 'done'",
  ],
  ['audit_log', 'sum(at % 1000003 * 31 + token_id % 997 + octet_length(entity_id || action))', 'at > ?2'],
]

/** Counts and sums the company's rows in a database. */
export async function readEnds({ companyId, db }: CompanyContext, nowMs: number) {
  const texts = [
    ...[...MOVED, CHANGES].map(({ table }) => [table, '0', conditionOf(table)]),
    ...SUMS.map(([table, sum, where]) => [table, sum, `company_id = ?1 AND ${where}`]),
  ].map(
    ([table, sum, where]) =>
      `SELECT '${table}' AS name, count(*) AS count, ${sum} AS checksum FROM ${table} WHERE ${where}`,
  )
  const counters =
    "SELECT 'companies' AS name, client_count AS count, order_count AS checksum FROM companies WHERE id = ?1"
  const read = (text: string) =>
    statement<{ name: string }>(text, companyId, ...(text.includes('?2') ? [nowMs - AUDIT_MS] : []))
  const results = await db.read([read(counters), ...texts.map(read)])
  return results.flat()
}

/** Columns of `companies` with values of one database. */
const OWN_COLUMNS = [
  ...['id', 'slot', 'database', 'database_slot', 'mail_quota_bytes'],
  ...['stored_bytes', 'audit_counted', 'recounted_at'],
]

/** Completes the company's row in its new database, which accepts writes from now on. Nothing refers to it yet. */
export async function openDestination({ companyId, db }: CompanyContext, company: Row): Promise<void> {
  const names = Object.keys(company).filter((name) => !OWN_COLUMNS.includes(name))
  const set = names.map((name) => `"${name}" = ?`)
  const values = names.map((name) => company[name] ?? null)
  await db.writeIdempotent([
    statement("UPDATE company_guards SET state = 'open' WHERE company_id = ?", companyId),
    // Rows already stored must pass the quota.
    statement(`UPDATE companies SET mail_quota_bytes = ${2 ** 50} WHERE id = ?`, companyId),
    statement(`UPDATE companies SET ${set.join(', ')} WHERE id = ?`, ...values, companyId),
    statement('UPDATE companies SET mail_quota_bytes = ? WHERE id = ?', company.mail_quota_bytes ?? null, companyId),
  ])
}

/** Refuses writes in the new database again: copied rows stay, and its changes are numbered as a copy's again. */
export async function closeDestination({ companyId, db }: CompanyContext): Promise<void> {
  await db.writeIdempotent([
    statement(
      `UPDATE companies SET last_change = ?2 WHERE id = ?1
        AND EXISTS (SELECT 1 FROM company_guards WHERE company_id = ?1 AND state = 'open')`,
      ...[companyId, COPY_CHANGES],
    ),
    statement("UPDATE company_guards SET state = 'away' WHERE company_id = ? AND state = 'open'", companyId),
  ])
}

/**
 * Switches a move: the old database refuses every request from here on and names the new one. In the directory this is
 * one transaction with the placement.
 *
 * @returns whether the company was still frozen; else nothing is changed
 */
export async function closeSource(
  { companyId, db }: CompanyContext,
  { source, destination, slot, by }: { source: string; destination: string; slot: number; by: Administrator },
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
  const [rows] = await db.write([leave, ...(source === DIRECTORY ? [placed, entryOf(by, destination)] : [])])
  return rows.length > 0
}

export async function isAway({ companyId, db }: CompanyContext): Promise<boolean> {
  const [rows] = await db.read([
    statement("SELECT 1 AS one FROM company_guards WHERE company_id = ? AND state = 'away'", companyId),
  ])
  return rows.length > 0
}

/** Writes the company's database into the directory, unless it is already there. @param context of the directory */
export async function setPlacement(
  { companyId, db }: CompanyContext,
  { destination, slot, by }: { destination: string; slot: number; by: Administrator },
): Promise<void> {
  const [binding, place] = destination === DIRECTORY ? [null, null] : [destination, slot]
  const update = 'UPDATE companies SET database = ?1, database_slot = ?2 WHERE id = ?3 AND database IS NOT ?1'
  await db.writeIdempotent([statement(update, binding, place, companyId), entryOf(by, destination)])
}

/** This must directly follow the statement that places the company, in its transaction. */
const entryOf = (by: Administrator, destination: string) =>
  adminEntry(by, 'companies.move', destination, sql`changes() > 0`)

/**
 * Removes some rows of a company from a database in which it is `away`.
 *
 * @param step the position in the list of tables
 * @param isCopy whether the rows are a copy. Otherwise the directory's row of a company elsewhere may name a slot in
 *   the full-text tables that belongs to another company
 * @returns the next step; null when everything is removed
 */
export async function removeRows(
  context: CompanyContext,
  { database, step, isCopy }: { database: string; step: number; isCopy: boolean },
): Promise<number | null> {
  const { companyId, db } = context
  const remove = removal(companyId, step, isCopy)
  if (remove) {
    const [[found]] = await db.writeIdempotent([remove.count, ...whileAway(context, [remove.statement])])
    return (found?.count ?? 0) < remove.limit ? step + 1 : step
  }
  if (database !== DIRECTORY) {
    await db.writeIdempotent(whileAway(context, [statement('DELETE FROM companies WHERE id = ?', companyId)]))
  } else if (isCopy) {
    const end = statement('UPDATE companies SET last_change = 0 WHERE id = ?', companyId)
    await db.writeIdempotent(whileAway(context, [end]))
  }
  return null
}

/** Statements that remove up to `limit` rows and count them before: full-text tables do not return deleted rows. */
function removing(companyId: number, limit: number, table: string, key: string, where: string) {
  const rows = `SELECT ${key} FROM ${table} WHERE ${where} LIMIT ${limit}`
  return {
    limit,
    count: statement<{ count: number }>(`SELECT count(*) AS count FROM (${rows})`, companyId),
    statement: statement(`DELETE FROM ${table} WHERE (${key}) IN (${rows})`, companyId),
  }
}

function removal(companyId: number, step: number, isCopy: boolean) {
  const table = FULL_TEXT[step]
  if (table) {
    const isOwn = isCopy ? `AND last_change >= ${COPY_CHANGES}` : ''
    const slot = `(SELECT CAST(slot AS INTEGER) << 53 FROM companies WHERE id = ?1 ${isOwn})`
    return removing(companyId, REMOVED_ROWS, table, 'rowid', `rowid >= ${slot} AND rowid <= ${slot} + 9007199254740991`)
  }
  const removed = REMOVED[step - FULL_TEXT.length]
  if (!removed) return null
  const limit = /segments|uploads/.test(removed.table) ? REMOVED_SEGMENTS : REMOVED_ROWS
  const ofCompany = 'company_id' in getTableColumns(tableOf(removed.table)) ? ['company_id'] : []
  const key = [...ofCompany, ...removed.key].join(', ')
  return removing(companyId, limit, removed.table, key, conditionOf(removed.table))
}
