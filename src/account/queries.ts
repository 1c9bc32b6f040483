import { sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { orm, type Placeholders, prepareBatch } from '../db/client.ts'
import { apiTokens, companies } from '../db/schema.ts'

const account = prepareBatch((p: Placeholders<'companyId' | 'tokenId'>) => [
  orm
    .select({ name: companies.name, mail_bytes: companies.mail_bytes, mail_quota_bytes: companies.mail_quota_bytes })
    .from(companies)
    .where(sql`${companies.id} = ${p.companyId}`),
  orm
    .select({ name: apiTokens.name, created_at: apiTokens.created_at })
    .from(apiTokens)
    .where(sql`${apiTokens.id} = ${p.tokenId} AND ${apiTokens.company_id} = ${p.companyId}`),
])

/** The rows of the request's company and token. */
export async function findAccount({ db, companyId, token }: RequestContext) {
  const [[company], [row]] = await db.read(account({ companyId, tokenId: token.id }))
  if (!company || !row) throw new Error('The company or the token has no row.')
  return { company, token: row }
}
