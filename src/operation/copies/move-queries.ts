import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { orm, type Statements, statement } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { freeSlot } from '../../kernel/db/placement.ts'
import { companies, companyGuards, moves } from '../../kernel/db/schema.ts'
import { columnsOf, named, tableOf } from '../../kernel/db/tables.ts'
import type { Row, Value } from './format.ts'
import type { MovedTable } from './move-tables.ts'
import { ofCompany } from './queries.ts'

/**
 * Changes written by triggers during a copy are numbered from here and removed at once. A row of `companies` with this
 * last change belongs to a copy, so its slot in the full-text tables is its own.
 */
export const COPY_CHANGES = 2 ** 52
/** Limits the text of one statement: D1 takes 2,000,000 bytes. */
const STATEMENT_CHARACTERS = 400_000

type Statement = Statements[number]

/** The row of a move in the directory. */
export async function findMove({ companyId, db }: CompanyContext) {
  const [[row]] = await db.read([orm.select().from(moves).where(sql`company_id = ${companyId}`)])
  return row ?? null
}

/** Saves the progress of a move. @param context of the directory */
export async function saveMove(
  { companyId, db }: CompanyContext,
  move: { source: string; destination: string; state: object; started_at: number },
  nowMs: number,
): Promise<void> {
  const row = { ...move, company_id: companyId, updated_at: nowMs }
  await db.writeIdempotent([orm.insert(moves).values(row).onConflictDoUpdate({ target: moves.company_id, set: row })])
}

export async function deleteMove({ companyId, db }: CompanyContext): Promise<void> {
  await db.writeIdempotent([orm.delete(moves).where(sql`company_id = ${companyId}`)])
}

/** Reads the company's whole row in one database. */
export async function readCompanyRow({ companyId, db }: CompanyContext): Promise<Row | null> {
  const [[row]] = await db.read([statement<Row>('SELECT * FROM companies WHERE id = ?', companyId)])
  return row ?? null
}

export async function readGuard({ companyId, db }: CompanyContext) {
  const [[row]] = await db.read([orm.select().from(companyGuards).where(sql`company_id = ${companyId}`)])
  return row ?? null
}

/** Sets how triggers treat the company's writes in a database, before anything is copied. */
export async function setGuard(
  { companyId, db }: CompanyContext,
  guard: { state: 'copying' | 'away'; destination: string; slot: number },
): Promise<void> {
  const row = { ...guard, company_id: companyId, audit_id: 0, frozen_at: null }
  const insert = orm.insert(companyGuards).values(row)
  await db.writeIdempotent([insert.onConflictDoUpdate({ target: companyGuards.company_id, set: row })])
}

/** Refuses the company's writes, or allows and logs them again. */
export async function setFrozen({ companyId, db }: CompanyContext, frozenAt: number | null): Promise<void> {
  const state = frozenAt === null ? 'copying' : 'frozen'
  const isHere = sql`company_id = ${companyId} AND state IN ('copying', 'frozen')`
  await db.writeIdempotent([orm.update(companyGuards).set({ state, frozen_at: frozenAt }).where(isHere)])
}

/** Removes the guard and the log of a company. */
export async function endGuard({ companyId, db }: CompanyContext): Promise<void> {
  await db.writeIdempotent([
    statement('DELETE FROM move_log WHERE company_id = ?', companyId),
    orm.delete(companyGuards).where(sql`company_id = ${companyId}`),
  ])
}

/**
 * Statements of one transaction that change rows of a company that is `away`. In any other state the column's check
 * fails, so a late one of an interrupted move overwrites no newer row.
 */
export function whileAway({ companyId }: CompanyContext, statements: readonly Statement[]) {
  const open = statement(
    `INSERT INTO company_guards (company_id, state, destination, slot)
      SELECT ?1, iif(EXISTS (SELECT 1 FROM company_guards WHERE company_id = ?1 AND state = 'away'), 'open', 'not away'), '', 0
      WHERE true ON CONFLICT (company_id) DO UPDATE SET state = 'open'`,
    companyId,
  )
  const close = statement("UPDATE company_guards SET state = 'away' WHERE company_id = ?", companyId)
  return [open, ...statements, close] as const
}

/**
 * Creates the company's row in the destination, with counters at zero. The directory already has one, whose slot in the
 * full-text tables is unused.
 *
 * @returns the slot in the destination
 */
