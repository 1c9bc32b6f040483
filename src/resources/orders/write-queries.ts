import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { isoDate } from '../../kernel/api/contract.ts'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepareNamed } from '../../kernel/db/client.ts'
import { assignments, insertRow } from '../../kernel/db/columns.ts'
import { type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { accountingEvent } from '../../kernel/db/outbox.ts'
import { companies, invoices, orderStatuses, orders } from '../../kernel/db/schema.ts'
import { externalGuardsOf, failWhen, isOtherVersion, versionsOf } from '../../kernel/db/versions.ts'
import { invalid, unusable } from '../../kernel/http/errors.ts'
import type { NewOrder, OrderFields, WholeOrder } from './contract.ts'
import {
  decodeOrder,
  listJson,
  type OrderJson,
  type OrderRow,
  orderJson,
  type Part,
  WITH_INVOICE,
} from './parts-sql.ts'
import { FULL } from './queries.ts'
import {
  allOf,
  byId,
  byOrder,
  type Checks,
  type Column,
  columnValues,
  discountCheck,
  isAnyOrder,
  isInvoice,
  isItsInvoice,
  isKept,
  issuesOf,
  LINES,
  listStatements,
  type Outcomes,
  outcomesOf,
  PAYMENTS,
  referenceChecks,
  unknownLines,
  type Which,
} from './write-sql.ts'

type Change = Placeholders<Actor, Column | KeyName | 'created_date'>

const LISTS = ['invoice_items', 'payments'] as const

interface Shown {
  checks?: Checks
  parts?: readonly Part[]
  /** JSON of the positions of the lines whose id is none of the invoice's. */
  unknown?: SQL | undefined
  condition?: SQL
}

/** The result of a write of an order as JSON for {@link decodeChanged}, with the lists that are sent. */
export function changedJson(
  { companyId, orderId, ...sent }: Which & { [Name in (typeof LISTS)[number]]?: Placeholder },
  { checks = {}, parts = ['invoice'], unknown = sql`NULL`, condition = sql`orders.deleted = 0` }: Shown = {},
): SQL {
  const lists = LISTS.map((name) => (sent[name] ? sql`json(${listJson(name)})` : sql`NULL`))
  return sql`json_array(${outcomesOf(checks)}, json((
    SELECT json_array(${orderJson(companyId, parts)}, ${sql.join(lists, sql`, `)})
    FROM orders ${WITH_INVOICE} WHERE orders.company_id = ${companyId} AND orders.id = ${orderId} AND ${condition})), ${unknown})`
}

type ListOrNull = unknown[][] | null
type FoundJson = [order: OrderJson, items: ListOrNull, payments: ListOrNull]
export type ChangedJson = [Outcomes, FoundJson | null, unknown: number[] | null]

export type Changed = NonNullable<ReturnType<typeof decodeChanged>>

/**
 * Decodes {@link changedJson}; undefined where there is no order, whose checks mean nothing unless it `isNew`.
 *
 * @throws ApiError 400 naming each field whose check failed, and each line that is none of the invoice's
 */
export function decodeChanged(result: string | ChangedJson | null, isNew = false, itemsName = 'invoice_items') {
  const parsed: ChangedJson | null = typeof result === 'string' ? JSON.parse(result) : result
  const [outcomes, found, unknown] = parsed ?? [{}, null, null]
  const [json, invoice_items, payments] = found ?? []
  const lists = { invoice_items, payments }
  const order = json && decodeOrder(json, lists)
  const unknownLines = (order?.invoice && unknown) || []
  const issues = [
    ...issuesOf(outcomes),
    ...unknownLines.map((key) => ({ path: `${itemsName}.${key}.id`, message: 'is not a line of this invoice' })),
  ]
  if (issues.length > 0 && (order || isNew)) throw invalid(issues)
  return order && { order, sent: LISTS.filter((name) => lists[name]) }
}

type Values = Record<string, Placeholder | SQL | undefined>

/** Every change of an order raises its version. */
export const changedOrder = ({ now }: Pick<Change, 'now'>, isOrder: SQL, values: Values = {}) =>
  orm
    .update(orders)
    .set({ ...assignments(orders, values), updated_at: sql`${now}`, version: sql`version + 1` })
    .where(isOrder)

function changedInvoice({ now }: Change, isInvoice: SQL, values: Values) {
  const changed = assignments(invoices, values)
  if (Object.keys(changed).length === 0) return {}
  return {
    changedInvoice: orm
      .update(invoices)
      .set({ ...changed, updated_at: sql`${now}` })
      .where(isInvoice),
  }
}

/** The values of an invoice. Omitted fields come from the client; a client's reason belongs to the client's exemption. */
function invoiceValues(p: Change) {
  const ofClient = (column: SQL) =>
    sql`(SELECT ${column} FROM clients WHERE company_id = ${p.companyId} AND id = ${p.client_id})`
  const tax_exempt_reason = p.tax_exempt ? sql`NULL` : ofClient(sql`tax_exempt_reason`)
  return { tax_exempt: ofClient(sql`tax_exempt`), tax_exempt_reason, ...p }
}

/** Inserts an order with an invoice, each when its condition holds. */
function insertions(p: Change, when: { order: SQL; invoice: SQL }) {
  const { companyId } = p
  const fromCounters = (condition: SQL) => sql`FROM ${companies} WHERE ${companies.id} = ${companyId} AND ${condition}`
  const number = sql`CAST(last_invoice_number + 1 AS TEXT)`
  const values = { ...p, number_key: number, company_id: companyId, created_at: p.now, updated_at: p.now }
  const defaultStatus = sql`(SELECT id FROM ${orderStatuses}
    WHERE company_id = ${companyId} AND is_default = 1 AND deleted = 0 ORDER BY position, id LIMIT 1)`
  const order = { order_status_id: defaultStatus, ...values, id: sql`last_order_id + 1` }
  const ids = { id: sql`last_invoice_id + 1`, project_id: sql`last_order_id` }
  return {
    order: insertRow(orders, order, fromCounters(when.order)),
    invoice: insertRow(invoices, { ...invoiceValues(p), ...values, ...ids, number }, fromCounters(when.invoice)),
  }
}

const creation = prepareNamed((p: Change) => {
  const { companyId, invoice_items, payments } = p
  const ofCompany = (counter: SQL) => sql`(SELECT ${counter} FROM companies WHERE id = ${companyId})`
  const orderId = ofCompany(sql`last_order_id`)
  const owner = { companyId, invoice: ofCompany(sql`last_invoice_id`) }
  const checks = referenceChecks(p)
  const isAllowed = allOf(checks)
  return {
    ...insertions(p, { order: isAllowed, invoice: isAllowed }),
    ...(invoice_items && listStatements(LINES, owner, byId(invoice_items), isAllowed, true)),
    ...(payments && listStatements(PAYMENTS, owner, byId(payments), isAllowed, true)),
    event: accountingEvent(p, 'create', orderId, isAllowed),
    audit: auditEntry(p, 'order.create', orderId, isAllowed),
    result: resultStatement(p, changedJson({ ...p, orderId }, { checks, parts: FULL, condition: isAllowed })),
  }
})

/**
 * The creation of an order with its invoice and the lists that are sent. Every statement repeats the checks of what the
 * order refers to: inside one transaction they all have the same outcome, so either everything is written or nothing.
 * Reading its result throws an ApiError 400 that names each reference that is not the company's or is deleted.
 */
export function creationOf(context: RequestContext, body: NewOrder): Write<OrderRow | undefined> {
  return {
    statements: creation({ ...writerOf(context), ...columnValues(body), created_date: isoDate(context.now) }),
    read: (result) => decodeChanged(result, true)?.order,
  }
}

const replacement = prepareNamed((p: Change & Record<'externalId', Placeholder>) => {
  const { companyId, invoice_items, payments } = p
  const isExternal = sql`company_id = ${companyId} AND external_id = ${p.externalId}`
  const orderId = sql`(SELECT id FROM orders WHERE ${isExternal})`
  const which = { ...p, orderId }
  const owner = { companyId, invoice: sql`(SELECT id FROM invoices WHERE ${isInvoice(which)})` }
  const checks = referenceChecks(p, isExternal)
  const isAllowed = allOf(checks)
  const { created_date: _created, ...values } = { ...p, deleted: sql`0` }
  const hasNoInvoice = sql`${isExternal} AND NOT EXISTS (SELECT 1 FROM invoices
    WHERE company_id = orders.company_id AND project_id = orders.id AND ${isKept})`
  const guard = failWhen(sql`version IS NOT NULL`, sql`orders`, hasNoInvoice, 'invoice_missing')
  return {
    // The lists that are sent need an invoice, where the order exists.
    ...((invoice_items || payments) && { guard }),
    ...changedInvoice(p, sql`${isItsInvoice(which)} AND ${isAllowed}`, { ...invoiceValues(p), ...values }),
    changedOrder: changedOrder(p, sql`${isExternal} AND ${isAllowed}`, values),
    ...insertions(
      { ...p, external_id: p.externalId },
      {
        order: sql`${isAllowed} AND NOT EXISTS (SELECT 1 FROM orders WHERE ${isExternal})`,
        // An order that was there has a higher version by then.
        invoice: sql`${isAllowed} AND EXISTS (SELECT 1 FROM orders WHERE ${isExternal} AND version = 1)`,
      },
    ),
    ...(invoice_items && listStatements(LINES, owner, byOrder(LINES, invoice_items, owner), isAllowed)),
    ...(payments && listStatements(PAYMENTS, owner, byOrder(PAYMENTS, payments, owner), isAllowed)),
    // The delivery creates what the accounting system does not have.
    event: accountingEvent(p, 'update', orderId, isAllowed),
    audit: auditEntry(p, 'order.write', orderId, isAllowed),
    result: resultStatement(p, changedJson(which, { checks })),
  }
})

const externalGuards = externalGuardsOf('orders')

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
export function orderReplacementOf(
  context: RequestContext,
  externalId: string,
  body: WholeOrder,
): Write<Changed | undefined> {
  const values = { ...writerOf(context), ...columnValues({ ...INITIAL, ...body }), created_date: isoDate(context.now) }
  return {
    statements: { ...externalGuards(context, externalId), ...replacement({ ...values, externalId }) },
    // A repetition finds the elements that the first run has written.
    isIdempotent: context.ifMatch === null && context.ifNoneMatch === null,
    read: (result) => decodeChanged(result, true),
  }
}

/** The writer of a change, and the versions of the order that the request's `If-Match` names. */
export function conditionalWriterOf(context: RequestContext) {
  return { ...writerOf(context), versions: versionsOf(context.ifMatch) ?? undefined }
}

export const versionGuard = (p: Which & Placeholders<never, 'versions'>) =>
  p.versions && { guard: failWhen(isOtherVersion(p.versions), sql`orders`, isAnyOrder(p)) }

const update = prepareNamed((p: Change & Placeholders<'orderId' | 'operation' | 'action', 'versions'>) => {
  const { companyId, invoice_items } = p
  const orderId = sql`${p.orderId}`
  // A deleted order can only be restored.
  const canChange = sql`NOT (orders.deleted AND ${p.deleted ?? sql`1`})`
  const isOne = sql`${isAnyOrder(p)} AND ${canChange}`
  const isInvoiceOfIt = p.deleted ? isItsInvoice(p) : isInvoice(p)
  const checks = { ...referenceChecks(p, isAnyOrder(p)), ...discountCheck(p, isInvoiceOfIt) }
  const owner = { companyId, invoice: sql`(SELECT id FROM invoices WHERE ${isInvoiceOfIt})` }
  const unknown = invoice_items && unknownLines(invoice_items, owner)
  // Lines cannot come with `deleted: true`: the contract refuses it.
  const takesLines = unknown ? sql`EXISTS ${owner.invoice} AND NOT EXISTS (${unknown})` : sql`1`
  const isAllowed = sql`${allOf(checks)} AND EXISTS (SELECT 1 FROM orders WHERE ${isOne}) AND ${takesLines}`
  const shown = {
    checks,
    unknown: unknown && sql`json((SELECT json_group_array(key) FROM (${unknown})))`,
    condition: sql`(changes() > 0 OR ${canChange})`,
  }
  return {
    ...versionGuard(p),
    ...changedInvoice(p, sql`${isInvoiceOfIt} AND ${isAllowed}`, p),
    ...(invoice_items && listStatements(LINES, owner, byId(invoice_items), isAllowed)),
    event: accountingEvent(p, p.operation, orderId, isAllowed),
    audit: auditEntry(p, sql`${p.action}`, orderId, isAllowed),
    // The others need the order as it was.
    changedOrder: changedOrder(p, sql`${isOne} AND ${isAllowed}`, p),
    result: resultStatement(p, changedJson(p, shown)),
  }
})

/**
 * Sets only the columns of the fields that are sent, so that concurrent updates of different fields are all applied. The
 * result is undefined for an order that does not exist or stays deleted. Reading it throws an ApiError: 400 naming each
 * field that refers to what is not the company's or makes the discount impossible, 409 for lines without an invoice.
 */
export function changeOf(
  context: RequestContext,
  orderId: number,
  body: OrderFields,
  { action = 'order.update', itemsName = 'invoice_items' } = {},
): Write<Changed | undefined> {
  const about = body.deleted ? { operation: 'delete', action: 'order.delete' } : { operation: 'update', action }
  const writer = conditionalWriterOf(context)
  return {
    statements: update({ ...writer, ...columnValues(body), ...about, orderId }),
    // Written once, the version is another, lines without an id have one, and an order that is deleted is not found.
    isIdempotent: writer.versions === undefined && body.invoice_items === undefined && !body.deleted,
    isDeletion: body.deleted === true && Object.keys(body).length === 1,
    read: (result) => {
      const changed = decodeChanged(result, false, itemsName)
      if (changed && body.invoice_items && !changed.order.invoice) throw unusable('invoice_missing')
      return changed
    },
  }
}
