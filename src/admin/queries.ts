import { sql } from 'drizzle-orm'
import { type CompanyContext, orm, type Placeholders, prepareBatch } from '../db/client.ts'
import { companies, members } from '../db/schema.ts'
import type { AdminCompany, AdminContext, Membership } from './context.ts'

const access = prepareBatch((p: Placeholders<'email' | 'companyId'>) => [
  orm
    .select({ companyId: members.company_id, role: members.role })
    .from(members)
    .where(sql`${members.email} = ${p.email}`),
  orm
    .select({ id: companies.id, slot: companies.slot, name: companies.name, suspended: companies.suspended })
    .from(companies)
    .where(sql`${companies.id} = ${p.companyId}`),
])

/** The roles of a person, and the company of a path; null where there is none. */
export async function findAccess({ db, companyId }: CompanyContext, email: string) {
  const [roles, [company]] = await db.read(access({ email, companyId }))
  const memberships = new Map<number, Membership>(roles.map((row) => [row.companyId, row.role]))
  return { memberships, company: (company ?? null) satisfies AdminCompany | null }
}

/** The companies of a person, with the role in each; the first 1,000 by id of an operator. */
export async function listOwnCompanies({ db, caller }: AdminContext) {
  const ids = JSON.stringify([...caller.memberships.keys()])
  const isOwn = caller.isOperator ? sql`1` : sql`${companies.id} IN (SELECT value FROM json_each(${ids}))`
  const [rows] = await db.read([
    orm
      .select({ id: companies.id, name: companies.name })
      .from(companies)
      .where(isOwn)
      .orderBy(companies.id)
      .limit(1000),
  ])
  return rows
}
