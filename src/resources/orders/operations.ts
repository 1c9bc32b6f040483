import { operation } from '../../kernel/api/endpoint.ts'
import { notFound, unusable } from '../../kernel/http/errors.ts'
import * as contract from './contract.ts'
import * as invoices from './invoice-contract.ts'
import { paymentOf, paymentRemovalOf, replacementOf } from './invoice-queries.ts'
import { presentChange, presentItem, presentOrder, presentPayment } from './present.ts'
import type { ChangedRow, OrderRow } from './queries.ts'
import { changeOf, creationOf, deletionOf } from './write-queries.ts'

/** The changes of orders, for routes of their own and for batches. */
export const operations = [
  operation(
    contract.createOrder,
    ({ body }, context) => creationOf(context, body),
    (row) => replyWhole([row]),
  ),
  operation(contract.updateOrder, ({ params, body }, context) => changeOf(context, params.id, body), replyChanged),
  operation(contract.deleteOrder, ({ params }, context) => deletionOf(context, params.id), replyChanged),
  operation(
    invoices.putInvoiceItems,
    ({ params, body }, context) => replacementOf(context, params.id, body.items),
    ({ change, items }) => replyInvoice(change, { invoice_items: items.map(presentItem) }),
  ),
  operation(
    invoices.createPayment,
    ({ params, body }, context) => paymentOf(context, params.id, body),
    ({ change, payment }) => replyInvoice(change, { payment: presentPayment(payment) }),
  ),
  operation(
    invoices.deletePayment,
    ({ params }, context) => paymentRemovalOf(context, params.id, params.payment_id),
    ({ change, payment }) => replyInvoice(change, { payment: presentPayment(payment) }),
  ),
]

export function replyWhole(rows: OrderRow[]) {
  const body = presentOrder(rows)
  if (!body) throw notFound('Order')
  return { body, version: body.project.version }
}

function replyChanged(row: ChangedRow | undefined) {
  if (!row) throw notFound('Order')
  return { body: presentChange(row), version: row.project.version }
}

function replyInvoice<T>(change: ChangedRow, part: T) {
  const { invoice } = presentChange(change)
  if (!invoice) throw unusable('invoice_missing')
  return { body: { ...part, invoice }, version: change.project.version }
}
