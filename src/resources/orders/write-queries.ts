import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { isoDate } from '../../kernel/api/contract.ts'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepare, prepareNamed } from '../../kernel/db/client.ts'
import { assignments, insertRow } from '../../kernel/db/columns.ts'
import {
  externalGuardsOf,
  failWhen,
  isOtherVersion,
  type KeyName,
  resultStatement,
  type Write,
  writerOf,
} from '../../kernel/db/idempotency.ts'
import { accountingEvent } from '../../kernel/db/outbox.ts'
import { companies, invoices, orderStatuses, orders } from '../../kernel/db/schema.ts'
import { fold } from '../../kernel/db/search.ts'
import { invalid, unusable } from '../../kernel/http/errors.ts'
import { versionsOf } from '../../kernel/http/etag.ts'
import type { NewOrder, OrderFields, WholeOrder } from './contract.ts'
import type { NewItem } from './element-contract.ts'
import {
  byId,
  lineStatements,
  linesByOrder,
  linesJson,
  paymentStatements,
  paymentsJson,
  storedLines,
  storedPayments,
  unknownLines,
} from './element-queries.ts'
import {
  type ChangedRow,
  changedJson,
  decodeChange,
  decodeNewOrder,
  LISTS,
  type ListName,
  type NewOrderJson,
  newOrderJson,
  type OrderRow,
  type Outcomes,
} from './queries.ts'
import { toHundredths } from './totals.ts'

type Column = keyof ReturnType<typeof columnValues>
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
  const numbered = { last_invoice_number: sql`${companies.last_invoice_number} + 1` }
  const number = sql`CAST(last_invoice_number AS TEXT)`
  const number_key = sql`CAST(last_invoice_number + 1 AS TEXT)`
  const values = { ...p, number_key, company_id: companyId, created_at: p.now, updated_at: p.now }
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
    numbers: orm.update(companies).set(numbered).where(sql`${companies.id} = ${companyId} AND ${isNew}`),
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

/** The elements of an order's lists, as JSON parsed from a result; null for a list that was not sent. */
type ListJson = unknown[][] | null

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

type Update = Placeholders<Actor | 'orderId' | 'operation' | 'action', Column | KeyName | 'items'>

/** The order, by its key. */
type Which = { companyId: Placeholder; orderId: Placeholder | SQL }

const isAnyOrder = (p: Which) => sql`company_id = ${p.companyId} AND id = ${p.orderId}`

/** The order's invoice, which was deleted only with it. */
const isItsInvoice = (p: Which) => sql`company_id = ${p.companyId} AND project_id = ${p.orderId}
  AND deleted <= (SELECT deleted FROM orders WHERE ${isAnyOrder(p)})`

const update = prepareNamed((p: Update) => {
  // Whether the order is deleted matters only to a change that does not say whether it is to be.
  const isDeleted = p.deleted !== undefined
  const isOne = isDeleted ? isAnyOrder(p) : isOrder(p)
  const isInvoiceOfIt = isDeleted ? isItsInvoice(p) : isInvoice(p)
  const checks = { ...referenceChecks(p), ...discountCheck(p, isInvoiceOfIt) }
  const owner = { companyId: p.companyId, invoice: sql`(SELECT id FROM invoices WHERE ${isInvoiceOfIt})` }
  const unknown = p.items && unknownLines(p.items, owner)
  const takesLines = unknown ? sql`EXISTS ${owner.invoice} AND NOT EXISTS (${unknown})` : sql`1`
  const isAllowed = sql`${allOf(checks)} AND EXISTS (SELECT 1 FROM orders WHERE ${isOne}) AND ${takesLines}`
  const values = { ...p, updated_at: p.now, version: NEXT_VERSION }
  const changed = changedJson(p, { outcomes: outcomesOf(checks), isDeleted })
  const lists = unknown
    ? sql`json(${storedLines(owner)}), json((SELECT json_group_array(key) FROM (${unknown})))`
    : sql`NULL`
  return {
    invoice: orm
      .update(invoices)
      .set(assignments(invoices, { ...p, updated_at: p.now }))
      .where(sql`${isInvoiceOfIt} AND ${isAllowed}`),
    ...(p.items && lineStatements(owner, byId(p.items), isAllowed)),
    order: orm.update(orders).set(assignments(orders, values)).where(sql`${isOne} AND ${isAllowed}`),
    event: accountingEvent(p, p.operation, sql`${p.orderId}`, isAllowed),
    audit: auditEntry(p, sql`${p.action}`, sql`${p.orderId}`, isAllowed),
    result: resultStatement(p, sql`json_array(json((${changed})), ${lists})`),
  }
})

