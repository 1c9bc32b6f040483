import { withIsoTimes } from '../../kernel/api/contract.ts'
import { type Extras, route, routeOf } from '../../kernel/api/endpoint.ts'
import { openPage } from '../../kernel/api/paging.ts'
import * as contract from './contract.ts'
import { listClients } from './list-queries.ts'
import { keyOf, operations, reply } from './operations.ts'
import { type ClientRow, findClient } from './queries.ts'

export const routes = [
  route(contract.listClients, async ({ query }, context, extras) => {
    const { start, pagination } = openPage(contract.listClients, query, context, extras)
    const page = await listClients(context, query, start)
    return { data: page.rows.map(withIsoTimes), pagination: pagination(page) }
  }),
  route(contract.readClient, async (input, context, extras) => one(await findClient(context, keyOf(input)), extras)),
  route(contract.readClientByExternalId, async ({ params }, context, extras) =>
    one(await findClient(context, { externalId: params.external_id }), extras),
  ),
  ...operations.map(routeOf),
]

function one(row: ClientRow | undefined, extras: Extras) {
  const { body, version } = reply(row)
  extras.version = version
  return body
}
