import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { isoDate } from '../../kernel/api/contract.ts'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepare, prepareNamed } from '../../kernel/db/client.ts'
import { assignments, insertRow } from '../../kernel/db/columns.ts'
import {
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
import { invalid } from '../../kernel/http/errors.ts'
import { versionsOf } from '../../kernel/http/etag.ts'
import type { NewOrder, OrderFields } from './contract.ts'
import {
  type ChangedRow,
  changedJson,
  decodeChange,
  decodeNewOrder,
  type NewOrderJson,
  newOrderJson,
  type OrderRow,
  type Outcomes,
} from './queries.ts'
import { toHundredths } from './totals.ts'

type Column = keyof ReturnType<typeof columnValues>

const creation = prepareNamed((p: Placeholders<Actor | 'created_date', Column | KeyName>) => {
  const { companyId, client_id } = p
  const checks = referenceChecks(p)
  const isValid = allOf(checks)
  const orderId = sql`(SELECT last_order_id FROM companies WHERE id = ${companyId})`
  const counters = sql`${companies.id} = ${companyId} AND ${isValid}`
  const fromCounters = sql`FROM ${companies} WHERE ${counters}`
  const numbered = { last_invoice_number: sql`${companies.last_invoice_number} + 1` }
  const number = sql`CAST(last_invoice_number AS TEXT)`
  const number_key = sql`CAST(last_invoice_number + 1 AS TEXT)`
  const values = { ...p, number_key, company_id: companyId, created_at: p.now, updated_at: p.now }
  const defaultStatus = sql`(SELECT id FROM ${orderStatuses}
    WHERE company_id = ${companyId} AND is_default = 1 AND deleted = 0 ORDER BY position, id LIMIT 1)`
  const ofClient = (column: SQL) =>
    sql`(SELECT ${column} FROM clients WHERE company_id = ${companyId} AND id = ${client_id})`
  return {
    order: insertRow(orders, { order_status_id: defaultStatus, ...values, id: sql`last_order_id + 1` }, fromCounters),
    numbers: orm.update(companies).set(numbered).where(counters),
    invoice: insertRow(
      invoices,
      {
        // Omitted fields come from the client; a client's reason belongs to the client's exemption.
        tax_exempt: ofClient(sql`tax_exempt`),
        ...(!p.tax_exempt && { tax_exempt_reason: ofClient(sql`tax_exempt_reason`) }),
        ...values,
        id: sql`last_invoice_id + 1`,
        project_id: sql`last_order_id`,
        number,
      },
      fromCounters,
    ),
    event: accountingEvent(p, 'create', orderId, isValid),
    audit: auditEntry(p, 'order.create', orderId, isValid),
    result: resultStatement(
      p,
      sql`json_array(${outcomesOf(checks)}, json((${newOrderJson({ companyId, orderId })} WHERE ${isValid})))`,
    ),
  }
})

/**
 * The creation of an order and its invoice. Every statement repeats the checks of what the order refers to: inside one
 * transaction they all have the same outcome, so either everything is written or nothing. Reading its result throws an
 * ApiError 400 that names each reference that is not the company's or is deleted.
 */
export function creationOf(context: RequestContext, body: NewOrder): Write<OrderRow> {
  const values = { ...writerOf(context), ...columnValues(body), created_date: isoDate(context.now) }
  return {
    statements: creation(values),
    read: (result) => {
      const [outcomes, order]: [Outcomes, NewOrderJson | null] = JSON.parse(result ?? '[{},null]')
      assertPassed(outcomes)
      if (!order) throw new Error('An insert returned no row.')
      return decodeNewOrder(order)
    },
  }
}

type Update = Placeholders<Actor | 'orderId' | 'operation', Column | KeyName>

/** Whether the order was deleted matters only to a change that does not say whether it is to be. */
const isChangeable = (p: Update) => (p.deleted ? sql`company_id = ${p.companyId} AND id = ${p.orderId}` : isOrder(p))

/** The order's invoice, which was deleted only with it. */
const isItsInvoice = (p: Update) =>
  p.deleted
    ? sql`company_id = ${p.companyId} AND project_id = ${p.orderId}
        AND deleted <= (SELECT deleted FROM orders WHERE ${isChangeable(p)})`
    : isInvoice(p)

const update = prepareNamed((p: Update) => {
  const checks = { ...referenceChecks(p), ...discountCheck(p) }
  const isAllowed = sql`${allOf(checks)} AND EXISTS (SELECT 1 FROM orders WHERE ${isChangeable(p)})`
  const values = { ...p, updated_at: p.now, version: NEXT_VERSION }
  const invoice = sql`${isItsInvoice(p)} AND ${isAllowed}`
  const order = sql`${isChangeable(p)} AND ${isAllowed}`
  return {
    invoice: orm
      .update(invoices)
      .set(assignments(invoices, { ...p, updated_at: p.now }))
      .where(invoice),
    order: orm.update(orders).set(assignments(orders, values)).where(order),
    event: accountingEvent(p, p.operation, sql`${p.orderId}`, isAllowed),
    audit: auditEntry(p, sql`'order.' || ${p.operation}`, sql`${p.orderId}`, isAllowed),
    result: resultStatement(p, changedJson(p, { outcomes: outcomesOf(checks), isDeleted: p.deleted !== undefined })),
  }
})

/**
 * The change of an order: sets only the columns of the fields that are sent, so that concurrent updates of different
 * fields are all applied. Its result is undefined when the order does not exist; reading it throws an ApiError 400 that
 * names each field that refers to what is not the company's, or makes the discount impossible.
 */
export function changeOf(context: RequestContext, orderId: number, body: OrderFields): Write<ChangedRow | undefined> {
  const columns = columnValues(body)
  const operation = body.deleted ? 'delete' : 'update'
  const { invoice, ...others } = update({ ...writerOf(context), ...columns, orderId, operation })
  const changesInvoice = Object.entries(columns).some(([name, value]) => value !== undefined && name in invoices)
  return guarded(context, orderId, {
    statements: changesInvoice ? { invoice, ...others } : others,
    isIdempotent: true,
    isDeletion: body.deleted === true && Object.keys(body).length === 1,
    read: (result) => {
      const row = result === null ? undefined : decodeChange(result)
      if (row) assertPassed(row.outcomes)
      return row
    },
  })
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

const versionGuard = prepare((p: Which & Placeholders<'versions'>) =>
  failWhen(isOtherVersion(p.versions), sql`orders`, sql`company_id = ${p.companyId} AND id = ${p.orderId}`),
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

/** The values of the fields that are sent, by column, and whether an accounting event is requested. */
function columnValues({ status_id, discount_amount, accounting_sync_enabled, ...fields }: OrderFields) {
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

type Which = Placeholders<'companyId' | 'orderId'>

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
function discountCheck(p: Update): Checks {
  const { discount_hundredths: amount, discount_amount_type: type } = p
  if ((amount === undefined) === (type === undefined)) return {}
  return {
    [amount ? 'discount_amount' : 'discount_amount_type']:
      sql`NOT EXISTS (SELECT 1 FROM invoices WHERE ${isItsInvoice(p)}
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
