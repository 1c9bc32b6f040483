import { sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { DIRECTORY } from '../../kernel/db/placement.ts'
import { storedBytes } from '../../kernel/db/quota.ts'
import { apiTokens, companies } from '../../kernel/db/schema.ts'

const { name, currency, mail_bytes, mail_quota_bytes, storage_quota_bytes } = companies

const ofCompany = prepare((p: Placeholders<'companyId'>) =>
  orm
    .select({
      ...{ name, currency, mail_bytes, mail_quota_bytes, storage_quota_bytes },
      stored_bytes: storedBytes.as('stored'),
    })
    .from(companies)
    .where(sql`${companies.id} = ${p.companyId}`),
)

const ofToken = prepare((p: Placeholders<'companyId' | 'tokenId'>) =>
  orm
    .select({ name: apiTokens.name, created_at: apiTokens.created_at })
    .from(apiTokens)
    .where(sql`${apiTokens.id} = ${p.tokenId} AND ${apiTokens.company_id} = ${p.companyId}`),
)

export async function findAccount({ db, openDirectory, companyId, token }: RequestContext) {
  const [company, row] = [ofCompany({ companyId }), ofToken({ companyId, tokenId: token.id })]
  const read = async () => {
    if (token.database === DIRECTORY) return db.read([company, row])
    const [[companies], [tokens]] = await Promise.all([db.read([company]), openDirectory().read([row])])
    return [companies, tokens] as const
  }
  const [[foundCompany], [foundToken]] = await read()
  if (!foundCompany || !foundToken) throw new Error('The company or the token has no row.')
  return { company: foundCompany, token: foundToken }
}
