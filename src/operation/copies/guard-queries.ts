import { type SQL, sql } from 'drizzle-orm'
import { type Administrator, adminEntry } from '../../kernel/db/audit.ts'
import { orm, type Statements, statement } from '../../kernel/db/client.ts'
import { insertRow, named } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { DIRECTORY, freeSlot, isHere, type openEach } from '../../kernel/db/placement.ts'
import { changes, companies, companyGuards, moves } from '../../kernel/db/schema.ts'
import { REMOVED, type Row, type TablePlan } from './tables.ts'
import { COPY_CHANGES } from './write-queries.ts'

// Whose the company's rows are: the row of its move, its guards in both databases, and its rows of `companies`.

export async function findMove({ companyId, db }: CompanyContext) {
  const [[row]] = await db.read([orm.select().from(moves).where(sql`company_id = ${companyId}`)])
  return row ?? null
}

/** Saves the progress of a move, which has ended without a state. @param context of the directory */
export async function saveMove(
  { companyId, db }: CompanyContext,
  { source, destination, started_at }: Pick<typeof moves.$inferInsert, 'source' | 'destination' | 'started_at'>,
  state: object | null,
): Promise<void> {
  const row = { source, destination, state, started_at, company_id: companyId, updated_at: Date.now() }
  const save = orm.insert(moves).values(row).onConflictDoUpdate({ target: moves.company_id, set: row })
  await db.writeIdempotent([state ? save : orm.delete(moves).where(sql`company_id = ${companyId}`)])
}

export async function readGuard({ companyId, db }: CompanyContext) {
  const [[row]] = await db.read([orm.select().from(companyGuards).where(sql`company_id = ${companyId}`)])
  return row ?? null
}

type Guard = { state: 'copying' | 'moved'; destination: string; slot: number }

/** Sets the company's state in a database, before anything is copied. @param others of the same transaction */
export async function setGuard({ companyId, db }: CompanyContext, guard: Guard, ...others: Statements[number][]) {
  const row = { ...guard, company_id: companyId, read_only_at: null }
  const save = orm.insert(companyGuards).values(row).onConflictDoUpdate({ target: companyGuards.company_id, set: row })
  await db.writeIdempotent([save, ...others])
}

export async function setReadOnly({ companyId, db }: CompanyContext, readOnlyAt: number | null): Promise<void> {
  const state = readOnlyAt === null ? 'copying' : 'read_only'
  const isUndecided = sql`company_id = ${companyId} AND state IN ('copying', 'read_only')`
  await db.writeIdempotent([orm.update(companyGuards).set({ state, read_only_at: readOnlyAt }).where(isUndecided)])
}

export async function endGuard({ companyId, db }: CompanyContext): Promise<void> {
  await db.writeIdempotent([orm.delete(companyGuards).where(sql`company_id = ${companyId}`)])
}

/**
 * Creates the company's row in the destination, with counters at zero. The directory already has one, whose slot in the
 * full-text tables is unused.
 */
export async function prepareDestination({ companyId, db }: CompanyContext, company: Row) {
  const { name, created_at, updated_at } = company
  const values = { id: companyId, name, suspended: 1, deliveries_paused: 1, created_at, updated_at }
  const counters = { client_count: 0, order_count: 0, mail_bytes: 0, mail_bytes_checked: 0, stored_bytes: 0 }
  const slot = freeSlot(Number(company.slot), companyId)
  const state = { ...counters, recounted_at: 0, last_change: COPY_CHANGES, slot }
  const isCompany = sql`id = ${companyId}`
  const [, , [row]] = await db.writeIdempotent([
    insertRow(companies, { ...values, ...state }, sql`WHERE true`).onConflictDoNothing(),
    orm.update(companies).set(state).where(sql`${isCompany} AND database IS NOT NULL`),
    orm.select({ slot: companies.slot }).from(companies).where(isCompany),
  ])
  return row?.slot ?? 0
}

/** Removes changes that the old database has expired meanwhile. */
export async function removeOldChanges({ companyId, db }: CompanyContext, oldest: number): Promise<void> {
  await db.writeIdempotent([orm.delete(changes).where(sql`company_id = ${companyId} AND sequence < ${oldest}`)])
}

/** The sweep removes older audit entries soon, and in the old database only. */
const AUDIT_MS = 89 * 24 * 3_600_000

/** Reads row counts, and sums of rows written by triggers and of rows without stamps. */
export async function readEnds({ companyId, db }: CompanyContext, nowMs: number) {
  const sums: Record<string, [sum: SQL, where?: SQL]> = {
    thread_context_links: [sql`sum(entity_id % 1000003)`],
    changes: [sql`sum(version * 31 + at % 1000003)`],
    accounting_outbox: [
      sql`sum(order_id % 1000003 * 31 + created_at % 1000003 + octet_length(operation || state || coalesce(request_body, '')))`,
      sql`state <> 'done' AND order_id > 0`,
    ],
    audit_log: [
      sql`sum(at % 1000003 * 31 + token_id % 997 + octet_length(entity_id || action))`,
      sql`at > ${nowMs - AUDIT_MS}`,
    ],
  }
  type End = { name: string; count: number; checksum: number }
  const ends = REMOVED.map(({ table }) => {
    const [sum = sql`0`, where = sql`1`] = sums[table] ?? []
    return statement<End>(sql`SELECT ${table} AS name, count(*) AS count, ${sum} AS checksum FROM ${named(table)}
      WHERE company_id = ${companyId} AND ${where}`)
  })
  const counters = sql`SELECT 'companies' AS name, client_count AS count, order_count AS checksum
    FROM companies WHERE id = ${companyId}`
  return (await db.read([statement<End>(counters), ...ends])).flat()
}

