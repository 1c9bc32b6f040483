import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { SQLiteColumn } from 'drizzle-orm/sqlite-core'
import { orm, type Statements, statement } from '../../kernel/db/client.ts'
import { insertRow, named, tableOf } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { DIRECTORY } from '../../kernel/db/placement.ts'
import { changes, companies } from '../../kernel/db/schema.ts'
import { bytesOf, splitBySize } from './chunks.ts'
import { databaseOf, isAmong, isChildOf } from './read-queries.ts'
import { FULL_TEXT, type Key, REMOVED, type Row, type Sequences, type TablePlan } from './tables.ts'

// The writers of rows: `restoreRows` for a restore, `putPage` for a move. A seed has its own values: `seed/queries.ts`.

type Statement = Statements[number]

/** Limits the JSON of one statement: D1 takes 2,000,000 bytes. A longer row is bound value by value. */
const STATEMENT_BYTES = 400_000
const STATEMENT_ROWS = 100
/** Limits the keys that one statement removes: they are bound as one JSON text, below the 2 MB of D1's values. */
const REMOVED_KEYS = 1_000

/** The rows in groups for one statement each. */
const splitRows = (rows: readonly Row[]): Row[][] =>
  splitBySize(rows, (row) => [1, bytesOf(row)], [STATEMENT_ROWS, STATEMENT_BYTES])

/**
 * Inserts missing rows, by any unique key. It may be repeated, and a newer row inserted before stays, unless its plan
 * says that it is replaced.
 */
export async function restoreRows(context: CompanyContext, table: TablePlan, rows: readonly Row[]): Promise<void> {
  const plan = atDestination(table)
  const db = databaseOf(context, plan.table)
  for (const chunk of splitRows(rows)) {
    await db.writeIdempotent([plan.columns ? update(context, plan, chunk) : insertMissing(context, plan, chunk)])
  }
}

function insertMissing({ companyId }: CompanyContext, plan: TablePlan, given: readonly Row[]) {
  const rows = plan.unique ? clearRepeated(given, plan.unique) : given
  const { read, values, insert } = insertion(companyId, plan, rows)
  const isElsewhere = (column: string, condition: SQL) =>
    sql`EXISTS (SELECT 1 FROM ${tableOf(plan.table)} AS other WHERE other.${named(column)} = ${read(column)} AND ${condition})`
  const orNull = (column: string, isTaken: SQL) => {
    values[column] = sql`CASE WHEN ${isTaken} THEN NULL ELSE ${read(column)} END`
  }
  if (plan.unique) orNull(plan.unique, isElsewhere(plan.unique, sql`other.company_id = ${companyId}`))
  if (plan.sharedId === 'kept') orNull('id', isElsewhere('id', sql`other.token_hash <> ${read('token_hash')}`))
  if (plan.sharedId === 'new') {
    const isSame = sql`other.company_id = ${companyId} AND other.action = ${read('action')} AND other.at = ${read('at')}
      AND other.request_id = ${read('request_id')}`
    return insert(sql`NOT ${isElsewhere('entity_id', isSame)}`).onConflictDoNothing()
  }
  if (!plan.replaced) return insert(sql`true`).onConflictDoNothing()
  const setWhere = sql`${tableOf(plan.table)}.company_id = ${companyId} AND ${sql.raw(plan.replaced)}`
  // A thread that a late request has created again or changed has another id or content.
  const isNamed = sql`EXISTS (SELECT 1 FROM email_threads AS t WHERE t.company_id = ${companyId}
    AND t.id = ${read('thread_id')} AND t.content_hash = ${read('content_hash')})`
  return insert(isNamed)
    .onConflictDoUpdate({ ...replacement(plan, values), setWhere })
    .onConflictDoNothing()
}

/** Clears a unique value in all rows but the first that has it: a statement does not see the rows that it inserts. */
function clearRepeated(rows: readonly Row[], unique: string): Row[] {
  const first = new Map(rows.toReversed().map((row) => [row[unique], row]))
  return rows.map((row) => (first.get(row[unique]) === row ? row : { ...row, [unique]: null }))
}

/** Reads a value of the rows that are joined as `line`. */
const readLine = (name: string) => sql.raw(`line.value ->> '$.${name}'`)

