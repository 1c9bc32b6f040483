import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import { orm, statement } from '../../kernel/db/client.ts'
import { jsonRow } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
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
} from '../../kernel/db/schema.ts'
import type { OutboxRow } from './decisions.ts'
import type { InvoiceSource } from './invoice-payload.ts'

export type LinkRow = typeof accountingLinks.$inferSelect
export type ConnectionRow = typeof accountingConnections.$inferSelect
export type IntegrationRow = typeof integrations.$inferSelect

/** The text must match the partial indexes, which a bound parameter would not. */
const IS_OPEN = sql`state IN ('pending', 'sent')`
const IS_NOT_DONE = sql`state <> 'done'`
const IS_ENABLED = sql`kind = 'accounting_sync' AND enabled = 1`
const MAY_DELIVER = sql`suspended = 0 AND deliveries_paused = 0`

/** Loads what decides whether a company's events may be delivered. Without an enabled integration they stay. */
export async function loadCompanyState({ companyId, db }: CompanyContext) {
  const [[company], [integration = null], [connectionRow = null]] = await db.read([
    orm.select({ id: companies.id }).from(companies).where(sql`id = ${companyId} AND ${MAY_DELIVER}`),
    orm.select().from(integrations).where(sql`company_id = ${companyId} AND ${IS_ENABLED}`),
    orm.select().from(accountingConnections).where(eq(accountingConnections.company_id, companyId)),
  ])
  return { mayDeliver: company !== undefined, integration, connectionRow }
}

/** Several events of one order may be due, so finding an order reads several rows. */
const EVENTS_PER_ORDER = 5

/**
 * Finds at most `limit` orders to deliver now, the longest waiting first, and when the next event becomes due (null:
 * none). The number of rows read does not depend on the length of the queue.
 */
export async function loadQueue({ companyId, db }: CompanyContext, nowMs: number, limit: number) {
  const openEvents = (isInTime: SQL, count: number) =>
    statement<{ orderId: number; at: number }>(sql`SELECT order_id AS orderId, next_attempt_at AS at
      FROM accounting_outbox WHERE company_id = ${companyId} AND ${IS_OPEN} AND ${isInTime}
      ORDER BY next_attempt_at, id LIMIT ${count}`)
  const [due, [next]] = await db.read([
    openEvents(sql`next_attempt_at <= ${nowMs}`, limit * EVENTS_PER_ORDER),
    openEvents(sql`next_attempt_at > ${nowMs}`, 1),
  ])
  const orderIds = [...new Set(due.map((row) => row.orderId))].slice(0, limit)
  return { orderIds, nextAttemptAt: next?.at ?? null }
}

/** Limits the events of one order that one statement covers, and those read after it. */
const COVER_LIMIT = 2_000
const EVENT_LIMIT = 50

/**
 * Loads the order's open events, oldest first, its link, its invoice's rows (null without any) and the integration's
 * version (null while nothing may be delivered) in one transaction: the order is at least as new as the events. First
 * covers all unsent events but the first and the newest, as in `planOrder`, since there may be thousands.
 */
export async function loadOrder(context: CompanyContext, orderId: number, nowMs: number) {
  const { companyId, db } = context
  const isOfOrder = isOf(companyId, orderId)
  const isNotDone = sql`${isOfOrder} AND ${IS_NOT_DONE}`
  const pending = sql`FROM accounting_outbox WHERE ${isNotDone} AND state = 'pending'`
  const isCovered = sql`id IN (SELECT id ${pending} AND id > (SELECT min(id) ${pending}) AND id < (SELECT max(id) ${pending})
    ORDER BY id LIMIT ${COVER_LIMIT})`
  const invoiceId = sql`(SELECT id FROM invoices WHERE company_id = ${companyId} AND project_id = ${orderId})`
  const isItem = sql`company_id = ${companyId} AND invoice_id = ${invoiceId}`
  const isOrder = sql`${orders.company_id} = ${companyId} AND ${orders.id} = ${orderId}
    AND (${invoices.deleted} = 0 OR ${orders.deleted} = 1)`
  const [covered, events, [link = null], [core], items, [open]] = await db.writeIdempotent([
    updateEvents({ ...DONE, updated_at: nowMs }, isCovered).returning({ id: accountingOutbox.id }),
    orm.select().from(accountingOutbox).where(isNotDone).orderBy(sql`state DESC, id DESC`).limit(EVENT_LIMIT),
    orm.select().from(accountingLinks).where(isOfOrder),
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
      .where(isOrder),
    orm.select().from(invoiceItems).where(isItem).orderBy(sql`position, id`),
    statement<{ version: number }>(sql`SELECT i.updated_at AS version FROM integrations AS i
      JOIN companies ON companies.id = i.company_id
      WHERE i.company_id = ${companyId} AND ${IS_ENABLED} AND ${MAY_DELIVER}`),
  ])
  // One statement is limited: the next covers the rest.
  if (covered.length === COVER_LIMIT) return loadOrder(context, orderId, nowMs)
  const source: InvoiceSource | null = core ? { ...core, items } : null
  return { events: events.sort((a, b) => a.id - b.id), link, source, version: open?.version ?? null }
}

