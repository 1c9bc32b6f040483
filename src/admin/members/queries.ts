import { and, eq, gt, sql } from 'drizzle-orm'
import { adminEntry } from '../../db/audit.ts'
import { orm } from '../../db/client.ts'
import { insertRow } from '../../db/columns.ts'
import { members } from '../../db/schema.ts'
import type { AdminContext, Membership } from '../context.ts'

const MAX_MEMBERS = 1_000

/** @param after the email behind which the page begins */
export async function listMembers({ companyId, directory: db }: AdminContext, after: string, limit: number) {
  const [rows] = await db.read([
    orm
      .select({ email: members.email, role: members.role, created_at: members.created_at })
      .from(members)
      .where(and(eq(members.company_id, companyId), gt(members.email, after)))
      .orderBy(members.email)
      .limit(limit),
  ])
  return rows
}

/** Adds a member or changes the role. @returns the member; null where the company has 1,000 already */
export async function putMember(context: AdminContext, email: string, role: Membership) {
  const { companyId, directory: db, now } = context
  const isMember = sql`EXISTS (SELECT 1 FROM members WHERE company_id = ${companyId} AND email = ${email})`
  const hasRoom = sql`(SELECT count(*) FROM members WHERE company_id = ${companyId}) < ${MAX_MEMBERS}`
  const [, , [row]] = await db.writeIdempotent([
    adminEntry(context, 'members.put', email, sql`${isMember} OR ${hasRoom}`),
    insertRow(
      members,
      { company_id: companyId, email, role, created_at: now },
      sql`WHERE ${isMember} OR ${hasRoom}`,
    ).onConflictDoUpdate({ target: [members.company_id, members.email], set: { role } }),
    orm
      .select({ email: members.email, role: members.role, created_at: members.created_at })
      .from(members)
      .where(and(eq(members.company_id, companyId), eq(members.email, email))),
  ])
  return row ?? null
}

/** @returns whether somebody was removed; `last_owner` where nobody could administer the company any more */
export async function deleteMember(context: AdminContext, email: string): Promise<boolean | 'last_owner'> {
  const { companyId, directory: db } = context
  const isOf = sql`company_id = ${companyId} AND email = ${email}`
  const another = sql`EXISTS (SELECT 1 FROM members AS m WHERE m.company_id = ${companyId} AND m.role = 'owner'
    AND m.email <> ${email})`
  const mayGo = sql`${isOf} AND (role <> 'owner' OR ${another})`
  const [[found], , removed] = await db.write([
    orm.select({ email: members.email }).from(members).where(isOf),
    adminEntry(context, 'members.delete', email, sql`EXISTS (SELECT 1 FROM members WHERE ${mayGo})`),
    orm.delete(members).where(mayGo).returning({ email: members.email }),
  ])
  if (!found) return false
  return removed.length > 0 || 'last_owner'
}
