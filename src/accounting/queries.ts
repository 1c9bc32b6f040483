import { and, asc, eq, getTableColumns, isNotNull, type SQL, sql } from 'drizzle-orm'
import { type Database, orm } from '../db/client.ts'
import { jsonRow } from '../db/columns.ts'
import {
  accountingConnections,
  accountingLinks,
  accountingOutbox,
  clients,
  integrations,
  invoiceItems,
  invoices,
  orders,
  taxes,
} from '../db/schema.ts'

export type NoticeRow = typeof accountingOutbox.$inferSelect
export type LinkRow = typeof accountingLinks.$inferSelect
export type ConnectionRow = typeof accountingConnections.$inferSelect
/** As stored: the credentials are encrypted. */
export type IntegrationRow = typeof integrations.$inferSelect

/** Written as in the partial indexes, which a bound parameter would not match. */
const IS_OPEN = sql`state IN ('pending', 'sent')`
const IS_NOT_DONE = sql`state <> 'done'`

/** What a company has to tell, and how it stands. */
export interface Queue {
  /** Null where it is missing or switched off: the notices stay. */
  integration: IntegrationRow | null
  connection: ConnectionRow | null
  /** Orders that may be told of now, the one that waits longest first. */
  orderIds: number[]
  /** When the next one becomes due; null when nothing else is open. */
  nextAttemptAt: number | null
}

/** @param limit how many orders at most */
export async function loadQueue(db: Database, companyId: number, nowMs: number, limit: number): Promise<Queue> {
  const isOfCompany = sql`company_id = ${companyId} AND ${IS_OPEN}`
  const [[integration], [connection], due, [next]] = await db.read([
    orm
      .select()
      .from(integrations)
      .where(
        and(
          eq(integrations.companyId, companyId),
          eq(integrations.kind, 'accounting_sync'),
          sql`${integrations.enabled} = 1`,
        ),
      ),
    orm.select().from(accountingConnections).where(eq(accountingConnections.companyId, companyId)),
    orm
      .select({ orderId: sql<number>`order_id`.as('order_id') })
      .from(
        sql`(SELECT order_id, min(next_attempt_at) AS since, min(id) AS first FROM accounting_outbox AS notice
          WHERE ${isOfCompany} AND next_attempt_at <= ${nowMs} AND NOT EXISTS (
            SELECT 1 FROM accounting_outbox AS waiting WHERE waiting.company_id = notice.company_id
              AND waiting.order_id = notice.order_id AND waiting.state = 'sent' AND waiting.next_attempt_at > ${nowMs})
          GROUP BY order_id)`,
      )
      .orderBy(sql`since`, sql`first`)
      .limit(limit),
    orm
      .select({ at: sql<number | null>`min(next_attempt_at)`.as('at') })
      .from(accountingOutbox)
      .where(sql`${isOfCompany} AND next_attempt_at > ${nowMs}`),
  ])
  return {
    integration: integration ?? null,
    connection: connection ?? null,
    orderIds: due.map((row) => row.orderId),
    nextAttemptAt: next?.at ?? null,
  }
}

/** The rows of an order's invoice as it is now. */
export interface InvoiceRows {
  project: typeof orders.$inferSelect
  invoice: typeof invoices.$inferSelect
  client: typeof clients.$inferSelect
  tax: typeof taxes.$inferSelect | null
  items: (typeof invoiceItems.$inferSelect)[]
}

export interface OrderToTell {
  /** Those that are not done, oldest first. */
  notices: NoticeRow[]
  link: LinkRow | null
  /** Null where the order has no invoice. */
  rows: InvoiceRows | null
}

/** All in one transaction, so that the order is at least as new as the notices. */
export async function loadOrder(db: Database, companyId: number, orderId: number): Promise<OrderToTell> {
  const [notices, [link], [core], items] = await db.read([
    orm
      .select()
      .from(accountingOutbox)
      .where(sql`company_id = ${companyId} AND order_id = ${orderId} AND ${IS_NOT_DONE}`)
      .orderBy(asc(accountingOutbox.id)),
    orm.select().from(accountingLinks).where(isLinkOf(companyId, orderId)),
    orm
      .select({
        project: jsonRow(getTableColumns(orders)).row.as('project'),
        invoice: jsonRow(getTableColumns(invoices)).row.as('invoice'),
        client: jsonRow(getTableColumns(clients)).row.as('client'),
        tax: jsonRow(getTableColumns(taxes)).rowOrNull.as('tax'),
      })
      .from(orders)
      .innerJoin(clients, and(eq(clients.companyId, orders.companyId), eq(clients.id, orders.clientId)))
      .innerJoin(invoices, and(eq(invoices.companyId, orders.companyId), eq(invoices.orderId, orders.id)))
      .leftJoin(taxes, and(eq(taxes.companyId, invoices.companyId), eq(taxes.id, invoices.taxId)))
      .where(
        and(
          eq(orders.companyId, companyId),
          eq(orders.id, orderId),
          sql`(${invoices.deleted} = 0 OR ${orders.deleted} = 1)`,
        ),
      ),
    orm
      .select()
      .from(invoiceItems)
      .where(
        sql`company_id = ${companyId} AND deleted = 0
          AND invoice_id = (SELECT id FROM invoices WHERE company_id = ${companyId} AND order_id = ${orderId})`,
      )
      .orderBy(asc(invoiceItems.position), asc(invoiceItems.id)),
  ])
  const rows = core ? { ...core, items } : null
  return { notices, link: link ?? null, rows }
}