/** A changed order, with the lists that were sent. */
export type Changed = ChangedRow & Partial<Pick<Lists, 'invoice_items' | 'payments'>>
type Lists = { [Name in ListName]: ReturnType<(typeof LISTS)[Name]['decode']>[] }

/**
 * The change of an order: sets only the columns of the fields that are sent, so that concurrent updates of different
 * fields are all applied. Its result is undefined when the order does not exist; reading it throws an ApiError: 400 that
 * names each field that refers to what is not the company's, or makes the discount impossible; 409 for lines without an
 * invoice.
 */
export function changeOf(
  context: RequestContext,
  orderId: number,
  body: OrderFields,
  { action = 'order.update', itemsName = 'invoice_items' } = {},
): Write<Changed | undefined> {
  const { invoice_items: items, ...fields } = body
  const columns = columnValues(fields)
  const about = body.deleted ? { operation: 'delete', action: 'order.delete' } : { operation: 'update', action }
  const sent = { items: items && linesJson(items) }
  const { invoice, ...others } = update({ ...writerOf(context), ...columns, ...sent, ...about, orderId })
  const changesInvoice = Object.entries(columns).some(([name, value]) => value !== undefined && name in invoices)
  return guarded(context, orderId, {
    statements: changesInvoice ? { invoice, ...others } : others,
    // Lines without an id get one.
    isIdempotent: items === undefined,
    isDeletion: body.deleted === true && Object.keys(body).length === 1,
    read: (result) => {
      const [change, lines, unknown]: [unknown[] | null, ListJson, number[]] = JSON.parse(result ?? '[null]')
      if (!change) return undefined
      const row = decodeChange(change)
      assertPassed(row.outcomes)
      if (items === undefined) return row
      if (!row.invoice) throw unusable('invoice_missing')
      if (unknown.length > 0) {
        throw invalid(
          unknown.map((key) => ({ path: `${itemsName}.${key}.id`, message: 'is not a line of this invoice' })),
        )
      }
      return { ...row, ...decodeLists({ invoice_items: lines }) }
    },
  })
}

/** The replacement of all lines of an order's invoice: {@link changeOf} nothing else. */
export function replacementOf(context: RequestContext, orderId: number, items: NewItem[]) {
  return changeOf(context, orderId, { invoice_items: items }, { action: 'invoice_items.write', itemsName: 'items' })
}

