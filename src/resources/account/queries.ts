import { eq } from 'drizzle-orm'
import { orm } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { storedBytes } from '../../kernel/db/refusals.ts'
import { companies } from '../../kernel/db/schema.ts'

export async function findAccount({ db, companyId }: CompanyContext) {
  const { id, name, currency, mail_bytes, mail_quota_bytes, storage_quota_bytes } = companies
  const stored_bytes = storedBytes.as('stored')
  const selected = { name, currency, mail_bytes, mail_quota_bytes, storage_quota_bytes, stored_bytes }
  const [[company]] = await db.read([orm.select(selected).from(companies).where(eq(id, companyId))])
  if (!company) throw new Error('The company has no row.')
  return company
}
