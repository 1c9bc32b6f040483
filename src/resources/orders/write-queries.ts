import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { isoDate } from '../../kernel/api/contract.ts'
import { auditEntry } from '../../kernel/db/audit.ts'
import { type Placeholders, prepareNamed } from '../../kernel/db/client.ts'
import { fold, withSearchTexts } from '../../kernel/db/columns.ts'
import { type Actor, type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { accountingEvent } from '../../kernel/db/outbox.ts'
import { creationGuard, externalGuardsOf, failWhen, versionsOf } from '../../kernel/db/refusals.ts'
import { errorFor, invalid } from '../../kernel/http/errors.ts'
import type { NewOrder, NewPayment, OrderFields, WholeOrder } from './bodies.ts'
import { decodeOrder, isKept, type OrderJson, type OrderRow } from './parts-sql.ts'
import { FULL_PARTS } from './queries.ts'
import { toHundredths } from './totals.ts'
import {
  byId,
  byOrder,
  type Checks,
  changedInvoice,
  changedJson,
  changedOrder,
  exemptionOfClient,
  insertions,
  isKeptInvoice,
  isLiveInvoice,
  isOrder,
  LINES,
  listStatements,
  PAYMENTS,
  SENT_LISTS,
  unknownLines,
  versionGuard,
} from './write-sql.ts'

/** The values of the sent fields by column, the lists as JSON, and whether an accounting event is requested. */
function columnValues(body: OrderFields & { payments?: NewPayment[] | undefined }) {
  const { status_id, discount_amount, accounting_sync_enabled, invoice_items, payments, ...fields } = body
  const items = withSearchTexts(invoice_items ?? []).map(({ unit_price, ...item }) => {
    return { ...item, unit_price_cents: toHundredths(unit_price) }
  })
  const paid = payments?.map(({ amount, ...payment }) => ({ ...payment, amount_cents: toHundredths(amount) }))
  return {
    ...fields,
    title_key: fields.title === undefined ? undefined : fold(fields.title),
    order_status_id: status_id,
    due_date: fields.deadline,
    tax_id: fields.tax_id === 0 ? null : fields.tax_id,
    discount_hundredths: discount_amount === undefined ? undefined : toHundredths(discount_amount),
    requested: accounting_sync_enabled,
    invoice_items: invoice_items && JSON.stringify(items),
    payments: paid && JSON.stringify(paid),
  }
}

type Change = Placeholders<Actor, keyof ReturnType<typeof columnValues> | KeyName | 'created_date'>

type FoundJson = [order: OrderJson, ...lists: (unknown[][] | null)[]]
/** Whether each check holds (1 or 0), by the field that it is about, and what was found. */
export type ChangedJson = [Record<string, number>, FoundJson | null, unknown: number[] | null]

export type Changed = NonNullable<ReturnType<typeof decodeChanged>>

const MESSAGES: Record<string, string> = {
  client_id: 'must be a client of the company, and not a deleted one',
  status_id: 'must be an order status of the company, and not a deleted one: GET /order-statuses lists them',
  tax_id: 'must be a tax of the company that is not deleted, or 0 for none: GET /taxes lists them',
  discount_amount: 'must be at most 100 as a percentage, the stored type: or send discount_amount_type fixed_amount',
  discount_amount_type: 'must be fixed_amount: as a percentage, the stored amount must be at most 100',
}

/** Each field that refers to another row of the company. The order that `isStored` keeps its own, deleted ones too. */
function referenceChecks(
  p: Placeholders<'companyId', 'client_id' | 'order_status_id' | 'tax_id'>,
  isStored = sql`0`,
): Checks {
  const check = (id: Placeholder | undefined, table: SQL, ofOrder: SQL) =>
    id &&
    sql`(${id} IS NULL OR EXISTS (SELECT 1 FROM ${table} WHERE company_id = ${p.companyId} AND id = ${id} AND deleted = 0)
      OR EXISTS (SELECT 1 FROM ${ofOrder} = ${id}))`
  const ofInvoice = sql`invoices WHERE company_id = ${p.companyId}
    AND project_id = (SELECT id FROM orders WHERE ${isStored}) AND tax_id`
  return {
    client_id: check(p.client_id, sql`clients`, sql`orders WHERE ${isStored} AND client_id`),
    status_id: check(p.order_status_id, sql`order_statuses`, sql`orders WHERE ${isStored} AND order_status_id`),
    tax_id: check(p.tax_id, sql`taxes`, ofInvoice),
  }
}

/** An amount or a type that is sent alone must go with the stored other. */
function discountCheck(p: Placeholders<never, 'discount_hundredths' | 'discount_amount_type'>, isInvoice: SQL): Checks {
  const { discount_hundredths: amount, discount_amount_type: type } = p
  if ((amount === undefined) === (type === undefined)) return {}
  return {
    [amount ? 'discount_amount' : 'discount_amount_type']: sql`NOT EXISTS (SELECT 1 FROM invoices WHERE ${isInvoice}
      AND ${type ?? sql`discount_amount_type`} = 'percentage' AND ${amount ?? sql`discount_hundredths`} > 10000)`,
  }
}

const allOf = (checks: Checks) =>
  sql`(${sql.join([sql`1`, ...Object.values(checks).filter((check) => check !== undefined)], sql` AND `)})`

/**
 * Decodes {@link changedJson}; undefined where there is no order, whose checks mean nothing unless it `isNew`.
 *
 * @throws ApiError 400 naming each field whose check failed, and each line that is none of the invoice's
 */
export function decodeChanged(result: string | ChangedJson | null, isNew = false, itemsName = 'invoice_items') {
  const parsed = typeof result === 'string' ? JSON.parse(result) : result
  const [outcomes, found, unknown]: ChangedJson = parsed ?? [{}, null, null]
  const [json, invoice_items, payments] = found ?? []
  const lists = { invoice_items, payments }
  const order = json && decodeOrder(json, lists)
  const unknownLines = (order?.invoice && unknown) || []
  const failed = Object.keys(outcomes).filter((field) => !outcomes[field])
  const issues = [
    ...failed.map((path) => ({ path, message: MESSAGES[path] ?? 'is invalid' })),
    ...unknownLines.map((key) => ({ path: `${itemsName}.${key}.id`, message: 'is not a line of this invoice' })),
  ]
  if (issues.length > 0 && (order || isNew)) throw invalid(issues)
  return order && { order, sent: SENT_LISTS.filter((name) => lists[name]) }
}

const creation = prepareNamed((p: Change) => {
  const { companyId, invoice_items, payments } = p
  const ofCompany = (counter: SQL) => sql`(SELECT ${counter} FROM companies WHERE id = ${companyId})`
  const orderId = ofCompany(sql`last_order_id`)
  const owner = { companyId, invoice: ofCompany(sql`last_invoice_id`) }
  const checks = referenceChecks(p)
  const isAllowed = allOf(checks)
  return {
    ...creationGuard('orders', p),
    ...insertions(p, { order: isAllowed, invoice: isAllowed }),
    ...(invoice_items && listStatements(LINES, owner, byId(invoice_items), isAllowed, true)),
    ...(payments && listStatements(PAYMENTS, owner, byId(payments), isAllowed, true)),
    event: accountingEvent(p, 'create', orderId, isAllowed),
    audit: auditEntry(p, 'order.create', orderId, isAllowed),
    result: resultStatement(p, changedJson({ ...p, orderId }, { checks, parts: FULL_PARTS, condition: isAllowed })),
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
  const key = { ...p, orderId }
  const owner = { companyId, invoice: sql`(SELECT id FROM invoices WHERE ${isLiveInvoice(key)})` }
  const checks = referenceChecks(p, isExternal)
  const isAllowed = allOf(checks)
  const { created_date: _created, ...values } = { ...p, deleted: sql`0` }
  const hasNoInvoice = sql`${isExternal} AND NOT EXISTS (SELECT 1 FROM invoices
    WHERE company_id = orders.company_id AND project_id = orders.id AND ${isKept})`
  const guard = failWhen(sql`version IS NOT NULL`, sql`orders`, hasNoInvoice, 'invoice_missing')
  return {
    // The lists that are sent need an invoice, where the order exists.
    ...((invoice_items || payments) && { guard }),
    ...changedInvoice(p, sql`${isKeptInvoice(key)} AND ${isAllowed}`, { ...exemptionOfClient(p), ...values }),
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
    result: resultStatement(p, changedJson(key, { checks })),
  }
})

const externalGuards = externalGuardsOf('orders')

type Replaced = { params: { external_id: string }; body: WholeOrder }

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
export function orderReplacementOf(context: RequestContext, { params, body }: Replaced): Write<Changed | undefined> {
  const externalId = params.external_id
  const values = { ...writerOf(context), ...columnValues({ ...INITIAL, ...body }), created_date: isoDate(context.now) }
  return {
    statements: { ...externalGuards(context, externalId), ...replacement({ ...values, externalId }) },
    // A repetition finds the elements that the first run has written.
    isIdempotent: context.ifMatch === null && context.ifNoneMatch === null,
    read: (result) => decodeChanged(result, true),
  }
}

const update = prepareNamed((p: Change & Placeholders<'orderId' | 'operation' | 'action', 'versions'>) => {
  const { companyId, invoice_items } = p
  const orderId = sql`${p.orderId}`
  // A deleted order can only be restored.
  const canChange = sql`NOT (orders.deleted AND ${p.deleted ?? sql`1`})`
  const isChangeable = sql`${isOrder(p)} AND ${canChange}`
  const isInvoice = p.deleted ? isKeptInvoice(p) : isLiveInvoice(p)
  const checks = { ...referenceChecks(p, isOrder(p)), ...discountCheck(p, isInvoice) }
  const owner = { companyId, invoice: sql`(SELECT id FROM invoices WHERE ${isInvoice})` }
  const unknown = invoice_items && unknownLines(invoice_items, owner)
  // Lines cannot come with `deleted: true`: the contract refuses it.
  const takesLines = unknown ? sql`EXISTS ${owner.invoice} AND NOT EXISTS (${unknown})` : sql`1`
  const isAllowed = sql`${allOf(checks)} AND EXISTS (SELECT 1 FROM orders WHERE ${isChangeable}) AND ${takesLines}`
  const selection = {
    checks,
    unknown: unknown && sql`json((SELECT json_group_array(key) FROM (${unknown})))`,
    condition: sql`(changes() > 0 OR ${canChange})`,
  }
  return {
    ...versionGuard(p),
    ...changedInvoice(p, sql`${isInvoice} AND ${isAllowed}`, p),
    ...(invoice_items && listStatements(LINES, owner, byId(invoice_items), isAllowed)),
    event: accountingEvent(p, p.operation, orderId, isAllowed),
    audit: auditEntry(p, sql`${p.action}`, orderId, isAllowed),
    // The others need the order as it was.
    changedOrder: changedOrder(p, sql`${isChangeable} AND ${isAllowed}`, p),
    result: resultStatement(p, changedJson(p, selection)),
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
  const kind = body.deleted ? { operation: 'delete', action: 'order.delete' } : { operation: 'update', action }
  const versions = versionsOf(context.ifMatch)
  return {
    statements: update({ ...writerOf(context), ...columnValues(body), ...kind, orderId, versions }),
    // Written once, the version is another, lines without an id have one, and an order that is deleted is not found.
    isIdempotent: versions === undefined && body.invoice_items === undefined && !body.deleted,
    isDeletion: body.deleted === true && Object.keys(body).length === 1,
    read: (result) => {
      const changed = decodeChanged(result, false, itemsName)
      if (changed && body.invoice_items && !changed.order.invoice) throw errorFor('invoice_missing')
      return changed
    },
  }
}
