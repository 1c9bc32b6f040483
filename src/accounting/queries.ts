import { and, asc, desc, eq, getTableColumns, isNotNull, type SQL, sql } from 'drizzle-orm'
import { type Database, orm } from '../db/client.ts'
import { jsonRow } from '../db/columns.ts'
import {
  accountingConnections,
  accountingLinks,
  accountingOutbox,
  clients,
  companies,
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

/** How a company stands with its accounting system. */
export interface Standing {
  isSuspended: boolean
  /** Null where it is missing or switched off: the notices stay. */
  integration: IntegrationRow | null
  connection: ConnectionRow | null
}

export async function loadStanding(db: Database, companyId: number): Promise<Standing> {
  const [[company], [integration], [connection]] = await db.read([
    orm.select({ suspended: companies.suspended }).from(companies).where(eq(companies.id, companyId)),
    orm
      .select()
      .from(integrations)
      .where(
        and(
          eq(integrations.company_id, companyId),
          eq(integrations.kind, 'accounting_sync'),
          sql`${integrations.enabled} = 1`,
        ),
      ),
    orm.select().from(accountingConnections).where(eq(accountingConnections.company_id, companyId)),
  ])
  return {
    isSuspended: company?.suspended ?? true,
    integration: integration ?? null,
    connection: connection ?? null,
  }
}

/** Several notices of one order may be due: so many are read to find one order. */
const NOTICES_PER_ORDER = 5

export interface Queue {
  /** Orders that may be delivered now, the one that waits longest first. */
  orderIds: number[]
  /** When the next notice becomes due; null when nothing else is open. */
  nextAttemptAt: number | null
}

/**
 * Reads from the index of open notices alone, and no more rows than it needs: a long queue costs what a short one does.
 *
 * @param limit how many orders at most
 */
export async function loadQueue(db: Database, companyId: number, nowMs: number, limit: number): Promise<Queue> {
  const isOfCompany = sql`company_id = ${companyId} AND ${IS_OPEN}`
  const inTurn = sql`next_attempt_at, id`
  const [due, [next]] = await db.read([
    orm
      .select({ orderId: accountingOutbox.order_id })
      .from(accountingOutbox)
      .where(sql`${isOfCompany} AND next_attempt_at <= ${nowMs}`)
      .orderBy(inTurn)
      .limit(limit * NOTICES_PER_ORDER),
    orm
      .select({ at: accountingOutbox.next_attempt_at })
      .from(accountingOutbox)
      .where(sql`${isOfCompany} AND next_attempt_at > ${nowMs}`)
      .orderBy(inTurn)
      .limit(1),
  ])
  const orderIds = [...new Set(due.map((row) => row.orderId))].slice(0, limit)
  return { orderIds, nextAttemptAt: next?.at ?? null }
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

/** Updates of one order that one statement covers, and notices that are read of an order then. */
const COVERED_AT_ONCE = 2_000
const NOTICES_READ = 50

/**
 * All in one transaction, so that the order is at least as new as the notices. Before that, updates that were never sent
 * are covered by the first notice that was not, as in `planOrder`: an order that was changed thousands of times while
 * nothing could be delivered is read as any other.
 */
export async function loadOrder(db: Database, companyId: number, orderId: number, nowMs: number): Promise<OrderToTell> {
  for (;;) {
    const { covered, ...order } = await coverAndLoad(db, companyId, orderId, nowMs)
    if (covered < COVERED_AT_ONCE) return order
  }
}

async function coverAndLoad(db: Database, companyId: number, orderId: number, nowMs: number) {
  const isOfOrder = sql`company_id = ${companyId} AND order_id = ${orderId} AND ${IS_NOT_DONE}`
  const first = sql`SELECT min(id) FROM accounting_outbox WHERE ${isOfOrder} AND state = 'pending'`
  const [covered, notices, [link], [core], items] = await db.writeIdempotent([
    orm
      .update(accountingOutbox)
      .set({ ...DONE, updated_at: nowMs })
      .where(
        sql`id IN (SELECT id FROM accounting_outbox WHERE ${isOfOrder} AND state = 'pending' AND id > (${first})
          AND operation = 'update' ORDER BY id LIMIT ${COVERED_AT_ONCE})`,
      )
      .returning({ id: accountingOutbox.id }),
    orm
      .select()
      .from(accountingOutbox)
      .where(isOfOrder)
      .orderBy(desc(accountingOutbox.state), desc(accountingOutbox.id))
      .limit(NOTICES_READ),
    orm.select().from(accountingLinks).where(isLinkOf(companyId, orderId)),
    orm
      .select({
        project: jsonRow(getTableColumns(orders)).row.as('project'),
        invoice: jsonRow(getTableColumns(invoices)).row.as('invoice'),
        client: jsonRow(getTableColumns(clients)).row.as('client'),
        tax: jsonRow(getTableColumns(taxes)).rowOrNull.as('tax'),
      })
      .from(orders)
      .innerJoin(clients, and(eq(clients.company_id, orders.company_id), eq(clients.id, orders.client_id)))
      .innerJoin(invoices, and(eq(invoices.company_id, orders.company_id), eq(invoices.project_id, orders.id)))
      .leftJoin(taxes, and(eq(taxes.company_id, invoices.company_id), eq(taxes.id, invoices.tax_id)))
      .where(
        and(
          eq(orders.company_id, companyId),
          eq(orders.id, orderId),
          sql`(${invoices.deleted} = 0 OR ${orders.deleted} = 1)`,
        ),
      ),
    orm
      .select()
      .from(invoiceItems)
      .where(
        sql`company_id = ${companyId} AND deleted = 0
          AND invoice_id = (SELECT id FROM invoices WHERE company_id = ${companyId} AND project_id = ${orderId})`,
      )
      .orderBy(asc(invoiceItems.position), asc(invoiceItems.id)),
  ])
  const rows = core ? { ...core, items } : null
  return { covered: covered.length, notices: notices.sort((a, b) => a.id - b.id), link: link ?? null, rows }
}

/** Ends notices that another one stands for. */
export async function dropNotices(db: Database, companyId: number, ids: number[], nowMs: number): Promise<void> {
  await db.write([
    orm
      .update(accountingOutbox)
      .set({ ...DONE, updated_at: nowMs })
      .where(
        sql`company_id = ${companyId} AND id IN (SELECT value FROM json_each(${JSON.stringify(ids)})) AND state <> 'sent'`,
      ),
  ])
}

/** What a delivered or covered notice keeps. */
export const DONE = { state: 'done', request_id: null, request_body: null, last_error: null } as const

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
  { id, order_id: orderId, request_id: requestId }: NoticeRow,
  { notice, link, customer, connection }: Effects,
  nowMs: number,
): Promise<void> {
  const nextAttemptAt = notice.next_attempt_at ?? nowMs
  await db.write([
    // What was written since waits for the same moment: a due notice is one that can be delivered.
    orm
      .update(accountingOutbox)
      .set({ next_attempt_at: nextAttemptAt })
      .where(
        sql`company_id = ${companyId} AND order_id = ${orderId} AND ${IS_NOT_DONE} AND state = 'pending' AND id <> ${id}
          AND next_attempt_at <> ${nextAttemptAt}`,
      ),
    orm
      .update(accountingOutbox)
      .set({ ...notice, updated_at: nowMs })
      .where(sql`company_id = ${companyId} AND id = ${id} AND request_id IS ${requestId} AND ${IS_OPEN}`),
    ...(link === null ? [orm.delete(accountingLinks).where(isLinkOf(companyId, orderId))] : []),
    ...(link
      ? [
          orm
            .insert(accountingLinks)
            .values({ company_id: companyId, order_id: orderId, ...link })
            .onConflictDoUpdate({ target: [accountingLinks.company_id, accountingLinks.order_id], set: link }),
        ]
      : []),
    ...(customer
      ? [
          orm
            .update(clients)
            .set({ accounting_customer_id: customer.customerId })
            .where(sql`company_id = ${companyId} AND id = ${customer.clientId} AND accounting_customer_linked = 0`),
        ]
      : []),
    ...(connection
      ? [orm.update(accountingConnections).set(connection).where(eq(accountingConnections.company_id, companyId))]
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
  const connect = upsertConnection(companyId, {
    remote_account: books,
    paused_until: 0,
    stopped_for: null,
    reason: null,
  })
  if (!before) return void (await db.write([connect]))
  await db.write([
    connect,
    orm
      .update(accountingLinks)
      .set({ external_id: null, sync_token: null, customer_id: null, synced_at: null })
      .where(eq(accountingLinks.company_id, companyId)),
    orm
      .update(clients)
      .set({ accounting_customer_id: null, accounting_customer_linked: false })
      .where(and(eq(clients.company_id, companyId), isNotNull(clients.accounting_customer_id))),
    orm
      .update(accountingOutbox)
      .set({ state: 'pending', request_id: null, request_body: null })
      .where(sql`company_id = ${companyId} AND state IN ('pending', 'sent') AND state = 'sent'`),
  ])
}

/** Makes no call until the integration is changed. */
export async function stopCompany(db: Database, companyId: number, stoppedFor: number, reason: string): Promise<void> {
  await db.write([upsertConnection(companyId, { stopped_for: stoppedFor, reason })])
}

/** @param tokens encrypted */
export async function saveTokens(db: Database, companyId: number, tokens: string): Promise<void> {
  await db.write([
    orm.update(accountingConnections).set({ tokens }).where(eq(accountingConnections.company_id, companyId)),
  ])
}

function upsertConnection(companyId: number, set: Partial<ConnectionRow>) {
  return orm
    .insert(accountingConnections)
    .values({ company_id: companyId, remote_account: '', ...set })
    .onConflictDoUpdate({ target: accountingConnections.company_id, set })
}

function isLinkOf(companyId: number, orderId: number): SQL | undefined {
  return and(eq(accountingLinks.company_id, companyId), eq(accountingLinks.order_id, orderId))
}
