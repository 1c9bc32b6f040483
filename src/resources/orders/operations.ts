import { operation } from '../../kernel/api/endpoint.ts'
import { notFound, unusable } from '../../kernel/http/errors.ts'
import * as contract from './contract.ts'
import { creationOf, orderReplacementOf } from './creation-queries.ts'
import { type Paid, paymentChangeOf, paymentOf, paymentRemovalOf } from './invoice-queries.ts'
import { presentChange, presentItem, presentOrder, presentPayment } from './present.ts'
import type { OrderRow } from './queries.ts'
import { type Changed, changeOf, deletionOf, replacementOf } from './write-queries.ts'

/** The changes of orders, for routes of their own and for batches. */
export const operations = [
  operation(contract.createOrder, ({ body }, context) => creationOf(context, body), replyWhole),
  operation(contract.updateOrder, ({ params, body }, context) => changeOf(context, params.id, body), replyChanged),
  operation(
    contract.putOrder,
    ({ params, body }, context) => orderReplacementOf(context, params.external_id, body),
    replyChanged,
  ),
  operation(contract.deleteOrder, ({ params }, context) => deletionOf(context, params.id), replyChanged),
  operation(
    contract.putInvoiceItems,
    ({ params, body }, context) => replacementOf(context, params.id, body.items),
    (row) => {
      const { body, version } = replyChanged(row)
      const { invoice, invoice_items } = body
      if (!invoice || !invoice_items) throw unusable('invoice_missing')
      return { body: { invoice, invoice_items }, version }
    },
  ),
  operation(contract.createPayment, ({ params, body }, context) => paymentOf(context, params.id, body), replyPaid),
  operation(
    contract.updatePayment,
    ({ params, body }, context) => paymentChangeOf(context, params.id, params.payment_id, body),
    replyPaid,
  ),
  operation(
    contract.deletePayment,
    ({ params }, context) => paymentRemovalOf(context, params.id, params.payment_id),
    replyPaid,
  ),
]

export function replyWhole(rows: OrderRow[]) {
  const body = presentOrder(rows)
  if (!body) throw notFound('Order')
  return { body, version: body.project.version }
}

function replyChanged(row: Changed | undefined) {
  if (!row) throw notFound('Order')
  const { invoice_items, payments } = row
  const lists = {
    ...(invoice_items && { invoice_items: invoice_items.map(presentItem) }),
    ...(payments && { payments: payments.map(presentPayment) }),
  }
  return { body: { ...presentChange(row), ...lists }, version: row.project.version }
}

function replyPaid({ change, payment }: Paid) {
  const { invoice } = presentChange(change)
  if (!invoice) throw unusable('invoice_missing')
  return { body: { payment: presentPayment(payment), invoice }, version: change.project.version }
}