/** Lists the ids of those invoices that other orders are linked to. */
export async function listLinked({ companyId, db }: CompanyContext, orderId: number, found: { Id: string }[]) {
  const isFound = sql`external_id IN (SELECT value ->> 'Id' FROM json_each(${JSON.stringify(found)}))`
  const isOther = sql`company_id = ${companyId} AND order_id <> ${orderId} AND ${isFound}`
  const [rows] = await db.read([orm.select({ id: accountingLinks.external_id }).from(accountingLinks).where(isOther)])
  return rows.map(({ id }) => id)
}

export async function dropEvents({ companyId, db }: CompanyContext, ids: number[], nowMs: number): Promise<void> {
  const isGiven = sql`company_id = ${companyId} AND id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`
  await db.write([updateEvents({ ...DONE, updated_at: nowMs }, sql`${isGiven} AND state <> 'sent'`)])
}

export const DONE = { state: 'done', request_id: null, request_body: null, last_error: null } as const

/** The changes of one step. `customerId` null: the stored customer is unknown there. */
export interface StepChanges {
  event: Partial<OutboxRow>
  link?: Partial<LinkRow>
  customer?: { clientId: number; customerId: string | null } | undefined
  connection?: Partial<ConnectionRow>
}

/**
 * Stores a step of one event's delivery, all or nothing. If another step was stored since the read (it has another
 * request id), the event stays unchanged.
 */
export async function recordStep(
  { companyId, db }: CompanyContext,
  { id, order_id, request_id: requestId }: OutboxRow,
  { event, link, customer, connection }: StepChanges,
  nowMs: number,
): Promise<void> {
  const nextAttemptAt = event.next_attempt_at ?? nowMs
  const isOfOrder = isOf(companyId, order_id)
  const isOther = sql`${isOfOrder} AND ${IS_NOT_DONE} AND state = 'pending' AND id <> ${id}`
  const isUnchanged = sql`company_id = ${companyId} AND id = ${id} AND request_id IS ${requestId} AND ${IS_OPEN}`
  await db.write([
    // Later events of the order become due with this one, since due events are those that can be delivered.
    updateEvents({ next_attempt_at: nextAttemptAt }, sql`${isOther} AND next_attempt_at <> ${nextAttemptAt}`),
    updateEvents({ ...event, updated_at: nowMs }, isUnchanged),
    ...(link ? [upsertLink({ company_id: companyId, order_id }, link)] : []),
    ...(customer ? [setCustomer(companyId, customer)] : []),
    ...(connection ? [upsertConnection(companyId, connection)] : []),
  ])
}

/**
 * Connects the company to another account. Drops ids of the previous one, so that every invoice is looked up by number
 * first and no call meant for that account is repeated. Without a `previous` account, manual customer links stay; found
 * customers came with an import, from the account of the exported company.
 */
export async function switchRemoteAccount(
  { companyId, db }: CompanyContext,
  remoteAccount: string,
  previous: string | undefined,
): Promise<void> {
  const state = { remote_account: remoteAccount, paused_until: 0, stopped_for: null, reason: null }
  const noLink = { external_id: null, sync_token: null, customer_id: null, synced_at: null }
  const noCustomer = { accounting_customer_id: null, accounting_customer_linked: false }
  const unsent = { state: 'pending', request_id: null, request_body: null } as const
  const isOfCompany = sql`company_id = ${companyId}`
  const isDropped = previous ? isOfCompany : sql`${isOfCompany} AND accounting_customer_linked = 0`
  await db.write([
    upsertConnection(companyId, state),
    orm.update(accountingLinks).set(noLink).where(isOfCompany),
    orm.update(clients).set(noCustomer).where(sql`${isDropped} AND accounting_customer_id IS NOT NULL`),
    updateEvents(unsent, sql`${isOfCompany} AND ${IS_NOT_DONE} AND order_id > 0 AND state = 'sent'`),
  ])
}

export async function hasLinkedCustomer({ companyId, db }: CompanyContext): Promise<boolean> {
  const isLinked = sql`company_id = ${companyId} AND accounting_customer_linked = 1`
  const [rows] = await db.read([orm.select({ id: clients.id }).from(clients).where(isLinked).limit(1)])
  return rows.length > 0
}

export async function saveTokens({ companyId, db }: CompanyContext, tokens: string): Promise<void> {
  await db.writeIdempotent([upsertConnection(companyId, { tokens })])
}

const isOf = (companyId: number, orderId: number) => sql`company_id = ${companyId} AND order_id = ${orderId}`

const updateEvents = (set: Partial<OutboxRow>, where: SQL) => orm.update(accountingOutbox).set(set).where(where)

/** Manual links to customers stay. */
function setCustomer(companyId: number, { clientId, customerId }: NonNullable<StepChanges['customer']>) {
  const isNotLinked = sql`company_id = ${companyId} AND id = ${clientId} AND accounting_customer_linked = 0`
  return orm.update(clients).set({ accounting_customer_id: customerId }).where(isNotLinked)
}

function upsertConnection(company_id: number, set: Partial<ConnectionRow>) {
  const { company_id: target } = accountingConnections
  const values = { company_id, remote_account: '', ...set }
  return orm.insert(accountingConnections).values(values).onConflictDoUpdate({ target, set })
}

function upsertLink(key: Pick<LinkRow, 'company_id' | 'order_id'>, set: Partial<LinkRow>) {
  const target = [accountingLinks.company_id, accountingLinks.order_id]
  const values = { ...key, ...set }
  return orm.insert(accountingLinks).values(values).onConflictDoUpdate({ target, set })
}
