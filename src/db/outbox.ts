import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../http/context.ts'
import { accountingOutbox } from './schema.ts'

/**
 * A statement for the batch of an order's change: the notice for the accounting system. It is written when the request,
 * else the company, wants the accounting system told, the company's integration is enabled, and `when` holds.
 */
export function accountingNotice(
  { db, companyId, now }: Pick<RequestContext, 'db' | 'companyId' | 'now'>,
  operation: 'create' | 'update' | 'delete',
  orderId: SQL,
  requested: boolean | undefined,
  when: SQL,
) {
  const wanted =
    requested === undefined
      ? sql`EXISTS (SELECT 1 FROM companies WHERE id = ${companyId} AND accounting_sync_enabled = 1)`
      : sql`${Number(requested)} = 1`
  return db.orm.insert(accountingOutbox).select(
    sql`SELECT NULL, ${companyId}, ${orderId}, ${operation}, 'pending', 0, 0, ${now}, NULL, NULL, NULL, ${now}, ${now}
      WHERE ${wanted} AND ${when} AND EXISTS (
        SELECT 1 FROM integrations WHERE company_id = ${companyId} AND kind = 'accounting_sync' AND enabled = 1)`,
  )
}
