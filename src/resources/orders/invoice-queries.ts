import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepareNamed } from '../../kernel/db/client.ts'
import {
  assignments,
  insertRow,
  type itemColumns,
  jsonRow,
  paymentColumns,
  type RowOf,
} from '../../kernel/db/columns.ts'
import { type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { accountingEvent } from '../../kernel/db/outbox.ts'
import { companies, invoiceItems, orders, payments } from '../../kernel/db/schema.ts'
import { lineSearchTexts } from '../../kernel/db/search.ts'
import { invalid, notFound, unusable } from '../../kernel/http/errors.ts'
import type { NewItem, NewPayment } from './invoice-contract.ts'
import { type ChangedRow, changedJson, decodeChange, LISTS } from './queries.ts'
import { toHundredths } from './totals.ts'
import { guarded, isInvoice, isLive, isOrder, NEXT_VERSION } from './write-queries.ts'

type Change = Placeholders<Actor | 'orderId', KeyName>

const invoiceOf = (p: Change) => sql`(SELECT id FROM invoices WHERE ${isInvoice(p)})`

/** Raises the version of the order with every change of its invoice. */
const changeOrder = (p: Change, isAllowed: SQL) =>
  orm
    .update(orders)
    .set(assignments(orders, { updated_at: sql`${p.now}`, version: NEXT_VERSION }))
    .where(sql`${isOrder(p)} AND ${isAllowed}`)

/** Columns of a line, from an element of a JSON list. */
const LINE = Object.fromEntries(
  [
    'title',
    'description',
    'quantity',
    'unit_price_cents',
    'taxable',
    'supplier',
    'style',
    'color',
    'size',
    'sku',
    'search_text',
  ].map((name) => [name, sql`item.value ->> ${sql.raw(`'${name}'`)}`]),
)
const ITEM_ID = sql`item.value ->> 'id'`

const replacement = prepareNamed((p: Change & Placeholders<'items'>) => {
  const items = sql`json_each(${p.items}) AS item`
  const isOfInvoice = sql`invoice_items.company_id = ${p.companyId} AND invoice_items.invoice_id = ${invoiceOf(p)}
    AND invoice_items.deleted = 0`
  const unknown = sql`SELECT item.key FROM ${items} WHERE ${ITEM_ID} IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM invoice_items WHERE ${isOfInvoice} AND invoice_items.id = ${ITEM_ID})`
  const isAllowed = sql`${isLive(p)} AND EXISTS ${invoiceOf(p)} AND NOT EXISTS (${unknown})`
  const line = { ...LINE, position: sql`item.key + 1` }
  const lastId = sql`(SELECT max(id) FROM invoice_items WHERE company_id = ${p.companyId})`
  const left = sql`invoice_items.id NOT IN (SELECT ${ITEM_ID} FROM ${items} WHERE ${ITEM_ID} IS NOT NULL)`
  const list = (values: SQL[]) => sql`(${sql.join(values, sql`, `)})`
  const columns = Object.keys(line).map((name) => sql.raw(`invoice_items.${name}`))
  const isDifferent = sql`${list(columns)} IS NOT ${list(Object.values(line))}`
  const stored = sql`SELECT ${LISTS.invoice_items.row} AS line FROM ${invoiceItems} WHERE ${isOfInvoice}
    ORDER BY ${invoiceItems.position}, ${invoiceItems.id}`
  return {
    removed: orm.update(invoiceItems).set({ deleted: sql`1` }).where(sql`${isOfInvoice} AND ${left} AND ${isAllowed}`),
    changed: orm
      .update(invoiceItems)
      .set(assignments(invoiceItems, line))
      // With a limit it is read once and indexed, not parsed again for each line of the invoice.
      .from(sql`(SELECT key, value, ${ITEM_ID} AS id FROM ${items} WHERE ${ITEM_ID} IS NOT NULL LIMIT -1) AS item`)
      .where(sql`${isOfInvoice} AND invoice_items.id = item.id AND ${isDifferent} AND ${isAllowed}`),
    added: insertRow(
      invoiceItems,
      {
        ...line,
        company_id: p.companyId,
        id: sql`coalesce(${lastId}, 0) + row_number() OVER (ORDER BY item.key)`,
        invoice_id: invoiceOf(p),
      },
      sql`FROM ${items} WHERE ${ITEM_ID} IS NULL AND ${isAllowed}`,
    ),
    order: changeOrder(p, isAllowed),
    event: accountingEvent(p, 'update', sql`${p.orderId}`, isAllowed),
    audit: auditEntry(p, 'invoice_items.write', sql`${p.orderId}`, isAllowed),
    result: resultStatement(
      p,
      sql`SELECT json_array(json((${changedJson(p)})), json((SELECT json_group_array(json(line)) FROM (${stored}))),
        json((SELECT json_group_array(key) FROM (${unknown}))))`,
    ),
  }
})

type Lines = { change: ChangedRow; items: RowOf<typeof itemColumns>[] }

/**
 * The replacement of all lines of an order's invoice. Reading its result throws an ApiError: 404 where the order
 * does not exist, 409 where it has no invoice, 400 for ids that are not those of its lines.
 */
export function replacementOf(context: RequestContext, orderId: number, items: NewItem[]): Write<Lines> {
  const texts = lineSearchTexts(items)
  const lines = items.map(({ unit_price, ...item }, index) => ({
    ...item,
    unit_price_cents: toHundredths(unit_price),
    search_text: texts[index],
  }))
  return guarded(context, orderId, {
    statements: replacement({ ...writerOf(context), orderId, items: JSON.stringify(lines) }),
    read: (result) => {
      const [change, stored, unknown]: [unknown[] | null, unknown[][], number[]] = JSON.parse(result ?? '[null]')
      const changed = { change: decodeOfInvoice(change), items: stored.map(LISTS.invoice_items.decode) }
      if (unknown.length === 0) return changed
      throw invalid(unknown.map((key) => ({ path: `items.${key}.id`, message: 'is not a line of this invoice' })))
    },
  })
}

/** @throws ApiError 404 where the order does not exist, 409 where it has no invoice */
function decodeOfInvoice(change: unknown[] | null): ChangedRow {
  if (!change) throw notFound('Order')
  const row = decodeChange(change)
  if (!row.invoice) throw unusable('invoice_missing')
  return row
}

const PAYMENT = jsonRow(paymentColumns)

/** The change, and one payment of the invoice. */
const paymentJson = (p: Change, paymentId: SQL) => sql`SELECT json_array(json((${changedJson(p)})),
  json((SELECT ${PAYMENT.row} FROM ${payments}
    WHERE company_id = ${p.companyId} AND invoice_id = ${invoiceOf(p)} AND ${payments.id} = ${paymentId})))`

const creation = prepareNamed((p: Change & Placeholders<'amount_cents' | 'method' | 'paid_at' | 'note'>) => {
  const isAllowed = sql`${isLive(p)} AND EXISTS ${invoiceOf(p)}`
  const lastId = sql`(SELECT last_payment_id FROM companies WHERE id = ${p.companyId})`
  return {
    payment: insertRow(
      payments,
      { ...p, company_id: p.companyId, id: sql`last_payment_id + 1`, invoice_id: invoiceOf(p) },
      sql`FROM ${companies} WHERE ${companies.id} = ${p.companyId} AND ${isAllowed}`,
    ),
    order: changeOrder(p, isAllowed),
    event: accountingEvent(p, 'update', sql`${p.orderId}`, isAllowed),
    audit: auditEntry(p, 'payment.create', lastId, isAllowed),
    result: resultStatement(p, paymentJson(p, lastId)),
  }
})

type Paid = { change: ChangedRow; payment: RowOf<typeof paymentColumns> }

function decodePaid(result: string | null): Paid {
  const [change, payment]: [unknown[] | null, unknown[] | null] = JSON.parse(result ?? '[null]')
  const row = decodeOfInvoice(change)
  if (!payment) throw notFound('Payment')
  return { change: row, payment: PAYMENT.decode(payment) }
}

/** A new payment on an order's invoice. Reading its result throws an ApiError: 404, or 409 without an invoice. */
export function paymentOf(context: RequestContext, orderId: number, body: NewPayment): Write<Paid> {
  const { amount, method = null, paid_at = null, note = null } = body
  const values = { amount_cents: toHundredths(amount), method, paid_at, note }
  return guarded(context, orderId, {
    statements: creation({ ...writerOf(context), ...values, orderId }),
    read: decodePaid,
  })
}

const deletion = prepareNamed((p: Change & Placeholders<'paymentId'>) => {
  const isPayment = sql`company_id = ${p.companyId} AND invoice_id = ${invoiceOf(p)} AND id = ${p.paymentId}`
  const isAllowed = sql`${isLive(p)} AND EXISTS (SELECT 1 FROM payments WHERE ${isPayment})`
  return {
    order: changeOrder(p, isAllowed),
    event: accountingEvent(p, 'update', sql`${p.orderId}`, isAllowed),
    audit: auditEntry(p, 'payment.delete', sql`${p.paymentId}`, isAllowed),
    // Before the deletion, so that it still has the payment.
    result: resultStatement(p, paymentJson(p, sql`${p.paymentId}`)),
    payment: orm.delete(payments).where(sql`${isPayment} AND ${isLive(p)}`),
  }
})

/** The removal of a payment from an order's invoice. Reading its result throws an ApiError 404. */
export function paymentRemovalOf(context: RequestContext, orderId: number, paymentId: number): Write<Paid> {
  return guarded(context, orderId, {
    statements: deletion({ ...writerOf(context), orderId, paymentId }),
    isDeletion: true,
    read: (result) => {
      const { change, payment } = decodePaid(result)
      return { change: { ...change, paymentsCents: [...change.paymentsCents, -payment.amount_cents] }, payment }
    },
  })
}
