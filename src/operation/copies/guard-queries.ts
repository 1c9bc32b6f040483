import { sql } from 'drizzle-orm'
import { type Administrator, adminEntry } from '../../kernel/db/audit.ts'
import { orm, statement } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { DIRECTORY, freeSlot, isHere, type openEach } from '../../kernel/db/placement.ts'
import { companies, companyGuards, moves } from '../../kernel/db/schema.ts'
import { REMOVED, type Row, type TablePlan } from './tables.ts'
import { COPY_CHANGES } from './write-queries.ts'

// Whose the company's rows are: the row of its move, its guards in both databases, and its rows of `companies`.

export async function findMove({ companyId, db }: CompanyContext) {
  const [[row]] = await db.read([orm.select().from(moves).where(sql`company_id = ${companyId}`)])
  return row ?? null
}

/** Saves the progress of a move. @param context of the directory */
export async function saveMove(
  { companyId, db }: CompanyContext,
  { source, destination, state, started_at }: Omit<typeof moves.$inferInsert, 'company_id' | 'updated_at'>,
  nowMs: number,
): Promise<void> {
  const row = { source, destination, state, started_at, company_id: companyId, updated_at: nowMs }
  await db.writeIdempotent([orm.insert(moves).values(row).onConflictDoUpdate({ target: moves.company_id, set: row })])
}

export async function deleteMove({ companyId, db }: CompanyContext): Promise<void> {
  await db.writeIdempotent([orm.delete(moves).where(sql`company_id = ${companyId}`)])
}

export async function readGuard({ companyId, db }: CompanyContext) {
  const [[row]] = await db.read([orm.select().from(companyGuards).where(sql`company_id = ${companyId}`)])
  return row ?? null
}

type Guard = { state: 'copying' | 'moved'; destination: string; slot: number }

const saveGuard = (companyId: number, guard: Guard) => {
  const row = { ...guard, company_id: companyId, read_only_at: null }
  return orm.insert(companyGuards).values(row).onConflictDoUpdate({ target: companyGuards.company_id, set: row })
}

/** Sets the company's state in a database, before anything is copied. */
export async function setGuard({ companyId, db }: CompanyContext, guard: Guard): Promise<void> {
  await db.writeIdempotent([saveGuard(companyId, guard)])
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
  const times = { created_at: Number(company.created_at), updated_at: Number(company.updated_at) }
  const values = { id: companyId, name: String(company.name), suspended: true, deliveries_paused: true, ...times }
  const counters = { client_count: 0, order_count: 0, mail_bytes: 0, mail_bytes_checked: 0, stored_bytes: 0 }
  const state = { ...counters, recounted_at: 0, last_change: COPY_CHANGES, slot: freeSlot(Number(company.slot)) }
  const isCompany = sql`id = ${companyId}`
  const [, , [row]] = await db.writeIdempotent([
    orm
      .insert(companies)
      .values({ ...values, ...state })
      .onConflictDoNothing(),
    // Otherwise this move's own slot in the directory counts as taken.
    orm.update(companies).set(state).where(sql`${isCompany} AND database IS NOT NULL`),
    orm.select({ slot: companies.slot }).from(companies).where(isCompany),
  ])
  return row?.slot ?? 0
}

/** Removes changes that the old database has expired meanwhile. */
export async function removeOldChanges({ companyId, db }: CompanyContext, oldest: number): Promise<void> {
  await db.writeIdempotent([
    statement('DELETE FROM changes WHERE company_id = ?1 AND sequence < ?2', companyId, oldest),
  ])
}

/** The sweep removes older audit entries soon, and in the old database only. */
const AUDIT_MS = 89 * 24 * 3_600_000

/** Sums to compare at the end besides row counts: of rows written by triggers, and of rows without stamps. */
const SUMS: Record<string, [sum: string, where: string]> = {
  thread_context_links: ['sum(entity_id % 1000003)', '1'],
  changes: ['sum(version * 31 + at % 1000003)', '1'],
  accounting_outbox: [
    "sum(order_id % 1000003 * 31 + created_at % 1000003 + octet_length(operation || state || coalesce(request_body, '')))",
    "state <> 'done'",
  ],
  audit_log: ['sum(at % 1000003 * 31 + token_id % 997 + octet_length(entity_id || action))', 'at > ?2'],
}