export async function prepareDestination(
  { companyId, db }: CompanyContext,
  company: Row,
  slot: number,
): Promise<number> {
  const times = { created_at: Number(company.created_at), updated_at: Number(company.updated_at) }
  const values = { id: companyId, name: String(company.name), suspended: true, deliveries_paused: true, ...times }
  const set = { client_count: 0, order_count: 0, mail_bytes: 0, mail_bytes_checked: 0, last_change: COPY_CHANGES }
  const place = { ...set, stored_bytes: 0, audit_counted: 0, recounted_at: 0, slot: freeSlot(slot) }
  const isCompany = sql`id = ${companyId}`
  const [, , [row]] = await db.writeIdempotent([
    orm
      .insert(companies)
      .values({ ...values, ...place })
      .onConflictDoNothing(),
    // Otherwise this move's own slot in the directory counts as taken.
    orm.update(companies).set(place).where(sql`${isCompany} AND database IS NOT NULL`),
    orm.select({ slot: companies.slot }).from(companies).where(isCompany),
  ])
  return row?.slot ?? 0
}

/** Writes rows of a table into the destination, replacing any with the same keys. */
export async function putRows(context: CompanyContext, moved: MovedTable, rows: readonly Row[]) {
  const { companyId, db } = context
  for (const chunk of chunksOf(rows)) {
    const statements = [...clearUnique(companyId, moved, chunk), upsert(companyId, moved, chunk)]
    await db.writeIdempotent(whileAway(context, [...statements, removeCopyChanges(companyId)]))
  }
}

function upsert(companyId: number, { table, key }: MovedTable, rows: readonly Row[]): Statement {
  const all: Record<string, { primary: boolean }> = getTableColumns(tableOf(table))
  const ofCompany = 'company_id' in all
  const names = columnsOf({ table }).map(({ name }) => name)
  // Ids of threads and their objects are unique over all companies.
  const conflict = [...(ofCompany && !all.id?.primary ? ['company_id'] : []), ...key]
  const set = names.filter((name) => !key.includes(name)).map((name) => `"${name}" = excluded."${name}"`)
  const columns = [...(ofCompany ? ['company_id'] : []), ...names.map((name) => `"${name}"`)].join(', ')
  const onConflict = `ON CONFLICT (${conflict.join(', ')}) DO UPDATE SET ${set.join(', ')}`
  const [row] = rows
  if (rows.length === 1 && row && lengthOf(row) > STATEMENT_CHARACTERS) {
    // A value over the limit of a text is bound by itself.
    const values = names.map((name) => row[name] ?? null)
    const bound = [...(ofCompany ? [companyId] : []), ...values]
    return statement(`INSERT INTO ${table} (${columns}) VALUES (${bound.map(() => '?')}) ${onConflict}`, ...bound)
  }
  const read = names.map((_, index) => `e.value ->> '$[${index}]'`)
  const selected = [...(ofCompany ? ['?2'] : []), ...read].join(', ')
  const text = `INSERT INTO ${table} (${columns}) SELECT ${selected} FROM json_each(?1) AS e WHERE true ${onConflict}`
  const json = JSON.stringify(rows.map((each) => names.map((name) => each[name] ?? null)))
  return statement(text, json, ...(ofCompany ? [companyId] : []))
}

/** Clears a unique value that moved from one row to another since it was copied; the first row is copied again. */
function clearUnique(companyId: number, { table, unique }: MovedTable, rows: readonly Row[]): Statement[] {
  const taken = unique ? rows.filter((row) => row[unique] != null).map((row) => [row.id, row[unique]]) : []
  if (!unique || taken.length === 0) return []
  const text = `UPDATE ${table} SET ${unique} = NULL WHERE company_id = ?1
    AND ${unique} IN (SELECT e.value ->> 1 FROM json_each(?2) AS e)
    AND NOT EXISTS (SELECT 1 FROM json_each(?2) AS e WHERE e.value ->> 0 = ${table}.id AND e.value ->> 1 = ${table}.${unique})`
  return [statement(text, companyId, JSON.stringify(taken))]
}

const removeCopyChanges = (companyId: number) =>
  statement('DELETE FROM changes WHERE company_id = ?1 AND sequence > ?2', companyId, COPY_CHANGES)

/** Copies append-only rows after the last copied one; they get new ids. */
export async function appendAudit(context: CompanyContext, rows: readonly Row[]): Promise<void> {
  const { companyId, db } = context
  const last = rows.at(-1)
  if (!last) return
  const names = ['token_id', 'request_id', 'action', 'entity_id', 'at']
  const read = names.map((name) => `e.value ->> '$.${name}'`).join(', ')
  await db.write(
    whileAway(context, [
      statement(
        `INSERT INTO audit_log (company_id, ${names.join(', ')}) SELECT ?2, ${read} FROM json_each(?1) AS e
          WHERE e.value ->> '$.id' > (SELECT audit_id FROM company_guards WHERE company_id = ?2) ORDER BY e.key`,
        JSON.stringify(rows),
        companyId,
      ),
      statement('UPDATE company_guards SET audit_id = ?1 WHERE company_id = ?2', Number(last.id), companyId),
    ]),
  )
}

