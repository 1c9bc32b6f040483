import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { isoDate } from '../../kernel/api/contract.ts'
import { type Placeholders, prepareNamed } from '../../kernel/db/client.ts'
import { type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { externalGuardsOf, failWhen, isOtherVersion, versionsOf } from '../../kernel/db/versions.ts'
import { unusable } from '../../kernel/http/errors.ts'
import { type Change, type Changed, decodeChanged, invoiceValues, statementsOf } from './change-sql.ts'
import type { NewOrder, OrderFields, WholeOrder } from './contract.ts'
import type { OrderRow } from './parts-sql.ts'
import { FULL } from './queries.ts'
import {
  allOf,
  byId,
  byOrder,
  columnValues,
  discountCheck,
  isAnyOrder,
  isInvoice,
  isItsInvoice,
  isKept,
  LINES,
  referenceChecks,
  unknownLines,
  type Which,
} from './write-sql.ts'

const creation = prepareNamed((p: Change) => {
  const ofCompany = (counter: SQL) => sql`(SELECT ${counter} FROM companies WHERE id = ${p.companyId})`
  const checks = referenceChecks(p)
  const isAllowed = allOf(checks)
  return statementsOf(p, {
    which: { companyId: p.companyId, orderId: ofCompany(sql`last_order_id`) },
    invoice: ofCompany(sql`last_invoice_id`),
    ...{ checks, isAllowed, condition: isAllowed, parts: FULL },
    inserted: { external_id: p.external_id, order: isAllowed, invoice: isAllowed },
    lines: p.items && byId(p.items),
    operation: 'create',
    action: 'order.create',
  })
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
  const { companyId } = p
  const isExternal = sql`company_id = ${companyId} AND external_id = ${p.externalId}`
  const which = { companyId, orderId: sql`(SELECT id FROM orders WHERE ${isExternal})` }
  const invoice = sql`(SELECT id FROM invoices WHERE ${isInvoice(which)})`
  const checks = referenceChecks(p, isExternal)
  const isAllowed = allOf(checks)
  const { created_date: _created, ...values } = { ...p, deleted: sql`0` }
  const hasNoInvoice = sql`${isExternal} AND NOT EXISTS (SELECT 1 FROM invoices
    WHERE company_id = orders.company_id AND project_id = orders.id AND ${isKept})`
  const guard = failWhen(sql`version IS NOT NULL`, sql`orders`, hasNoInvoice, 'invoice_missing')
  const statements = statementsOf(p, {
    ...{ which, invoice, checks, isAllowed },
    changed: {
      isOrder: isExternal,
      isInvoice: isItsInvoice(which),
      order: values,
      invoice: { ...invoiceValues(p), ...values },
    },
    inserted: {
      external_id: p.externalId,
      order: sql`${isAllowed} AND NOT EXISTS (SELECT 1 FROM orders WHERE ${isExternal})`,
      // An order that was there has a higher version by then.
      invoice: sql`${isAllowed} AND EXISTS (SELECT 1 FROM orders WHERE ${isExternal} AND version = 1)`,
    },
    lines: p.items && byOrder(LINES, p.items, { companyId, invoice }),
    // The delivery creates what the accounting system does not have.
    operation: 'update',
    action: 'order.write',
  })
  // The lists that are sent need an invoice, where the order exists.
  return p.items || p.payments ? { guard, ...statements } : statements
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
  // A deleted order can only be restored.
  const canChange = sql`NOT (orders.deleted AND ${p.deleted ?? sql`1`})`
  const isOne = sql`${isAnyOrder(p)} AND ${canChange}`
  const isInvoiceOfIt = p.deleted ? isItsInvoice(p) : isInvoice(p)
  const checks = { ...referenceChecks(p, isAnyOrder(p)), ...discountCheck(p, isInvoiceOfIt) }
  const invoice = sql`(SELECT id FROM invoices WHERE ${isInvoiceOfIt})`
  const unknown = p.items && unknownLines(p.items, { companyId: p.companyId, invoice })
  // Lines cannot come with `deleted: true`: the contract refuses it.
  const takesLines = unknown ? sql`EXISTS ${invoice} AND NOT EXISTS (${unknown})` : sql`1`
  const { changedOrder, result, ...others } = statementsOf(p, {
    ...{ which: p, invoice, checks, operation: p.operation, action: p.action },
    isAllowed: sql`${allOf(checks)} AND EXISTS (SELECT 1 FROM orders WHERE ${isOne}) AND ${takesLines}`,
    changed: { isOrder: isOne, isInvoice: isInvoiceOfIt, order: p, invoice: p },
    lines: p.items && byId(p.items),
    unknown: unknown && sql`json((SELECT json_group_array(key) FROM (${unknown})))`,
    condition: sql`(changes() > 0 OR ${canChange})`,
  })
  // The others need the order as it was.
  return { ...versionGuard(p), ...others, ...(changedOrder && { changedOrder }), result }
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
