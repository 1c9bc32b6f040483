import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../http/context.ts'
import { orm } from './client.ts'
import { accountingOutbox } from './schema.ts'

/**
 * A statement for the batch of an order's change: the notice for the accounting system. It is written when the request,
 * else the company, wants the accounting system told, the company's integration is enabled, and `when` holds. It gives
 * a row when it is: then somebody should call `wakeAccounting` after the commit.
 */
export function accountingNotice(
  { companyId, now }: Pick<RequestContext, 'companyId' | 'now'>,
  operation: 'create' | 'update' | 'delete',
  orderId: SQL,
  requested: boolean | undefined,
  when: SQL,
) {
  const wanted =
    requested === undefined
      ? sql`EXISTS (SELECT 1 FROM companies WHERE id = ${companyId} AND accounting_sync_enabled = 1)`
      : sql`${Number(requested)} = 1`
  return orm
    .insert(accountingOutbox)
    .select(
      sql`SELECT NULL, ${companyId}, ${orderId}, ${operation}, 'pending', 0, 0, ${now}, NULL, NULL, NULL, ${now}, ${now}
        WHERE ${wanted} AND ${when} AND EXISTS (
          SELECT 1 FROM integrations WHERE company_id = ${companyId} AND kind = 'accounting_sync' AND enabled = 1)`,
    )
    .returning({ id: accountingOutbox.id })
}

/** How an order stands with the accounting system. */
export interface AccountingRow {
  /** Of the notice that counts: one to be delivered, else the newest that was given up, else null. */
  state: 'pending' | 'sent' | 'parked' | 'dead' | null
  lastError: string | null
  /** Why nothing of the company is delivered; null while it is. */
  stopReason: string | null
  /** When a notice last arrived, in milliseconds since the epoch. */
  syncedAt: number | null
}

/** A query of one {@link AccountingRow}. */
export function accountingOfOrder(companyId: number, orderId: SQL) {
  return orm
    .select({
      state: sql<AccountingRow['state']>`notice.state`.as('state'),
      lastError: sql<string | null>`notice.last_error`.as('last_error'),
      stopReason: sql<string | null>`stop.reason`.as('stop_reason'),
      syncedAt: sql<number | null>`link.synced_at`.as('synced_at'),
    })
    .from(
      sql`(SELECT 1)
        LEFT JOIN (SELECT state, last_error FROM accounting_outbox
          WHERE company_id = ${companyId} AND order_id = ${orderId} AND state <> 'done'
          ORDER BY state IN ('pending', 'sent') DESC, id DESC LIMIT 1) AS notice
        LEFT JOIN accounting_links AS link ON link.company_id = ${companyId} AND link.order_id = ${orderId}
        LEFT JOIN (SELECT reason FROM accounting_connections AS c
          JOIN integrations AS i ON i.company_id = c.company_id AND i.kind = 'accounting_sync'
          WHERE c.company_id = ${companyId} AND c.stopped_for = i.updated_at) AS stop`,
    )
}
