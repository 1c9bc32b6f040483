import { and, eq, sql } from 'drizzle-orm'
import { type CompanyContext, orm } from '../db/client.ts'
import { integrations, orders } from '../db/schema.ts'
import { notFound } from '../http/errors.ts'

/** A company's own storage, its credentials encrypted. */
export type StorageRow = Pick<typeof integrations.$inferSelect, 'base_url' | 'settings' | 'credentials'>

/** The company's own storage, null where it has none or has disabled it. @throws ApiError 404 without such an order */
export async function findStorage({ db, companyId }: CompanyContext, orderId: number): Promise<StorageRow | null> {
  const { base_url, settings, credentials, company_id, kind, enabled } = integrations
  const isOrder = and(eq(orders.company_id, companyId), eq(orders.id, orderId), sql`${orders.deleted} = 0`)
  const isStorage = and(eq(company_id, companyId), eq(kind, 'storage'), sql`${enabled} = 1`)
  const [[order], [storage]] = await db.read([
    orm.select({ id: orders.id }).from(orders).where(isOrder),
    orm.select({ base_url, settings, credentials }).from(integrations).where(isStorage),
  ])
  if (!order) throw notFound('Order')
  return storage ?? null
}
