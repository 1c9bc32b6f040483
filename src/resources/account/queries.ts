import { sql } from 'drizzle-orm'
import { orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { storedBytes } from '../../kernel/db/quota.ts'
import { companies } from '../../kernel/db/schema.ts'

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

export async function findAccount({ db, companyId }: CompanyContext) {
  const [[company]] = await db.read([ofCompany({ companyId })])
  if (!company) throw new Error('The company has no row.')
  return company
}
