import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { Placeholders } from './client.ts'
import { insertRow } from './columns.ts'
import { accountingOutbox } from './schema.ts'

/**
 * Writes an order's event when the request, else the company, enables the sync, the integration is enabled, and `when`
 * holds. It returns a row when it does: call `deliverAccounting` after the commit. The event is due with the order's call
 * that is under way: a due event can always be delivered.
 */
export function accountingEvent(
  { companyId, now, requested }: Placeholders<'companyId' | 'now', 'requested'>,
  operation: 'create' | 'update' | 'delete' | Placeholder,
  orderId: SQL,
  when: SQL,
) {
  const isEnabled = requested
    ? sql`${requested} = 1`
    : sql`EXISTS (SELECT 1 FROM companies WHERE id = ${companyId} AND accounting_sync_enabled = 1)`
  const due = sql`max(${now}, coalesce((SELECT max(next_attempt_at) FROM accounting_outbox
    WHERE company_id = ${companyId} AND order_id = ${orderId} AND state <> 'done' AND state = 'sent'), 0))`
  return insertRow(
    accountingOutbox,
    { company_id: companyId, order_id: orderId, operation, next_attempt_at: due, created_at: now, updated_at: now },
    sql`WHERE ${isEnabled} AND ${when} AND EXISTS (
      SELECT 1 FROM integrations WHERE company_id = ${companyId} AND kind = 'accounting_sync' AND enabled = 1)`,
  ).returning({ id: accountingOutbox.id })
}

export interface AccountingRow {
  /** State of the newest undelivered event, else of the newest parked or dead one, else null. */
  state: 'pending' | 'sent' | 'parked' | 'dead' | null
  lastError: string | null
  /** The reason that stopped the company's deliveries; null while they run. */
  stopReason: string | null
  /** The time of the last delivery, in milliseconds since the epoch. */
  syncedAt: number | null
}

/** Selects an {@link AccountingRow} as JSON. */
export function accountingJson(companyId: Placeholder, orderId: SQL): SQL {
  const newestOf = (state: string) => sql`SELECT max(id) AS id FROM accounting_outbox
    WHERE company_id = ${companyId} AND order_id = ${orderId} AND state <> 'done' AND state = ${sql.raw(`'${state}'`)}`
  const newest = (one: string, other: string) =>
    sql`(SELECT max(id) FROM (${newestOf(one)} UNION ALL ${newestOf(other)}))`
  return sql`SELECT json_object('state', event.state, 'lastError', event.last_error, 'stopReason', stop.reason,
      'syncedAt', link.synced_at) FROM (SELECT 1)
    LEFT JOIN accounting_outbox AS event
      ON event.id = coalesce(${newest('pending', 'sent')}, ${newest('parked', 'dead')})
    LEFT JOIN accounting_links AS link ON link.company_id = ${companyId} AND link.order_id = ${orderId}
    LEFT JOIN (SELECT reason FROM accounting_connections AS c
      JOIN integrations AS i ON i.company_id = c.company_id AND i.kind = 'accounting_sync'
      WHERE c.company_id = ${companyId} AND c.stopped_for = i.updated_at) AS stop`
}
