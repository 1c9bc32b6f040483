import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepare, prepareNamed } from '../../kernel/db/client.ts'
import { assignments, insertRow, jsonRow, paymentColumns, type RowOf } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { accountingEvent } from '../../kernel/db/outbox.ts'
import { companies, orders, payments } from '../../kernel/db/schema.ts'
import { notFound, unusable } from '../../kernel/http/errors.ts'
import type { NewPayment, PaymentFields } from './element-contract.ts'
import { type ChangedRow, changedJson, decodeChange } from './queries.ts'
import { toHundredths } from './totals.ts'
import { guarded } from './write-queries.ts'
import { isInvoice, isLive, isOrder, NEXT_VERSION } from './write-sql.ts'

type Change = Placeholders<Actor | 'orderId', KeyName>

const invoiceOf = (p: Change) => sql`(SELECT id FROM invoices WHERE ${isInvoice(p)})`

/** Raises the version of the order with every change of its invoice. */
const changeOrder = (p: Change, isAllowed: SQL) =>
  orm
    .update(orders)
    .set(assignments(orders, { updated_at: sql`${p.now}`, version: NEXT_VERSION }))
    .where(sql`${isOrder(p)} AND ${isAllowed}`)

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

export type Paid = { change: ChangedRow; payment: RowOf<typeof paymentColumns> }

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

type OnePayment = Change & Placeholders<'paymentId'>

const isPayment = (p: OnePayment) =>
  sql`company_id = ${p.companyId} AND invoice_id = ${invoiceOf(p)} AND id = ${p.paymentId}`
const hasPayment = (p: OnePayment) => sql`${isLive(p)} AND EXISTS (SELECT 1 FROM payments WHERE ${isPayment(p)})`

const change = prepareNamed((p: OnePayment & Placeholders<never, PaymentColumn>) => {
  const isAllowed = hasPayment(p)
  return {
    payment: orm
      .update(payments)
      .set(assignments(payments, { ...p }))
      .where(sql`${isPayment(p)} AND ${isLive(p)}`),
    order: changeOrder(p, isAllowed),
    event: accountingEvent(p, 'update', sql`${p.orderId}`, isAllowed),
    audit: auditEntry(p, 'payment.update', sql`${p.paymentId}`, isAllowed),
    result: resultStatement(p, paymentJson(p, sql`${p.paymentId}`)),
  }
})

type PaymentColumn = 'amount_cents' | 'method' | 'paid_at' | 'note'

/** The correction of a payment. Reading its result throws an ApiError 404. */
export function paymentChangeOf(
  context: RequestContext,
  orderId: number,
  paymentId: number,
  { amount, ...fields }: PaymentFields,
): Write<Paid> {
  const amount_cents = amount === undefined ? undefined : toHundredths(amount)
  return guarded(context, orderId, {
    statements: change({ ...writerOf(context), ...fields, amount_cents, orderId, paymentId }),
    isIdempotent: true,
    read: decodePaid,
  })
}

const ofOrder = prepare((p: Placeholders<'companyId' | 'orderId'>) =>
  orm
    .select({ payment: PAYMENT.rowOrNull.as('payment') })
    .from(
      sql`(SELECT * FROM orders WHERE ${isOrder(p)}) AS orders
        LEFT JOIN invoices ON invoices.company_id = orders.company_id AND invoices.project_id = orders.id
          AND invoices.deleted = 0
        LEFT JOIN payments ON payments.company_id = invoices.company_id AND payments.invoice_id = invoices.id`,
    )
    .orderBy(payments.id),
)

/** The payments of an order, by id; null where it does not exist. */
export async function findPayments({ db, companyId }: CompanyContext, orderId: number) {
  const [rows] = await db.read([ofOrder({ companyId, orderId })])
  return rows.length === 0 ? null : rows.flatMap(({ payment }) => payment ?? [])
}

const deletion = prepareNamed((p: OnePayment) => {
  const isAllowed = hasPayment(p)
  return {
    order: changeOrder(p, isAllowed),
    event: accountingEvent(p, 'update', sql`${p.orderId}`, isAllowed),
    audit: auditEntry(p, 'payment.delete', sql`${p.paymentId}`, isAllowed),
    // Before the deletion, so that it still has the payment.
    result: resultStatement(p, paymentJson(p, sql`${p.paymentId}`)),
    payment: orm.delete(payments).where(sql`${isPayment(p)} AND ${isLive(p)}`),
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
