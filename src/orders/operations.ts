import { operation } from '../http/endpoint.ts'
import { notFound } from '../http/errors.ts'
import * as contract from './contract.ts'
import { presentChange, presentOrder } from './present.ts'
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