/** Ends notices that another one stands for. */
export async function dropNotices(db: Database, companyId: number, ids: number[], nowMs: number): Promise<void> {
  await db.write([
    orm
      .update(accountingOutbox)
      .set({ ...DONE, updatedAt: nowMs })
      .where(
        sql`company_id = ${companyId} AND id IN (SELECT value FROM json_each(${JSON.stringify(ids)})) AND state <> 'sent'`,
      ),
  ])
}

/** What a delivered or covered notice keeps. */
export const DONE = { state: 'done', requestId: null, requestBody: null, lastError: null } as const

/** Everything that one step of a delivery changes. */
export interface Effects {
  notice: Partial<NoticeRow>
  /** Sets these of the order's link; null removes it. */
  link?: Partial<LinkRow> | null
  /** The client's customer there; null when the one that was stored is not known there. One chosen by hand stays. */
  customer?: { clientId: number; customerId: string | null } | undefined
  connection?: Partial<ConnectionRow>
}

/**
 * Stores a step of one notice's delivery, all of it or nothing. The notice is left alone when another step was stored
 * since it was read, known by its request id.
 */
export async function recordStep(
  db: Database,
  companyId: number,
  { id, orderId, requestId }: NoticeRow,
  { notice, link, customer, connection }: Effects,
  nowMs: number,
): Promise<void> {
  await db.write([
    orm
      .update(accountingOutbox)
      .set({ ...notice, updatedAt: nowMs })
      .where(sql`company_id = ${companyId} AND id = ${id} AND request_id IS ${requestId} AND ${IS_OPEN}`),
    ...(link === null ? [orm.delete(accountingLinks).where(isLinkOf(companyId, orderId))] : []),
    ...(link
      ? [
          orm
            .insert(accountingLinks)
            .values({ companyId, orderId, ...link })
            .onConflictDoUpdate({ target: [accountingLinks.companyId, accountingLinks.orderId], set: link }),
        ]
      : []),
    ...(customer
      ? [
          orm
            .update(clients)
            .set({ accountingCustomerId: customer.customerId })
            .where(sql`company_id = ${companyId} AND id = ${customer.clientId} AND accounting_customer_linked = 0`),
        ]
      : []),
    ...(connection
      ? [orm.update(accountingConnections).set(connection).where(eq(accountingConnections.companyId, companyId))]
      : []),
  ])
}

/**
 * Begins with these books. What is known of others holds no more: their ids mean something else here, so that every
 * invoice is looked for by its number first, and no call that was meant for them is repeated.
 *
 * @param before the books of before, if any: without them, customers were linked by hand for these
 */
export async function connectBooks(
  db: Database,
  companyId: number,
  books: string,
  before: string | undefined,
): Promise<void> {
  const connect = upsertConnection(companyId, { books, pausedUntil: 0, stoppedFor: null, reason: null })
  if (!before) return void (await db.write([connect]))
  await db.write([
    connect,
    orm
      .update(accountingLinks)
      .set({ externalId: null, syncToken: null, customerId: null, syncedAt: null })
      .where(eq(accountingLinks.companyId, companyId)),
    orm
      .update(clients)
      .set({ accountingCustomerId: null, accountingCustomerLinked: false })
      .where(and(eq(clients.companyId, companyId), isNotNull(clients.accountingCustomerId))),
    orm
      .update(accountingOutbox)
      .set({ state: 'pending', requestId: null, requestBody: null })
      .where(sql`company_id = ${companyId} AND state IN ('pending', 'sent') AND state = 'sent'`),
  ])
}

/** Makes no call until the integration is changed. */
export async function stopCompany(db: Database, companyId: number, stoppedFor: number, reason: string): Promise<void> {
  await db.write([upsertConnection(companyId, { stoppedFor, reason })])
}

/** @param tokens encrypted */
export async function saveTokens(db: Database, companyId: number, tokens: string): Promise<void> {
  await db.write([
    orm.update(accountingConnections).set({ tokens }).where(eq(accountingConnections.companyId, companyId)),
  ])
}

function upsertConnection(companyId: number, set: Partial<ConnectionRow>) {
  return orm
    .insert(accountingConnections)
    .values({ companyId, books: '', ...set })
    .onConflictDoUpdate({ target: accountingConnections.companyId, set })
}

function isLinkOf(companyId: number, orderId: number): SQL | undefined {
  return and(eq(accountingLinks.companyId, companyId), eq(accountingLinks.orderId, orderId))
}
