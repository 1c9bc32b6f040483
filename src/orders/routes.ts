import { route } from '../http/endpoint.ts'
import { notFound } from '../http/errors.ts'
import * as contract from './contract.ts'
import { listOrders } from './list-queries.ts'
import { presentChange, presentOrder, presentProject } from './present.ts'
import { findOrder } from './queries.ts'
import { createOrder, deleteOrder, updateOrder } from './write-queries.ts'

export const routes = [
  route(contract.listOrders, async ({ query: { page, per_page, ...filter } }, { db, companyId }) => {
    const { rows, total } = await listOrders(db, companyId, { page, per_page }, filter)
    return { data: rows.map(presentProject), pagination: { page, per_page, total } }
  }),

  route(contract.createOrder, async ({ body }, context) => presentOrder(await createOrder(context, body))),

  route(contract.readOrder, async ({ params }, { db, companyId }) =>
    presentOrder(found(await findOrder(db, companyId, params.id))),
  ),

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
