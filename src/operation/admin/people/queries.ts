import { type SQL, sql } from 'drizzle-orm'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { orm, statement } from '../../../kernel/db/client.ts'
import { insertRow } from '../../../kernel/db/columns.ts'
import { adminLog, auditLog, members } from '../../../kernel/db/schema.ts'
import { conflict, found } from '../../../kernel/http/errors.ts'
import type { AdminContext } from '../context.ts'
import type { Page } from '../queries.ts'

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
export async function putMember(context: AdminContext, email: string, role: Member['role']) {
  const { companyId, directory: db, now } = context
  const isOf = sql`company_id = ${companyId} AND email = ${email}`
  const isMember = sql`EXISTS (SELECT 1 FROM members WHERE ${isOf})`
  const hasRoom = sql`(SELECT count(*) FROM members WHERE company_id = ${companyId}) < ${MAX_MEMBERS}`
  const isAllowed = sql`(${isMember} OR ${hasRoom}) AND (${role} = 'owner' OR NOT ${isLastOwner(companyId, email)})`
  const member = { company_id: companyId, email, role, created_at: now }
  const [, , [row]] = await db.writeIdempotent([
    insertRow(members, member, sql`WHERE ${isAllowed}`).onConflictDoUpdate({
      target: [members.company_id, members.email],
      set: { role },
    }),
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
export async function deleteMember(context: AdminContext, email: string) {
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
}

/** Lists the companies that the caller may administer, with the role there, the first 1,000 by id. */
export async function listOwnCompanies({ directory, caller }: AdminContext) {
  const all = sql`SELECT id, name, 'operator' AS role FROM companies`
  const own = sql`SELECT c.id, c.name, m.role FROM members AS m JOIN companies AS c ON c.id = m.company_id
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