/** Columns of `companies` with values of one database. */
const OWN_COLUMNS = ['id', 'slot', 'database', 'database_slot']

/** Completes the company's row in its new database, which accepts writes from now on. Nothing refers to it yet. */
export async function openDestination({ companyId, db }: CompanyContext, company: Row): Promise<void> {
  const names = Object.keys(company).filter((name) => !OWN_COLUMNS.includes(name))
  const values = names.map((name) => sql`${named(name)} = ${company[name] ?? null}`)
  await db.writeIdempotent([
    orm.update(companyGuards).set({ state: 'writable' }).where(sql`company_id = ${companyId}`),
    // A late one, after the move has ended, must not set the company back.
    statement(sql`UPDATE companies SET ${sql.join(values, sql`, `)} WHERE id = ${companyId}
      AND EXISTS (SELECT 1 FROM company_guards WHERE company_id = ${companyId} AND state = 'writable')`),
  ])
}

/** A later move to this database then removes the rows as a copy, with their texts in the full-text tables. */
const numberAsCopy = (companyId: number, condition = sql`1`) =>
  orm.update(companies).set({ last_change: COPY_CHANGES }).where(sql`id = ${companyId} AND ${condition}`)

/** Refuses writes in the new database again: copied rows stay, and its changes are numbered as a copy's again. */
export async function closeDestination({ companyId, db }: CompanyContext): Promise<void> {
  const isWritable = sql`company_id = ${companyId} AND state = 'writable'`
  await db.writeIdempotent([
    numberAsCopy(companyId, sql`EXISTS (SELECT 1 FROM company_guards WHERE ${isWritable})`),
    orm.update(companyGuards).set({ state: 'moved' }).where(isWritable),
  ])
}

/** Where a company is from now on, and who moved it. */
type Target = Omit<Guard, 'state'> & { by: Administrator }

/**
 * Switches a move: the old database refuses every request from here on and names the new one. In the directory this is
 * one transaction with the placement.
 *
 * @returns whether the company's writes were still refused; else nothing is changed
 */
export async function closeSource(
  { companyId, db }: CompanyContext,
  { source, ...target }: Target & { source: string },
): Promise<boolean> {
  const leave = statement(sql`UPDATE company_guards SET state = 'moved', read_only_at = NULL
    WHERE company_id = ${companyId} AND state = 'read_only' RETURNING state`)
  const isLeft = sql`EXISTS (SELECT 1 FROM company_guards WHERE company_id = ${companyId} AND state = 'moved')`
  const placed = source === DIRECTORY ? placement(companyId, target, isLeft) : []
  const [rows] = await db.write([leave, ...placed])
  return rows.length > 0
}

/**
 * Closes the company's rows outside of its own database, as Time Travel to before a move leaves them: no sweep may act
 * on them. If its own database has none, they are the only ones and stay open.
 *
 * @returns the company's row in its own database
 */
export async function closeCopies({ companyId }: CompanyContext, home: string, databases: ReturnType<typeof openEach>) {
  const { slot, suspended } = companies
  const fields = { slot, suspended, isHere: sql<number>`${isHere}`.as('is_here') }
  const select = orm.select(fields).from(companies).where(sql`id = ${companyId} AND database IS NULL`)
  const rows = await Promise.all(databases.map(async ({ db }) => (await db.read([select]))[0][0]))
  const row = rows[databases.findIndex(({ name }) => name === home)]
  for (const [index, { name, db }] of databases.entries()) {
    if (!row?.isHere || !rows[index]?.isHere || name === home) continue
    const guard = { state: 'moved', destination: home, slot: row.slot } as const
    await setGuard({ companyId, db }, guard, numberAsCopy(companyId))
  }
  return row
}

/** Writes the company's database into the directory, unless it is already there. @param context of the directory */
export async function setPlacement({ companyId, db }: CompanyContext, target: Target): Promise<void> {
  await db.writeIdempotent(placement(companyId, target))
}

/** The entry must directly follow the statement that places the company, in its transaction. */
function placement(companyId: number, { destination, slot, by }: Target, condition = sql`1`) {
  const [database, database_slot] = destination === DIRECTORY ? [null, null] : [destination, slot]
  const isElsewhere = sql`id = ${companyId} AND database IS NOT ${database} AND ${condition}`
  const entry = adminEntry(by, 'companies.move', destination, sql`changes() > 0`)
  return [orm.update(companies).set({ database, database_slot }).where(isElsewhere), entry] as const
}

export async function findLastCopied({ companyId, db }: CompanyContext, { table, key }: TablePlan): Promise<number> {
  const last = sql`SELECT max(${named(key.join())}) AS last FROM ${named(table)} WHERE company_id = ${companyId}`
  const [[row]] = await db.read([statement<{ last: number | null }>(last)])
  return row?.last ?? 0
}