function decodeLists({ invoice_items, payments }: { invoice_items?: ListJson; payments?: ListJson }): Partial<Lists> {
  return {
    ...(invoice_items && { invoice_items: invoice_items.map(LISTS.invoice_items.decode) }),
    ...(payments && { payments: payments.map(LISTS.payments.decode) }),
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
  const { order, numbers, invoice } = insertions(
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
    ...{ order, numbers, invoice },
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

const deletion = prepareNamed((p: Placeholders<Actor | 'orderId', KeyName>) => {
  const values = { updated_at: p.now, deleted: sql`1` }
  const invoice = sql`${isInvoice(p)} AND ${isLive(p)}`
  return {
    event: accountingEvent(p, 'delete', sql`${p.orderId}`, isLive(p)),
    audit: auditEntry(p, 'order.delete', sql`${p.orderId}`, isLive(p)),
    invoice: orm.update(invoices).set(assignments(invoices, values)).where(invoice),
    order: orm
      .update(orders)
      .set(assignments(orders, { ...values, version: NEXT_VERSION }))
      .where(isOrder(p)),
    result: resultStatement(p, sql`${changedJson(p, { isDeleted: true })} AND changes() > 0`),
  }
})

/** The deletion of an order. Its result is undefined when the order does not exist or is already deleted. */
export function deletionOf(context: RequestContext, orderId: number): Write<ChangedRow | undefined> {
  return guarded(context, orderId, {
    statements: deletion({ ...writerOf(context), orderId }),
    isDeletion: true,
    read: (result) => (result === null ? undefined : decodeChange(result)),
  })
}

const versionGuard = prepare((p: Placeholders<'companyId' | 'orderId' | 'versions'>) =>
  failWhen(isOtherVersion(p.versions), sql`orders`, isAnyOrder(p)),
)

/** The write of an order, which fails for another version than the request's `If-Match` names. */
export function guarded<T>(context: RequestContext, orderId: number, write: Write<T>): Write<T> {
  const versions = versionsOf(context.ifMatch)
  if (versions === null) return write
  const guard = versionGuard({ companyId: context.companyId, orderId, versions })
  // Written once, the version is another.
  return { ...write, statements: { guard, ...write.statements }, isIdempotent: false }
}

export const NEXT_VERSION = sql`version + 1`

type Nullable = { start_date?: string | null | undefined; deadline?: string | null | undefined } & Partial<
  Record<'invoice_items' | 'payments', unknown>
>

/** The values of the fields that are sent, by column, and whether an accounting event is requested. */
function columnValues(body: Omit<OrderFields, 'start_date' | 'deadline' | 'invoice_items'> & Nullable) {
  const { status_id, discount_amount, accounting_sync_enabled, ...sent } = body
  const { invoice_items: _items, payments: _payments, ...fields } = sent
  return {
    ...fields,
    title_key: fields.title === undefined ? undefined : fold(fields.title),
    order_status_id: status_id,
    due_date: fields.deadline,
    tax_id: fields.tax_id === 0 ? null : fields.tax_id,
    discount_hundredths: discount_amount === undefined ? undefined : toHundredths(discount_amount),
    requested: accounting_sync_enabled,
  }
}

export const isOrder = (p: Which) => sql`company_id = ${p.companyId} AND id = ${p.orderId} AND deleted = 0`
export const isInvoice = (p: Which) => sql`company_id = ${p.companyId} AND project_id = ${p.orderId} AND deleted = 0`
export const isLive = (p: Which) => sql`EXISTS (SELECT 1 FROM orders WHERE ${isOrder(p)})`

/** Conditions by the field that each is about. */
type Checks = Record<string, SQL>

/** Each field that refers to another row of the company. */
function referenceChecks(p: Placeholders<'companyId', Column>): Checks {
  const exists = (table: SQL, id: Placeholder) =>
    sql`EXISTS (SELECT 1 FROM ${table} WHERE company_id = ${p.companyId} AND id = ${id} AND deleted = 0)`
  return {
    ...(p.client_id && { client_id: exists(sql`clients`, p.client_id) }),
    ...(p.order_status_id && { status_id: exists(sql`order_statuses`, p.order_status_id) }),
    ...(p.tax_id && { tax_id: sql`(${p.tax_id} IS NULL OR ${exists(sql`taxes`, p.tax_id)})` }),
  }
}

/** An amount or a type that is sent alone must go with the stored other. */
function discountCheck(p: Update, isInvoiceOfIt: SQL): Checks {
  const { discount_hundredths: amount, discount_amount_type: type } = p
  if ((amount === undefined) === (type === undefined)) return {}
  return {
    [amount ? 'discount_amount' : 'discount_amount_type']: sql`NOT EXISTS (SELECT 1 FROM invoices WHERE ${isInvoiceOfIt}
      AND ${type ?? sql`discount_amount_type`} = 'percentage' AND ${amount ?? sql`discount_hundredths`} > 10000)`,
  }
}

const allOf = (checks: Checks) => sql`(${sql.join([sql`1`, ...Object.values(checks)], sql` AND `)})`

/** Whether each check holds, as a JSON object. */
function outcomesOf(checks: Checks): SQL {
  const members = Object.entries(checks).map(([field, check]) => sql`${sql.raw(`'${field}'`)}, ${check}`)
  return sql`json_object(${sql.join(members, sql`, `)})`
}

const MESSAGES: Record<string, string> = {
  client_id: 'must be a client of the company that is not deleted',
  status_id: 'must be an order status of the company: GET /order-statuses lists them',
  tax_id: 'must be a tax of the company, or 0 for none: GET /taxes lists them',
  discount_amount: 'must be at most 100 as a percentage, the stored type: or send discount_amount_type fixed_amount',
  discount_amount_type: 'must be fixed_amount: as a percentage, the stored amount must be at most 100',
}

/** @throws ApiError 400 naming the field of each check that failed */
function assertPassed(outcomes: Outcomes): void {
  const failed = Object.keys(outcomes).filter((field) => !outcomes[field])
  if (failed.length === 0) return
  throw invalid(failed.map((path) => ({ path, message: MESSAGES[path] ?? 'is invalid' })))
}
