import { runWrite } from '../db/idempotency.ts'
import { type Extras, route } from '../http/endpoint.ts'
import { notFound } from '../http/errors.ts'
import { openPage } from '../http/paging.ts'
import * as contract from './contract.ts'
import { listOrders } from './list-queries.ts'
import { presentChange, presentListed, presentOrder } from './present.ts'
import { type ChangedRow, findOrder, findStatuses, findTaxes, type OrderRow } from './queries.ts'
import { changeOf, creationOf, deletionOf } from './write-queries.ts'

export const routes = [
  route(contract.listOrders, async ({ query }, context, extras) => {
    const { start, pagination } = openPage(contract.listOrders, query, context)
    const page = await listOrders(context, query, start)
    return { data: page.rows.map((row) => presentListed(row, query.expand)), pagination: pagination(page, extras) }
  }),
  route(contract.createOrder, async ({ body }, context, extras) =>
    whole([await runWrite(context, creationOf(context, body))], extras),
  ),
  route(contract.readOrder, async ({ params }, context, extras) => whole(await findOrder(context, params.id), extras)),
  route(contract.updateOrder, async ({ params, body }, context, extras) =>
    changed(await runWrite(context, changeOf(context, params.id, body)), extras),
  ),
  route(contract.deleteOrder, async ({ params }, context, extras) =>
    changed(await runWrite(context, deletionOf(context, params.id)), extras),
  ),
  route(contract.listOrderStatuses, async (_input, context) => ({ data: await findStatuses(context) })),
  route(contract.listTaxes, async (_input, context) => ({ data: await findTaxes(context) })),
]

function whole(rows: OrderRow[], extras: Extras) {
  const order = presentOrder(rows)
  if (!order) throw notFound('Order')
  extras.version = order.project.version
  return order
}

function changed(row: ChangedRow | undefined, extras: Extras) {
  if (!row) throw notFound('Order')
  extras.version = row.project.version
  return presentChange(row)
}
