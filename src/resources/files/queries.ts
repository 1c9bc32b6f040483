import { and, eq, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepareNamed } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { type Actor, type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { integrations, orders } from '../../kernel/db/schema.ts'
import { notFound } from '../../kernel/http/errors.ts'

/** A company's own storage, with encrypted credentials. */
export type StorageRow = Pick<typeof integrations.$inferSelect, 'base_url' | 'settings' | 'credentials'>

/** Null for a company that has no storage of its own, or has disabled it. @throws ApiError 404 without such an order */
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

const deletionRecord = prepareNamed((p: Placeholders<Actor | 'key' | 'response', KeyName>) => ({
  audit: auditEntry(p, 'file.delete', sql`${p.key}`),
  result: resultStatement(p, sql`${p.response}`),
}))

/** Comes before the deletion: a refused record changes nothing, and a repetition can delete the file, not record it. */
export function deletionRecordOf<T>(context: RequestContext, key: string, response: T): Write<T> {
  return {
    statements: deletionRecord({ ...writerOf(context), key, response: JSON.stringify(response) }),
    isIdempotent: true,
    isDeletion: true,
    read: (result) => JSON.parse(result ?? 'null'),
  }
}