export async function removeEvents(context: CompanyContext): Promise<void> {
  const remove = statement('DELETE FROM accounting_outbox WHERE company_id = ?', context.companyId)
  await context.db.writeIdempotent(whileAway(context, [remove]))
}

/** Copies undelivered events in their order, with ids of the new database. */
export async function putEvents(context: CompanyContext, rows: readonly Row[]): Promise<void> {
  const { companyId, db } = context
  const names = columnsOf({ table: 'accounting_outbox' }).flatMap(({ name }) => (name === 'id' ? [] : [name]))
  const statements = chunksOf(rows).map((chunk) =>
    statement(
      `INSERT INTO accounting_outbox (company_id, ${names.join(', ')})
        SELECT ?2, ${names.map((name) => `e.value ->> '$.${name}'`).join(', ')} FROM json_each(?1) AS e ORDER BY e.key`,
      JSON.stringify(chunk),
      companyId,
    ),
  )
  await db.write(whileAway(context, statements))
}

function chunksOf(rows: readonly Row[]): Row[][] {
  const chunks: Row[][] = []
  let characters = 0
  for (const row of rows) {
    characters += lengthOf(row)
    const last = chunks.at(-1)
    if (last && characters <= STATEMENT_CHARACTERS) last.push(row)
    else {
      chunks.push([row])
      characters = lengthOf(row)
    }
  }
  return chunks
}

const lengthOf = (row: Row) => Object.values(row).reduce((sum: number, value) => sum + String(value).length + 5, 0)

/** Reads the keys of rows written since they were copied, in the order of the writes. */
export async function readLog({ companyId, db }: CompanyContext, table: string, after: number, upTo: number) {
  const [rows] = await db.read([
    statement<{ id: number; key: string }>(
      `SELECT id, key FROM move_log WHERE company_id = ?1 AND table_name = ?2 AND id > ?3 AND id <= ?4
        ORDER BY id LIMIT 500`,
      ...[companyId, table, after, upTo],
    ),
  ])
  const keys = [...new Set(rows.map(({ key }) => key))].map((key): Value[] => JSON.parse(key))
  return { keys, next: rows.length === 500 ? (rows.at(-1)?.id ?? null) : null }
}

/** Measures the log: the newest of its oldest entries, and how many they are; 0 without any. */
export async function measureLog(
  { companyId, db }: CompanyContext,
  limit: number = Number.MAX_SAFE_INTEGER,
): Promise<{ newest: number; count: number }> {
  const [[row]] = await db.read([
    statement<{ newest: number; count: number }>(
      `SELECT coalesce(max(id), 0) AS newest, count(*) AS count
        FROM (SELECT id FROM move_log WHERE company_id = ? ORDER BY id LIMIT ?)`,
      ...[companyId, limit],
    ),
  ])
  return row ?? { newest: 0, count: 0 }
}

export async function clearLog({ companyId, db }: CompanyContext, tables: readonly MovedTable[], upTo: number) {
  const names = JSON.stringify(tables.map(({ table }) => table))
  await db.writeIdempotent([
    statement(
      `DELETE FROM move_log WHERE company_id = ?1 AND id <= ?2
        AND table_name IN (SELECT value FROM json_each(?3))`,
      ...[companyId, upTo, names],
    ),
  ])
}

/** The condition on the rows with these keys. */
export function isAmong(context: CompanyContext, moved: MovedTable, keys: readonly Value[][]): SQL {
  const isOf = ofCompany(context, moved)
  if (moved.key.length === 0) return isOf
  const read = moved.key.map((_, index) => sql.raw(`e.value ->> ${index}`))
  return sql`${isOf} AND (${sql.join(moved.key.map(named), sql`, `)}) IN (
    SELECT ${sql.join(read, sql`, `)} FROM json_each(${JSON.stringify(keys)}) AS e)`
}

/** Removes the rows with these keys from the destination. */
export async function removeKeys(context: CompanyContext, moved: MovedTable, keys: readonly Value[][]): Promise<void> {
  if (keys.length === 0) return
  const remove = orm.delete(tableOf(moved.table)).where(isAmong(context, moved, keys))
  await context.db.writeIdempotent(whileAway(context, [remove]))
}

/** Selects those keys whose rows exist. */
export async function findKeys(context: CompanyContext, moved: MovedTable, keys: readonly Value[][]) {
  const fields = Object.fromEntries(moved.key.map((name) => [name, sql<Value>`${named(name)}`.as(name)]))
  const [rows] = await context.db.read([
    orm
      .select({ ...fields, one: sql<number>`1`.as('one') })
      .from(tableOf(moved.table))
      .where(isAmong(context, moved, keys)),
  ])
  return rows.map((row) => moved.key.map((name) => (row as Row)[name] ?? null))
}
