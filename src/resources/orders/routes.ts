import { withIsoTimes } from '../../kernel/api/contract.ts'
import { operation, route } from '../../kernel/api/endpoint.ts'
import { openPage } from '../../kernel/api/paging.ts'
import { errorFor, found, invalid } from '../../kernel/http/errors.ts'
import * as contract from './contract.ts'
import { LIMITS, type OrderRow, presentListed, presentOrder, presentParts, presentPayment } from './parts-sql.ts'
import { type Paid, paymentOf } from './payment-queries.ts'
import { findOrder, findPayments, findStatuses, findTaxes, listOrders } from './queries.ts'
import { type Changed, changeOf, creationOf, orderReplacementOf } from './write-queries.ts'

const LINES_ONLY = { action: 'invoice_items.write', itemsName: 'items' }

/** The changes of orders, for routes of their own and for batches. */
export const operations = [
  operation(contract.createOrder, ({ body }, context) => creationOf(context, body), replyWhole),
  operation(contract.updateOrder, ({ params, body }, context) => changeOf(context, params.id, body), replyChanged),
  operation(contract.putOrder, (input, context) => orderReplacementOf(context, input), replyChanged),
  operation(
    contract.deleteOrder,
    ({ params }, context) => changeOf(context, params.id, { deleted: true }),
    replyChanged,
  ),
  operation(
    contract.putInvoiceItems,
    ({ params, body }, context) => changeOf(context, params.id, { invoice_items: body.items }, LINES_ONLY),
    (row) => {
      const { body, version } = replyChanged(row)
      const { invoice, invoice_items } = body
      if (!invoice || !invoice_items) throw errorFor('invoice_missing')
      return { body: { invoice, invoice_items }, version }
    },
  ),
  operation(contract.createPayment, (input, context) => paymentOf(context, 'create', input), replyPaid),
  operation(contract.updatePayment, (input, context) => paymentOf(context, 'update', input), replyPaid),
  operation(contract.deletePayment, (input, context) => paymentOf(context, 'delete', input), replyPaid),
]

/** Behind a cursor a page may end early; a numbered one may not, or the next number would leave orders out. */
const TOO_MANY = `gives orders with more than ${LIMITS.elements} elements in their lists, or ${LIMITS.characters} characters in those of one kind: send less, or follow \`next_cursor\` without \`page\``

export const routes = [
  route(contract.listOrders, async ({ query }, context) => {
    const { start, pagination } = openPage(contract.listOrders, query, context)
    const page = await listOrders(context, query, start)
    if (page.isCut && query.page !== undefined) throw invalid([{ path: 'per_page', message: TOO_MANY }])
    return { data: page.rows.map((order) => presentListed(order, query.expand)), pagination: await pagination(page) }
  }),
  route(contract.readOrder, async ({ params, query }, context) =>
    replyWhole(await findOrder(context, params.id, query.deleted === 'include')),
  ),
  route(contract.listOrderStatuses, async (_input, context) => ({ data: await findStatuses(context) })),
  route(contract.listTaxes, async (_input, context) => ({ data: await findTaxes(context) })),
  route(contract.listPayments, async ({ params }, context) => {
    return { data: found(await findPayments(context, params.id), 'Order').map(presentPayment) }
  }),
  ...operations,
]

function replyWhole(order: OrderRow | undefined) {
  const body = found(order && presentOrder(order), 'Order')
  return { body, version: body.project.version }
}

function replyChanged(changed: Changed | undefined) {
  const { order, sent } = found(changed, 'Order')
  const { invoice = null, ...lists } = presentParts(order, ['invoice', ...sent])
  return { body: { project: withIsoTimes(order.row), invoice, ...lists }, version: order.row.version }
}

function replyPaid({ order, payment }: Paid) {
  const { invoice } = presentParts(order, ['invoice'])
  if (!invoice) throw errorFor('invoice_missing')
  return { body: { payment: presentPayment(payment), invoice }, version: order.row.version }
}
