import { route, routeOf } from '../../kernel/api/endpoint.ts'
import { openPage } from '../../kernel/api/paging.ts'
import * as contract from './contract.ts'
import { listOrders } from './list-queries.ts'
import { operations, replyWhole } from './operations.ts'
import { presentListed } from './present.ts'
import { findOrder, findStatuses, findTaxes } from './queries.ts'

export const routes = [
  route(contract.listOrders, async ({ query }, context, extras) => {
    const { start, pagination } = openPage(contract.listOrders, query, context, extras)
    const page = await listOrders(context, query, start)
    return { data: page.rows.map((row) => presentListed(row, query.expand)), pagination: pagination(page) }
  }),
  route(contract.readOrder, async ({ params }, context, extras) => {
    const { body, version } = replyWhole(await findOrder(context, params.id))
    extras.version = version
    return body
  }),
  route(contract.listOrderStatuses, async (_input, context) => ({ data: await findStatuses(context) })),
  route(contract.listTaxes, async (_input, context) => ({ data: await findTaxes(context) })),
  ...operations.map(routeOf),
]
