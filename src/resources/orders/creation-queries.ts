import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { isoDate } from '../../kernel/api/contract.ts'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepare, prepareNamed } from '../../kernel/db/client.ts'
import { assignments, insertRow } from '../../kernel/db/columns.ts'
import { externalGuardsOf, failWhen } from '../../kernel/db/guards.ts'
import { type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { accountingEvent } from '../../kernel/db/outbox.ts'
import { companies, invoices, orderStatuses, orders } from '../../kernel/db/schema.ts'
import type { NewOrder, WholeOrder } from './contract.ts'
import {
  byId,
  decodeLists,
  type ListJson,
  lineStatements,
  linesByOrder,
  linesJson,
  paymentStatements,
  paymentsJson,
  storedLines,
  storedPayments,
} from './elements-sql.ts'
import {
  changedJson,
  decodeChange,
  decodeNewOrder,
  type NewOrderJson,
  newOrderJson,
  type OrderRow,
  type Outcomes,
} from './queries.ts'
import type { Changed } from './write-queries.ts'
import {
  allOf,
  assertPassed,
  type Column,
  columnValues,
  isInvoice,
  isItsInvoice,
  NEXT_VERSION,
  outcomesOf,
  referenceChecks,
} from './write-sql.ts'

type ListsName = 'items' | 'payments'
type Creation = Placeholders<Actor | 'created_date', Column | KeyName | ListsName>

const ofCompany = (p: Placeholders<'companyId'>, counter: string) =>
  sql`(SELECT ${sql.raw(counter)} FROM companies WHERE id = ${p.companyId})`

/** The values of an invoice. Omitted fields come from the client; a client's reason belongs to the client's exemption. */
function invoiceValues(p: Placeholders<'companyId', Column>) {
  const ofClient = (column: SQL) =>
    sql`(SELECT ${column} FROM clients WHERE company_id = ${p.companyId} AND id = ${p.client_id})`
  const reason = { tax_exempt_reason: ofClient(sql`tax_exempt_reason`) }
  return { tax_exempt: ofClient(sql`tax_exempt`), ...(!p.tax_exempt && reason), ...p }
}

/** Inserts an order when `isAbsent` holds, and its invoice when `isNew` holds. */
function insertions(p: Creation, external_id: Placeholder | undefined, isAbsent: SQL, isNew: SQL) {
  const { companyId } = p
  const fromCounters = (when: SQL) => sql`FROM ${companies} WHERE ${companies.id} = ${companyId} AND ${when}`
  const number = sql`CAST(last_invoice_number + 1 AS TEXT)`
  const values = { ...p, number_key: number, company_id: companyId, created_at: p.now, updated_at: p.now }
  const defaultStatus = sql`(SELECT id FROM ${orderStatuses}
    WHERE company_id = ${companyId} AND is_default = 1 AND deleted = 0 ORDER BY position, id LIMIT 1)`
  const order = { order_status_id: defaultStatus, ...values, external_id, id: sql`last_order_id + 1` }
  const invoice = {
    ...invoiceValues(p),
    ...values,
    id: sql`last_invoice_id + 1`,
    project_id: sql`last_order_id`,
    number,
  }
  return {
    order: insertRow(orders, order, fromCounters(isAbsent)),
    invoice: insertRow(invoices, invoice, fromCounters(isNew)),
  }
}

const creation = prepareNamed((p: Creation) => {
  const checks = referenceChecks(p)
  const isValid = allOf(checks)
  const orderId = ofCompany(p, 'last_order_id')
  const owner = { companyId: p.companyId, invoice: ofCompany(p, 'last_invoice_id') }
  const lists = [p.items && storedLines(owner), p.payments && storedPayments(owner)]
  const stored = lists.map((each) => (each ? sql`json((SELECT ${each} WHERE ${isValid}))` : sql`NULL`))
  return {
    ...insertions(p, p.external_id, isValid, isValid),
    ...(p.items && { lines: lineStatements(owner, byId(p.items), isValid).linesAdded }),
    ...(p.payments && { payments: paymentStatements(owner, p.payments, isValid).paymentsAdded }),
    event: accountingEvent(p, 'create', orderId, isValid),
    audit: auditEntry(p, 'order.create', orderId, isValid),
    result: resultStatement(
      p,
      sql`json_array(${outcomesOf(checks)}, json((${newOrderJson({ companyId: p.companyId, orderId })} WHERE ${isValid})),
        ${sql.join(stored, sql`, `)})`,
    ),
  }
})

/**
 * The creation of an order with its invoice and the lists that are sent. Every statement repeats the checks of what the
 * order refers to: inside one transaction they all have the same outcome, so either everything is written or nothing.
 * Reading its result throws an ApiError 400 that names each reference that is not the company's or is deleted.
 */
export function creationOf(context: RequestContext, body: NewOrder): Write<OrderRow[]> {
  const values = { ...writerOf(context), ...columnValues(body), created_date: isoDate(context.now) }
  return {
    statements: creation({ ...values, ...listValues(body) }),
    read: (result) => {
      const [outcomes, order, invoice_items, payments]: [Outcomes, NewOrderJson | null, ListJson, ListJson] =
        JSON.parse(result ?? '[{},null]')
      assertPassed(outcomes)
      if (!order) throw new Error('An insert returned no row.')
      return decodeNewOrder(order, { invoice_items, payments })
    },
  }
}

/** The lists that are sent, as JSON. */
function listValues({ invoice_items, payments }: Pick<WholeOrder, 'invoice_items' | 'payments'>) {
  return {
    items: invoice_items && linesJson(invoice_items),
    payments: payments && paymentsJson(payments),
  }
}

const replacement = prepareNamed((p: Creation & Record<'externalId', Placeholder>) => {
  const isExternal = sql`company_id = ${p.companyId} AND external_id = ${p.externalId}`
  const orderId = sql`(SELECT id FROM orders WHERE ${isExternal})`
  const which = { companyId: p.companyId, orderId }
  const checks = referenceChecks(p)
  const isValid = allOf(checks)
  const { created_date: _created, ...sent } = p
  const changes = { ...sent, updated_at: p.now, deleted: sql`0` }
  // An order that was there has a higher version by then.
  const isNew = sql`${isValid} AND EXISTS (SELECT 1 FROM orders WHERE ${isExternal} AND version = 1)`
  const { order, invoice } = insertions(
    p,
    p.externalId,
    sql`${isValid} AND NOT EXISTS (SELECT 1 FROM orders WHERE ${isExternal})`,
    isNew,
  )
  const owner = { companyId: p.companyId, invoice: sql`(SELECT id FROM invoices WHERE ${isInvoice(which)})` }
  const stored = [p.items && storedLines(owner), p.payments && storedPayments(owner)]
  const lists = stored.map((each) => (each ? sql`json(${each})` : sql`NULL`))
  return {
    changedInvoice: orm
      .update(invoices)
      .set(assignments(invoices, { ...invoiceValues(p), ...changes }))
      .where(sql`${isItsInvoice(which)} AND ${isValid}`),
    changedOrder: orm
      .update(orders)
      .set(assignments(orders, { ...changes, version: NEXT_VERSION }))
      .where(sql`${isExternal} AND ${isValid}`),
    ...{ order, invoice },
    ...(p.items && lineStatements(owner, linesByOrder(p.items, owner), isValid)),
    ...(p.payments && paymentStatements(owner, p.payments, isValid)),
    // The delivery creates what the accounting system does not have.
    event: accountingEvent(p, 'update', orderId, isValid),
    audit: auditEntry(p, 'order.write', orderId, isValid),
    result: resultStatement(
      p,
      sql`json_array(${outcomesOf(checks)}, json((${changedJson(which)})), ${sql.join(lists, sql`, `)})`,
    ),
  }
})

const externalGuards = externalGuardsOf('orders')

/** An order that is there, without an invoice for the lists that are sent. */
const invoiceGuard = prepare((p: Placeholders<'companyId' | 'externalId'>) =>
  failWhen(
    sql`version IS NOT NULL`,
    sql`orders`,
    sql`company_id = ${p.companyId} AND external_id = ${p.externalId} AND NOT EXISTS (SELECT 1 FROM invoices
      WHERE company_id = orders.company_id AND project_id = orders.id AND deleted <= orders.deleted)`,
    'invoice_missing',
  ),
)

/** The values of a new order's fields, as far as they are not the client's or the company's. */
const INITIAL = {
  description: null,
  start_date: null,
  deadline: null,
  client_notes: null,
  tax_id: null,
  discount_amount: 0,
  discount_amount_type: 'percentage',
  discount_type: 'before_tax',
} as const

/**
 * The creation of the order with this external id, or the replacement of all of its fields and of the lists that are
 * sent. Its status stays unless another is sent. See {@link creationOf} for what reading its result throws.
 */
export function orderReplacementOf(context: RequestContext, externalId: string, body: WholeOrder): Write<Changed> {
  const { companyId, now } = context
  const guards = {
    ...externalGuards(context, externalId),
    ...((body.invoice_items || body.payments) && { invoiceGuard: invoiceGuard({ companyId, externalId }) }),
  }
  const values = { ...writerOf(context), ...columnValues({ ...INITIAL, ...body }), ...listValues(body) }
  return {
    statements: { ...guards, ...replacement({ ...values, externalId, created_date: isoDate(now) }) },
    // A repetition finds the elements that the first run has written.
    isIdempotent: context.ifMatch === null && context.ifNoneMatch === null,
    read: (result) => {
      const [outcomes, change, invoice_items, payments]: [Outcomes, unknown[] | null, ListJson, ListJson] = JSON.parse(
        result ?? '[{},null]',
      )
      assertPassed(outcomes)
      if (!change) throw new Error('A replacement returned no row.')
      return { ...decodeChange(change), ...decodeLists({ invoice_items, payments }) }
    },
  }
}
