import { sql } from 'drizzle-orm'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { openDatabase, orm, startUse } from '../../../kernel/db/client.ts'
import { insertRow } from '../../../kernel/db/columns.ts'
import { bindingOf, DIRECTORY, databaseNames, freeSlot, unusedSlot } from '../../../kernel/db/placement.ts'
import { companies, moves } from '../../../kernel/db/schema.ts'
import { nameOf } from '../../../kernel/http/errors.ts'
import type { AdminContext } from '../context.ts'

/** Sums up each database by its companies' counters. A database that fails is listed with its error. */
export async function listDatabases({ env }: AdminContext) {
  return Promise.all(
    databaseNames(env).map(async (name) => {
      const use = startUse()
      try {
        const held = sql`${companies.database} IS NULL AND NOT EXISTS (
          SELECT 1 FROM company_guards AS g WHERE g.company_id = ${companies.id} AND g.state IN ('moved', 'writable'))`
        const [[row]] = await openDatabase(bindingOf(env, name), { use }).read([
          orm
            .select({
              companies: sql<number>`count(*)`.as('held'),
              rows: sql<number>`coalesce(sum(client_count + order_count), 0)`.as('held_rows'),
            })
            .from(companies)
            .where(held),
        ])
        return { name, companies: row?.companies ?? 0, rows: row?.rows ?? 0, size_bytes: use.sizeBytes, error: null }
      } catch (error) {
        return { name, companies: 0, rows: 0, size_bytes: 0, error: nameOf(error) }
      }
    }),
  )
}

/** Lists incomplete moves, oldest first. */
export async function listMoves({ directory }: AdminContext) {
  const [rows] = await directory.read([orm.select().from(moves).orderBy(moves.started_at).limit(1_000)])
  return rows
}

/** Creates a company in a database. @returns false if the id is taken */
export async function createCompany(
  context: AdminContext,
  id: number,
  name: string,
  database: string,
): Promise<boolean> {
  const { directory, env, now } = context
  const company = { id, name, created_at: now, updated_at: now }
  // `changes()` must follow the statement that inserts the company.
  const entry = adminEntry({ ...context, companyId: id }, 'companies.create', database, sql`changes() > 0`)
  if (database === DIRECTORY) {
    const insert = orm.insert(companies).values({ ...company, slot: freeSlot(unusedSlot) })
    const [rows] = await directory.write([
      insert.onConflictDoNothing({ target: companies.id }).returning({ id: companies.id }),
      entry,
    ])
    return rows.length > 0
  }
  const [[taken], [free]] = await directory.read([
    orm.select({ id: companies.id }).from(companies).where(sql`id = ${id}`),
    orm.select({ slot: sql<number>`${unusedSlot}`.as('unused') }).from(sql`(SELECT 1)`),
  ])
  if (taken) return false
  // Nobody sees the company before the directory names it: a retry completes an interrupted creation.
  const [, [row]] = await openDatabase(bindingOf(env, database)).writeIdempotent([
    orm
      .insert(companies)
      .values({ ...company, slot: freeSlot(free?.slot ?? 0) })
      .onConflictDoNothing({ target: companies.id }),
    orm.select({ slot: companies.slot }).from(companies).where(sql`id = ${id}`),
  ])
  const slot = row?.slot ?? 0
  const isFree = sql`NOT EXISTS (SELECT 1 FROM companies WHERE id = ${id})`
  const insert = insertRow(companies, { ...company, slot, database, database_slot: slot }, sql`WHERE ${isFree}`)
  const [rows] = await directory.write([insert.returning({ id: companies.id }), entry])
  return rows.length > 0
}
