import { sql } from 'drizzle-orm'
import { adminEntry } from '../../db/audit.ts'
import { orm } from '../../db/client.ts'
import { apiTokens, companies } from '../../db/schema.ts'
import type { AdminContext } from '../context.ts'

const { id, name, suspended, accounting_sync_enabled, deliveries_paused, client_count, order_count } = companies
const { mail_bytes, mail_quota_bytes, created_at, updated_at } = companies
const columns = {
  ...{ id, name, suspended, accounting_sync_enabled, deliveries_paused, client_count, order_count },
  ...{ mail_bytes, mail_quota_bytes, created_at, updated_at },
}

/** @param after the id behind which the page begins */
export async function listCompanies({ db }: AdminContext, after: number, limit: number) {
  const [rows] = await db.read([
    orm.select(columns).from(companies).where(sql`id > ${after}`).orderBy(companies.id).limit(limit),
  ])
  return rows
}

export async function readCompany({ companyId, db }: AdminContext) {
  const [[row]] = await db.read([orm.select(columns).from(companies).where(sql`id = ${companyId}`)])
  return row ?? null
}

/** What can be changed of a company. */
export type CompanyChange = Partial<
  Pick<
    typeof companies.$inferInsert,
    'name' | 'suspended' | 'accounting_sync_enabled' | 'deliveries_paused' | 'mail_quota_bytes'
  >
>

export async function updateCompany(context: AdminContext, change: CompanyChange) {
  const { companyId, db, now } = context
  const [, [row]] = await db.writeIdempotent([
    adminEntry(context, `companies.update:${Object.keys(change).sort().join()}`, companyId),
    orm
      .update(companies)
      .set({ ...change, updated_at: now })
      .where(sql`id = ${companyId}`)
      .returning(columns),
  ])
  return row ?? null
}

/** The hashes of the tokens that were used since a time, the most recent first. */
export async function listUsedTokens({ companyId, db }: AdminContext, sinceMs: number, limit: number) {
  const [rows] = await db.read([
    orm
      .select({ hash: apiTokens.token_hash })
      .from(apiTokens)
      .where(sql`company_id = ${companyId} AND last_used_at >= ${sinceMs}`)
      .orderBy(sql`last_used_at DESC`)
      .limit(limit),
  ])
  return rows.map(({ hash }) => hash)
}
