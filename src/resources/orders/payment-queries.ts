import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepareNamed } from '../../kernel/db/client.ts'
import { assignments, COLUMNS, insertRow, jsonRow, type RowOf } from '../../kernel/db/columns.ts'
import { type Actor, type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { accountingEvent } from '../../kernel/db/outbox.ts'
import { failWhen, versionsOf } from '../../kernel/db/refusals.ts'
import { companies, payments } from '../../kernel/db/schema.ts'
import { errorFor, found } from '../../kernel/http/errors.ts'
import { LIST_MAX, LISTS_LIMIT_BYTES, type PaymentFields } from './bodies.ts'
import type { OrderRow } from './parts-sql.ts'
import { toHundredths } from './totals.ts'
import { type ChangedJson, decodeChanged } from './write-queries.ts'
import type { PAYMENTS } from './write-sql.ts'
import { changedJson, changedOrder, hasLiveOrder, isLiveInvoice, isLiveOrder, versionGuard } from './write-sql.ts'

type Change = Placeholders<Actor | 'orderId', KeyName | keyof typeof PAYMENTS.columns | 'paymentId' | 'versions'>

const PAYMENT = jsonRow(COLUMNS.payments)

/** A change of a payment raises the version of the order. Without `paymentId` the payment is a new one. */
const paymentWrite = (action: 'create' | 'update' | 'delete') =>
  prepareNamed((p: Change) => {
    const { companyId, orderId } = p
    const invoice = sql`(SELECT id FROM invoices WHERE ${isLiveInvoice(p)})`
    const id = p.paymentId ?? sql`(SELECT last_payment_id FROM companies WHERE id = ${companyId})`
    const isPayment = sql`company_id = ${companyId} AND invoice_id = ${invoice} AND id = ${id}`
    const isLivePayment = sql`${isPayment} AND ${hasLiveOrder(p)}`
    const isAllowed = p.paymentId
      ? sql`${hasLiveOrder(p)} AND EXISTS (SELECT 1 FROM payments WHERE ${isPayment})`
      : sql`${hasLiveOrder(p)} AND EXISTS ${invoice}`
    const values = { ...p, company_id: companyId, id: sql`last_payment_id + 1`, invoice_id: invoice }
    const ofCompany = sql`FROM ${companies} WHERE ${companies.id} = ${companyId} AND ${isAllowed}`
    const payment = {
      create: () => insertRow(payments, values, ofCompany),
      update: () => orm.update(payments).set(assignments(payments, p)).where(isLivePayment),
      delete: () => orm.delete(payments).where(isLivePayment),
    }[action]()
    const others = {
      order: changedOrder(p, sql`${isLiveOrder(p)} AND ${isAllowed}`),
      event: accountingEvent(p, 'update', sql`${orderId}`, isAllowed),
      audit: auditEntry(p, `payment.${action}`, sql`${id}`, isAllowed),
      result: resultStatement(
        p,
        sql`json_array(${changedJson(p)}, json((SELECT ${PAYMENT.row} FROM payments WHERE ${isPayment})))`,
      ),
    }
    // A deletion comes behind the result, which has the payment.
    if (action === 'delete') return { ...versionGuard(p), ...others, payment }
    // A note that gets shorter is not refused.
    const bytesIf = (isCounted: SQL) => sql`coalesce(sum(octet_length(note)) FILTER (WHERE ${isCounted}), 0)`
    const isOver = sql`${isLiveOrder(p)} AND (SELECT ${p.paymentId ? sql`0` : sql`count(*) >= ${LIST_MAX}`}
        OR octet_length(${p.note}) > ${bytesIf(sql`id IS ${p.paymentId ?? sql`NULL`}`)}
        AND octet_length(${p.note}) + ${bytesIf(sql`id IS NOT ${p.paymentId ?? sql`NULL`}`)} > ${LISTS_LIMIT_BYTES}
      FROM payments WHERE company_id = ${companyId} AND invoice_id = ${invoice})`
    const limit = failWhen(sql`version IS NOT NULL`, sql`orders`, isOver, 'payments_limit')
    return { ...versionGuard(p), ...(p.note && { limit }), payment, ...others }
  })
const writes = { create: paymentWrite('create'), update: paymentWrite('update'), delete: paymentWrite('delete') }

type Sent = { params: { id: number; payment_id?: number }; body?: PaymentFields | undefined }
export type Paid = { order: OrderRow; payment: RowOf<typeof COLUMNS.payments> }

/** A write of an order's payment. Reading its result throws an ApiError: 404, or 409 without an invoice or over the limit. */
export function paymentOf(
  context: RequestContext,
  action: keyof typeof writes,
  { params: { id: orderId, payment_id: paymentId }, body }: Sent,
): Write<Paid> {
  const { amount, ...fields } = body ?? {}
  const versions = versionsOf(context.ifMatch)
  const amount_cents = amount === undefined ? undefined : toHundredths(amount)
  // A new payment is counted even without a note.
  const given = action === 'create' ? { note: null, ...fields } : fields
  return {
    statements: writes[action]({ ...writerOf(context), ...given, amount_cents, orderId, paymentId, versions }),
    isIdempotent: action === 'update' && versions === undefined,
    isDeletion: action === 'delete',
    read: (result) => {
      const [changed, columns]: [ChangedJson, unknown[] | null] = JSON.parse(result ?? '[null,null]')
      const order = found(decodeChanged(changed)?.order, 'Order')
      if (!order.invoice) throw errorFor('invoice_missing')
      const payment = PAYMENT.decode(found(columns, 'Payment'))
      // The result of a deletion still has the payment.
      const removed = action === 'delete' ? [-payment.amount_cents] : []
      return { order: { ...order, paymentsCents: [...order.paymentsCents, ...removed] }, payment }
    },
  }
}
