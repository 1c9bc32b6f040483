import { runWrite } from '../db/idempotency.ts'
import { type Input, parseId, withIsoTimes } from '../http/contract.ts'
import { type Extras, route } from '../http/endpoint.ts'
import { notFound } from '../http/errors.ts'
import { openPage } from '../http/paging.ts'
import * as contract from './contract.ts'
import { listClients } from './list-queries.ts'
import { type ClientKey, type ClientRow, changeOf, creationOf, findClient } from './queries.ts'

export const routes = [
  route(contract.listClients, async ({ query }, context, extras) => {
    const { start, pagination } = openPage(contract.listClients, query, context)
    const page = await listClients(context, query, start)
    return { data: page.rows.map(withIsoTimes), pagination: pagination(page, extras) }
  }),
  route(contract.createClient, async ({ body }, context, extras) =>
    one(await runWrite(context, creationOf(context, body)), extras),
  ),
  route(contract.readClient, async (input, context, extras) => one(await findClient(context, keyOf(input)), extras)),
  route(contract.updateClient, async (input, context, extras) =>
    one(await runWrite(context, changeOf(context, keyOf(input), input.body)), extras),
  ),
]

function one(row: ClientRow | undefined, extras: Extras) {
  if (!row) throw notFound('Client')
  extras.version = row.version
  return { client: withIsoTimes(row) }
}

/** The email of the query wins over the path, which has an id or an email. */
function keyOf({ params, query }: Omit<Input<typeof contract.readClient>, 'body'>): ClientKey {
  if (query.email !== undefined) return { email: query.email }
  const id = parseId(params.id)
  if (id !== null) return { id }
  if (params.id.includes('@')) return { email: params.id.trim() }
  throw notFound('Client')
}
