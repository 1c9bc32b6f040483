import { type SQL, sql } from 'drizzle-orm'
import type { Input } from '../../../kernel/api/contract.ts'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { openDatabase, orm, statement } from '../../../kernel/db/client.ts'
import { bindingOf, DIRECTORY, placementColumns, syncDirectory } from '../../../kernel/db/placement.ts'
import { storedBytes } from '../../../kernel/db/refusals.ts'
import { adminLog, auditLog, companies, members } from '../../../kernel/db/schema.ts'
import { conflict, found } from '../../../kernel/http/errors.ts'
import { log, nameOf } from '../../../kernel/http/isolate.ts'
import type { AdminContext } from '../context.ts'
import type { Page } from '../queries.ts'
import type * as contract from './contract.ts'

const { id, name, currency, suspended, accounting_sync_enabled, deliveries_paused } = companies
const { mail_quota_bytes, storage_quota_bytes, client_count, order_count, mail_bytes, created_at, updated_at } =
  companies
const columns = {
  ...{ id, name, currency, suspended, accounting_sync_enabled, deliveries_paused },
  ...{ mail_quota_bytes, storage_quota_bytes, client_count, order_count, mail_bytes, created_at, updated_at },
  stored_bytes: storedBytes.as('stored'),
}
const UNCOUNTED = { client_count: 0, order_count: 0, mail_bytes: 0, stored_bytes: 0 }

/** Lists the directory's companies, each with the counters of its own database. */
export async function listCompanies({ directory, env, requestId }: AdminContext, { after, limit }: Page) {
  const select = orm.select({ ...columns, database: placementColumns.database }).from(companies)
  const rest = sql`id > ${after[0] ?? 0}`
  const [placed] = await directory.read([select.where(rest).orderBy(id).limit(limit)])
  const elsewhere = placed.filter(({ database }) => database !== DIRECTORY)
  const byDatabase = Map.groupBy(elsewhere, ({ database }) => database)
  const counts = Array.from(byDatabase, async ([database, rows]) => {
    const ids = JSON.stringify(rows.map(({ id }) => id))
    const isListed = sql`id IN (SELECT value FROM json_each(${ids}))`
    try {
      const db = openDatabase(bindingOf(env, database))
      const [counted] = await db.read([orm.select(columns).from(companies).where(isListed)])
      return counted
    } catch (error) {
      // The directory's rows are as old as the move: their settings are listed, but not their counters.
      log('companies_uncounted', { request_id: requestId, database, error: nameOf(error) }, 'error')
      return rows.map(({ id }) => ({ id, ...UNCOUNTED }))
    }
  })
  const byId = new Map((await Promise.all(counts)).flat().map((row) => [row.id, row]))
  return placed.map((row) => ({ ...row, ...byId.get(row.id), suspended: row.suspended }))
}

/** Finds the company with the lowest id from a number on, and its database. */
export async function findNextCompany({ directory: db }: AdminContext, from: number) {
  const select = orm.select({ id, database: placementColumns.database }).from(companies)
  const [[row]] = await db.read([select.where(sql`id >= ${from}`).orderBy(id).limit(1)])
  return row ?? null
}

export async function readCompany({ companyId, db, directory, database }: AdminContext) {
  const isCompany = sql`id = ${companyId}`
  const [[[row]], [[placed]]] = await Promise.all([
    db.read([orm.select(columns).from(companies).where(isCompany)]),
    // Its row refuses tokens.
    directory.read([orm.select({ suspended }).from(companies).where(isCompany)]),
  ])
  return { ...found(row, 'Company'), ...placed, database }
}

export async function updateCompany(context: AdminContext, change: Input<typeof contract.updateCompany>['body']) {
  const { companyId, db, database, now } = context
  const update = orm.update(companies).set({ ...change, updated_at: now })
  const [, [row]] = await db.writeIdempotent([
    adminEntry(context, `companies.update:${Object.keys(change).sort().join()}`, companyId),
    update.where(sql`id = ${companyId}`).returning(columns),
  ])
  // The directory's row refuses tokens. If this request is interrupted here, its caller must repeat it.
  await syncDirectory(context, Object.keys(change))
  return { ...found(row, 'Company'), database }
}

type Member = typeof members.$inferSelect

const MAX_MEMBERS = 1_000

const selectMembers = (where: SQL) =>
  orm.select({ email: members.email, role: members.role, created_at: members.created_at }).from(members).where(where)

