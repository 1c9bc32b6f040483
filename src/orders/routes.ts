import { withIsoTimes } from '../http/contract.ts'
import { route } from '../http/endpoint.ts'
import { notFound } from '../http/errors.ts'
import * as contract from './contract.ts'
import { listOrders } from './list-queries.ts'
import { presentChange, presentOrder } from './present.ts'
import { findOrder } from './queries.ts'
import { createOrder, deleteOrder, updateOrder } from './write-queries.ts'

export const routes = [
  route(contract.listOrders, async ({ query }, context) => {
    const { rows, total } = await listOrders(context, query)
    return { data: rows.map(withIsoTimes), pagination: { page: query.page, per_page: query.per_page, total } }
  }),
  route(contract.createOrder, async ({ body }, context) => found(presentOrder(await createOrder(context, body)))),
  route(contract.readOrder, async ({ params }, context) => found(presentOrder(await findOrder(context, params.id)))),
  route(contract.updateOrder, async ({ params, body }, context) =>
    presentChange(found(await updateOrder(context, params.id, body))),
  ),
  route(contract.deleteOrder, async ({ params }, context) =>
    presentChange(found(await deleteOrder(context, params.id))),
  ),
]

function found<T>(rows: T | undefined): T {
  if (!rows) throw notFound('Order')
  return rows
}