export async function readEnds({ companyId, db }: CompanyContext, nowMs: number) {
  const texts = REMOVED.map(({ table }) => {
    const [sum, where] = SUMS[table] ?? ['0', '1']
    return `SELECT '${table}' AS name, count(*) AS count, ${sum} AS checksum FROM ${table}
      WHERE company_id = ?1 AND ${where}`
  })
  const counters =
    "SELECT 'companies' AS name, client_count AS count, order_count AS checksum FROM companies WHERE id = ?1"
  const read = (text: string) =>
    statement<{ name: string }>(text, companyId, ...(text.includes('?2') ? [nowMs - AUDIT_MS] : []))
  const results = await db.read([read(counters), ...texts.map(read)])
  return results.flat()
}

/** Columns of `companies` with values of one database. */
const OWN_COLUMNS = ['id', 'slot', 'database', 'database_slot']

/** Completes the company's row in its new database, which accepts writes from now on. Nothing refers to it yet. */
export async function openDestination({ companyId, db }: CompanyContext, company: Row): Promise<void> {
  const names = Object.keys(company).filter((name) => !OWN_COLUMNS.includes(name))
  const values = names.map((name) => [name, sql`${company[name] ?? null}`])
  await db.writeIdempotent([
    statement("UPDATE company_guards SET state = 'writable' WHERE company_id = ?", companyId),
    orm.update(companies).set(Object.fromEntries(values)).where(sql`id = ${companyId}`),
  ])
}

/** Refuses writes in the new database again: copied rows stay, and its changes are numbered as a copy's again. */
export async function closeDestination({ companyId, db }: CompanyContext): Promise<void> {
  await db.writeIdempotent([
    statement(
      `UPDATE companies SET last_change = ?2 WHERE id = ?1
        AND EXISTS (SELECT 1 FROM company_guards WHERE company_id = ?1 AND state = 'writable')`,
      ...[companyId, COPY_CHANGES],
    ),
    statement("UPDATE company_guards SET state = 'moved' WHERE company_id = ? AND state = 'writable'", companyId),
  ])
}

/** Where a company is from now on, and who moved it. */
interface Target {
  destination: string
  slot: number
  by: Administrator
}

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
  const leave = statement<{ state: string }>(
    "UPDATE company_guards SET state = 'moved', read_only_at = NULL WHERE company_id = ? AND state = 'read_only' RETURNING state",
    companyId,
  )
  const isLeft = "EXISTS (SELECT 1 FROM company_guards WHERE company_id = ?3 AND state = 'moved')"
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
export async function closeCopies({ companyId }: CompanyContext, own: string, databases: ReturnType<typeof openEach>) {
  const { slot, suspended } = companies
  const fields = { slot, suspended, isHere: sql<number>`${isHere}`.as('is_here') }
  const select = orm.select(fields).from(companies).where(sql`id = ${companyId} AND database IS NULL`)
  const rows = await Promise.all(databases.map(async ({ db }) => (await db.read([select]))[0][0]))
  const row = rows[databases.findIndex(({ name }) => name === own)]
  for (const [index, { name, db }] of databases.entries()) {
    if (!row?.isHere || !rows[index]?.isHere || name === own) continue
    await db.writeIdempotent([
      saveGuard(companyId, { state: 'moved', destination: own, slot: row.slot }),
      // A later move to this database then removes them as a copy, with their texts in the full-text tables.
      statement('UPDATE companies SET last_change = ?2 WHERE id = ?1', companyId, COPY_CHANGES),
    ])
  }
  return row
}

/** Writes the company's database into the directory, unless it is already there. @param context of the directory */
export async function setPlacement({ companyId, db }: CompanyContext, target: Target): Promise<void> {
  await db.writeIdempotent(placement(companyId, target))
}

/** The entry must directly follow the statement that places the company, in its transaction. */
function placement(companyId: number, { destination, slot, by }: Target, condition = '1') {
  const [binding, ownSlot] = destination === DIRECTORY ? [null, null] : [destination, slot]
  const text = `UPDATE companies SET database = ?1, database_slot = ?2
    WHERE id = ?3 AND database IS NOT ?1 AND ${condition}`
  const entry = adminEntry(by, 'companies.move', destination, sql`changes() > 0`)
  return [statement(text, binding, ownSlot, companyId), entry] as const
}

export async function findLastCopied({ companyId, db }: CompanyContext, { table, key }: TablePlan): Promise<number> {
  const last = `SELECT max(${key}) AS last FROM ${table} WHERE company_id = ?`
  const [[row]] = await db.read([statement<{ last: number | null }>(last, companyId)])
  return row?.last ?? 0
}