/** The parts of an `INSERT` of rows: how it reads a value, its values by column, and the statement. */
function insertion(companyId: number, plan: TablePlan, rows: readonly Row[]) {
  const [first = {}] = rows
  // A value over the limit of a text is bound by itself.
  const isLarge = rows.length === 1 && bytesOf(first) > STATEMENT_BYTES
  const read = (name: string) => (isLarge ? sql`${first[name] ?? null}` : readLine(name))
  const values: Record<string, SQL | number> = { company_id: companyId }
  for (const name of Object.keys(first)) values[name === 'id' ? (plan.idColumn ?? name) : name] = read(name)
  if (plan.sharedId === 'new') delete values.id
  const from = isLarge ? sql`` : sql`FROM json_each(${JSON.stringify(rows)}) AS line`
  const order = isLarge ? sql`` : sql`ORDER BY line.key`
  const insert = (isMeant: SQL) => insertRow(tableOf(plan.table), values, sql`${from} WHERE ${isMeant} ${order}`)
  return { read, values, insert }
}

function update({ companyId }: CompanyContext, { table, columns = [] }: TablePlan, rows: readonly Row[]) {
  const changed = columns.filter((column) => column !== 'id')
  const set = changed.map((column) => sql`${named(column)} = ${readLine(column)}`)
  return statement(sql`UPDATE ${named(table)} AS t SET ${sql.join(set, sql`, `)}
    FROM json_each(${JSON.stringify(rows)}) AS line WHERE t.company_id = ${companyId} AND t.id = ${readLine('id')}`)
}

/**
 * Changes written by triggers during a copy are numbered from here and removed at once. A row of `companies` with this
 * last change belongs to a copy, so its slot in the full-text tables is its own.
 */
export const COPY_CHANGES = 2 ** 52

/**
 * Writes statements into a database where the company is `moved`. In any other state they fail, so a late one of an
 * interrupted move overwrites no newer row.
 */
async function writeMoved<T extends readonly Statement[]>(
  { companyId, db }: CompanyContext,
  statements: readonly [...T],
) {
  const requireMoved = statement(sql`SELECT json_extract('{}', 'the company is not moved')
    WHERE NOT EXISTS (SELECT 1 FROM company_guards WHERE company_id = ${companyId} AND state = 'moved')`)
  const [, ...results] = await db.writeIdempotent([requireMoved, ...statements])
  return results
}

/** The table in the destination of a move or a restore, whose ids may be its own. */
export const atDestination = (plan: TablePlan): TablePlan =>
  plan.sourceId ? { ...plan, idColumn: plan.sourceId } : plan

/**
 * Writes rows and their children into the destination of a move, as one transaction: they replace any with the same keys.
 * Absent lines and payments are removed, since requests delete them; other children are only flagged.
 */
export async function putPage(context: CompanyContext, tables: readonly { plan: TablePlan; rows: readonly Row[] }[]) {
  const { companyId } = context
  const statements = tables.flatMap(({ plan: table, rows }) => {
    const plan = atDestination(table)
    const ids = sql`SELECT value FROM json_each(${JSON.stringify(rows.map(({ id }) => id))})`
    const removed = plan.children.filter(({ owner }) => owner === 'invoice_id')
    const removals = removed.map((child) => orm.delete(tableOf(child.table)).where(isChildOf(context, child, ids)))
    const puts = splitRows(rows).flatMap((chunk) => {
      const { values, insert } = insertion(companyId, plan, chunk)
      const put = insert(sql`true`).onConflictDoUpdate(replacement(plan, values))
      return [...clearUnique(companyId, plan, chunk), plan.columns ? update(context, plan, chunk) : put]
    })
    return puts.length > 0 ? [...removals, ...puts] : []
  })
  if (statements.length === 0) return
  const written = sql`company_id = ${companyId} AND sequence > ${COPY_CHANGES}`
  await writeMoved(context, [...statements, orm.delete(changes).where(written)])
}

