import { pagination, withIsoTimes } from '../http/contract.ts'
import { route, routeOf } from '../http/endpoint.ts'
import * as contract from './contract.ts'
import { listOrders } from './list-queries.ts'
import { operations, replyWhole } from './operations.ts'
import { findOrder, findStatuses, findTaxes } from './queries.ts'

export const routes = [
  route(contract.listOrders, async ({ query }, context) => {
    const { rows, total } = await listOrders(context, query)
    return { data: rows.map(withIsoTimes), pagination: pagination(query, total) }
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
