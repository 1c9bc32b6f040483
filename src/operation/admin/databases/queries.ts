import { sql } from 'drizzle-orm'
import { adminEntry, collectAdminEntries } from '../../../kernel/db/audit.ts'
import { openDatabase, orm, startUse, statement } from '../../../kernel/db/client.ts'
import { insertRow, named } from '../../../kernel/db/columns.ts'
import { bindingOf, DIRECTORY, databaseNames, freeSlot, isPresent, isSettled } from '../../../kernel/db/placement.ts'
import { companies, moves } from '../../../kernel/db/schema.ts'
import { nameOf } from '../../../kernel/http/isolate.ts'
import { hasContent } from '../../copies/restore.ts'
import type { AdminContext } from '../context.ts'
import { checkKnown } from '../queries.ts'

/** Sums up each database by its companies' counters. A database that fails is listed with its error. */
export async function listDatabases({ env }: AdminContext) {
  return Promise.all(
    databaseNames(env).map(async (name) => {
      const use = startUse()
      try {
        const held = sql`SELECT count(*) AS companies, coalesce(sum(client_count + order_count), 0) AS rows FROM companies AS c
          WHERE c.database IS NULL AND NOT EXISTS (
            SELECT 1 FROM company_guards AS g WHERE g.company_id = c.id AND g.state IN ('moved', 'writable'))`
        const read = statement<{ companies: number; rows: number }>(held)
        const [[row]] = await openDatabase(bindingOf(env, name), { use }).read([read])
        return { name, companies: row?.companies ?? 0, rows: row?.rows ?? 0, size_bytes: use.sizeBytes, error: null }
      } catch (error) {
        return { name, companies: 0, rows: 0, size_bytes: 0, error: nameOf(error) }
      }
    }),
  )
}

export async function listMoves({ directory }: AdminContext) {
  const [rows] = await directory.read([orm.select().from(moves).orderBy(moves.started_at).limit(1_000)])
  return rows
}

type NewCompany = { id: number; name: string; database: string; adopt: boolean }

/** Creates a company in a database, or adopts it there: see {@link checkKnown}. @returns null if the id is taken */
export async function createCompany(context: AdminContext, { database, adopt, ...given }: NewCompany) {
  const { directory, env, now } = context
  const { id } = given
  if (await checkKnown({ ...context, companyId: id }, adopt ? database : undefined)) return null
  const company = { ...given, created_at: now, updated_at: now }
  const isFree = sql`NOT EXISTS (SELECT 1 FROM companies WHERE id = ${id})`
  const insert = (placed: object) => insertRow(companies, { ...company, ...placed }, sql`WHERE ${isFree}`)
  let placed: object = { slot: freeSlot() }
  if (database !== DIRECTORY) {
    // Nobody sees the company before the directory names it: a retry completes an interrupted creation.
    const db = openDatabase(bindingOf(env, database))
    const [, , [row]] = await db.writeIdempotent([
      // One that was here, and that the directory has lost since, would be sent on to where it went.
      statement(sql`DELETE FROM company_guards WHERE company_id = ${id} AND (${adopt} OR ${isFree})`),
      insert(placed),
      statement<{ name: string; suspended: number; slot: number }>(sql`SELECT name, suspended, slot FROM companies
        WHERE id = ${id} AND (${adopt} OR NOT ${hasContent({ companyId: id })})`),
    ])
    if (!row) return null
    placed = { ...row, database, database_slot: row.slot }
  }
  const [rows] = await directory.write([
    insert(placed).returning({ id: companies.id, name: companies.name }),
    // `changes()` must follow the statement that inserts the company.
    adminEntry({ ...context, companyId: id }, 'companies.create', database, sql`changes() > 0`),
  ])
  return rows[0] ?? null
}

/** All encrypted values. Each is bound to its company and `kind`: see `kernel/db/credentials.ts`. */
const VALUES = sql`SELECT 'integrations' AS "table", 'credentials' AS "column", company_id AS companyId, kind,
    credentials AS stored FROM integrations
  UNION ALL SELECT 'webhook_endpoints', 'secret', company_id, 'webhook/' || id, secret FROM webhook_endpoints
  UNION ALL SELECT 'accounting_connections', 'tokens', company_id, 'accounting_sync', tokens FROM accounting_connections`

export type EncryptedValue = { companyId: number } & Record<'table' | 'column' | 'kind' | 'stored', string>

/** Counts the values that do not begin with the prefix of a key, and lists some that may be changed. */
export async function listOldValues({ db }: AdminContext, prefix: string, limit: number, offset = 0) {
  const old = sql`(${VALUES}) AS v WHERE substr(stored, 1, ${prefix.length}) <> ${prefix} AND ${isPresent(sql`companyId`)}`
  const [[count], rows] = await db.read([
    statement<{ total: number }>(sql`SELECT count(*) AS total FROM ${old}`),
    statement<EncryptedValue>(sql`SELECT * FROM ${old} AND ${isSettled(sql`companyId`)}
      ORDER BY "table", companyId, kind LIMIT ${limit} OFFSET ${offset}`),
  ])
  return { total: count?.total ?? 0, rows }
}

/** Replaces values unless they changed meanwhile. @param values with their new text */
export async function saveValues(context: AdminContext, values: (EncryptedValue & { encrypted: string })[]) {
  // This context is of a whole database, whose writes nothing else refuses.
  const updates = values.map(({ table, column, companyId, stored, encrypted }) =>
    statement(sql`UPDATE ${named(table)} SET ${named(column)} = ${encrypted}
      WHERE company_id = ${companyId} AND ${named(column)} = ${stored} AND ${isSettled(sql`company_id`)}`),
  )
  await context.db.writeIdempotent([adminEntry(context, 'keys.rotate', values.length), ...updates])
  await collectAdminEntries(context.env, context.database)
}
