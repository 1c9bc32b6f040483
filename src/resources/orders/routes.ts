import { route, routeOf } from '../../kernel/api/endpoint.ts'
import { openPage } from '../../kernel/api/paging.ts'
import { found, invalid } from '../../kernel/http/errors.ts'
import * as contract from './contract.ts'
import { listOrders } from './list-queries.ts'
import { operations, replyWhole } from './operations.ts'
import { ELEMENTS_MAX } from './parts-sql.ts'
import { presentListed, presentPayment } from './present.ts'
import { findOrder, findPayments, findStatuses, findTaxes } from './queries.ts'

/** Behind a cursor a page may end early; a numbered one may not, or the next number would leave orders out. */
const TOO_MANY = `gives orders with more than ${ELEMENTS_MAX} elements in their lists: send less, or follow \`next_cursor\` without \`page\``

export const routes = [
  route(contract.listOrders, async ({ query }, context, extras) => {
    const { start, pagination } = openPage(contract.listOrders, query, context, extras)
    const page = await listOrders(context, query, start)
    if (page.isCut && query.page !== undefined) throw invalid([{ path: 'per_page', message: TOO_MANY }])
    return { data: page.rows.map((order) => presentListed(order, query.expand)), pagination: pagination(page) }
  }),
  route(contract.readOrder, async ({ params, query }, context, extras) => {
    const { body, version } = replyWhole(await findOrder(context, params.id, query.deleted === 'include'))
    extras.version = version
    return body
  }),
  route(contract.listOrderStatuses, async (_input, context) => ({ data: await findStatuses(context) })),
  route(contract.listTaxes, async (_input, context) => ({ data: await findTaxes(context) })),
  route(contract.listPayments, async ({ params }, context) => {
    return { data: found(await findPayments(context, params.id), 'Order').map(presentPayment) }
  }),
  ...operations.map(routeOf),
]