export async function listMembers({ companyId, directory: db }: AdminContext, { after, limit }: Page) {
  const rest = sql`company_id = ${companyId} AND email > ${after[0] ?? ''}`
  const [rows] = await db.read([selectMembers(rest).orderBy(members.email).limit(limit)])
  return rows
}

/** Adds a member or changes the role. @throws ApiError 409 if no owner would remain, or a company has too many members */
export async function putMember(context: AdminContext, { params, body }: Input<typeof contract.putMember>) {
  const { companyId, directory: db, now } = context
  const { email } = params
  const { role } = body
  const isOf = sql`company_id = ${companyId} AND email = ${email}`
  const isMember = sql`EXISTS (SELECT 1 FROM members WHERE ${isOf})`
  const hasRoom = sql`(SELECT count(*) FROM members WHERE company_id = ${companyId}) < ${MAX_MEMBERS}`
  const isAllowed = sql`(${isMember} OR ${hasRoom}) AND (${role} = 'owner' OR NOT ${isLastOwner(companyId, email)})`
  const [, , [row]] = await db.writeIdempotent([
    statement(sql`INSERT INTO members (company_id, email, role, created_at)
      SELECT ${companyId}, ${email}, ${role}, ${now} WHERE ${isAllowed}
      ON CONFLICT (company_id, email) DO UPDATE SET role = excluded.role`),
    adminEntry(context, 'members.put', email, sql`changes() > 0`),
    selectMembers(isOf),
  ])
  if (!row) throw conflict('The company has 1,000 members: remove one first')
  if (row.role === role) return row
  throw conflict('The last owner cannot become a developer: make another member an owner first')
}

/** Protects the last owner: without one, nobody could administer the company. */
function isLastOwner(companyId: number, email: string): SQL {
  return sql`coalesce((SELECT min(email) = ${email} AND count(*) = 1 FROM members
    WHERE company_id = ${companyId} AND role = 'owner'), 0)`
}

/** @throws ApiError 404 if there is none, 409 if no owner would remain */
export async function deleteMember(context: AdminContext, { params: { email } }: Input<typeof contract.deleteMember>) {
  const { companyId, directory: db } = context
  const isOf = sql`company_id = ${companyId} AND email = ${email}`
  const mayGo = sql`${isOf} AND NOT ${isLastOwner(companyId, email)}`
  const [[member], [removed]] = await db.write([
    selectMembers(isOf),
    orm.delete(members).where(mayGo).returning({ email: members.email }),
    adminEntry(context, 'members.delete', email, sql`changes() > 0`),
  ])
  found(member, 'Member')
  if (!removed) throw conflict('The last owner cannot be removed: make another member an owner first')
  return { email, deleted: true as const }
}

/** Lists the companies that the caller may administer, with the role there, the first 1,000 by id. */
export async function listOwnCompanies({ directory, caller }: AdminContext) {
  const all = sql`SELECT id, name, 'operator' AS role FROM companies`
  const own = sql`SELECT m.company_id AS id, c.name, m.role FROM members AS m JOIN companies AS c ON c.id = m.company_id
    WHERE m.email = ${caller.actor}`
  const [rows] = await directory.read([
    statement<{ id: number; name: string; role: Member['role'] | 'operator' }>(
      sql`${caller.isOperator ? all : own} ORDER BY id LIMIT 1000`,
    ),
  ])
  return rows
}

type AuditRow = Omit<typeof adminLog.$inferSelect, 'address'> & { token_id: number | null; address: string | null }

/** Lists changes by people and operators, or those with API tokens. */
export async function listEntries(
  { companyId, directory, db }: AdminContext,
  { query, after, limit }: Page<{ source: 'administration' | 'api' }>,
): Promise<AuditRow[]> {
  const rest = sql`company_id = ${companyId} AND id < ${after[0] ?? Number.MAX_SAFE_INTEGER}`
  const newest = sql`id DESC`
  if (query.source === 'api') {
    const [rows] = await db.read([orm.select().from(auditLog).where(rest).orderBy(newest).limit(limit)])
    return rows.map((row) => ({ ...row, actor: 'token', address: null }))
  }
  const [rows] = await directory.read([orm.select().from(adminLog).where(rest).orderBy(newest).limit(limit)])
  return rows.map((row) => ({ ...row, token_id: null }))
}
