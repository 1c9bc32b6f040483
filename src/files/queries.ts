import { and, eq, sql } from 'drizzle-orm'
import { type Database, orm } from '../db/client.ts'
import { integrations, orders } from '../db/schema.ts'

/** A company's own storage as it is stored: the credentials are encrypted. */
export type StorageRow = Pick<typeof integrations.$inferSelect, 'base_url' | 'settings' | 'credentials'>

/** Whether the company has this order and it is not deleted, and the storage of its own, where that is switched on. */
export async function findOrderAndStorage(
  db: Database,
  companyId: number,
  orderId: number,
): Promise<{ hasOrder: boolean; storage: StorageRow | null }> {
  const [[order], [storage]] = await db.read([
    orm
      .select({ id: orders.id })
      .from(orders)
      .where(and(eq(orders.company_id, companyId), eq(orders.id, orderId), sql`${orders.deleted} = 0`)),
    orm
      .select({
        base_url: integrations.base_url,
        settings: integrations.settings,
        credentials: integrations.credentials,
      })
      .from(integrations)
      .where(
        and(eq(integrations.company_id, companyId), eq(integrations.kind, 'storage'), sql`${integrations.enabled} = 1`),
      ),
  ])
  return { hasOrder: order !== undefined, storage: storage ?? null }
}