function replacement({ table, key, idColumn = 'id' }: TablePlan, values: object) {
  const columns: Record<string, SQLiteColumn> = getTableColumns(tableOf(table))
  // Ids of mail objects are unique over all companies.
  const isShared = key[0] === 'id' && idColumn === 'id' && columns.id?.primary
  const names = [...(isShared ? [] : ['company_id']), ...key.map((name) => (name === 'id' ? idColumn : name))]
  const set = Object.keys(values).filter((name) => name in columns && name !== 'company_id' && !names.includes(name))
  return {
    target: names.flatMap((name) => columns[name] ?? []),
    set: Object.fromEntries(set.map((name) => [name, sql`excluded.${named(name)}`])),
  }
}

/** Clears a unique value that moved from one row to another since it was copied; the first row is copied again. */
function clearUnique(companyId: number, { table, unique }: TablePlan, rows: readonly Row[]): Statement[] {
  const taken = unique ? rows.filter((row) => row[unique] != null).map((row) => [row.id, row[unique]]) : []
  if (!unique || taken.length === 0) return []
  const [name, column, rowsOf] = [named(table), named(unique), sql`json_each(${JSON.stringify(taken)}) AS e`]
  return [
    statement(sql`UPDATE ${name} SET ${column} = NULL WHERE company_id = ${companyId}
      AND ${column} IN (SELECT e.value ->> 1 FROM ${rowsOf})
      AND NOT EXISTS (SELECT 1 FROM ${rowsOf} WHERE e.value ->> 0 = ${name}.id AND e.value ->> 1 = ${name}.${column})`),
  ]
}

export async function removeKeys(context: CompanyContext, plan: TablePlan, keys: readonly Key[]): Promise<void> {
  for (let at = 0; at < keys.length; at += REMOVED_KEYS) {
    const isRemoved = isAmong(context, atDestination(plan), keys.slice(at, at + REMOVED_KEYS))
    await writeMoved(context, [orm.delete(tableOf(plan.table)).where(isRemoved)])
  }
}

/** Limits the rows that one statement removes; few where a row may have 2 MB. */
const REMOVED_ROWS = 500
const REMOVED_THREADS = 20

/**
 * Removes some rows of a company from a database in which it is `moved`.
 *
 * @param isCopy whether the rows are a copy. Otherwise the directory's row of a company elsewhere may name a slot in
 *   the full-text tables that belongs to another company
 * @returns the next step; null when everything is removed
 */
export async function removeRows(
  context: CompanyContext,
  { database, step, isCopy }: { database: string; step: number; isCopy: boolean },
): Promise<number | null> {
  const { companyId } = context
  const removal = listRemovals(isCopy)[step]
  if (removal) {
    const { table, key, where, limit } = removal
    const rows = `SELECT ${key} FROM ${table} WHERE ${where} LIMIT ${limit}`
    // Full-text tables do not return deleted rows.
    const [[found]] = await writeMoved(context, [
      statement<{ count: number }>(`SELECT count(*) AS count FROM (${rows})`, companyId),
      statement(`DELETE FROM ${table} WHERE (${key}) IN (${rows})`, companyId),
    ])
    return (found?.count ?? 0) < limit ? step + 1 : step
  }
  const last = database === DIRECTORY ? 'UPDATE companies SET last_change = 0' : 'DELETE FROM companies'
  if (database !== DIRECTORY || isCopy) await writeMoved(context, [statement(`${last} WHERE id = ?`, companyId)])
  return null
}

function listRemovals(isCopy: boolean) {
  const isOwn = isCopy ? `AND last_change >= ${COPY_CHANGES}` : ''
  const slot = `(SELECT CAST(slot AS INTEGER) << 53 FROM companies WHERE id = ?1 ${isOwn})`
  const isInSlot = `rowid >= ${slot} AND rowid <= ${slot} + 9007199254740991`
  return [
    ...FULL_TEXT.map((table) => ({ table, key: 'rowid', where: isInSlot, limit: REMOVED_ROWS })),
    ...REMOVED.map(({ table, key }) => {
      const limit = table === 'email_threads' ? REMOVED_THREADS : REMOVED_ROWS
      return { table, key: ['company_id', ...key].join(', '), where: 'company_id = ?1', limit }
    }),
  ]
}

/** Raises ids and numbers to those of a row, where they are lower. */
export const raiseTo = (names: readonly (keyof Sequences | 'audit_expired')[], row: Record<string, unknown>) =>
  Object.fromEntries(names.map((name) => [name, sql`max(${companies[name]}, ${row[name] ?? 0})`]))
