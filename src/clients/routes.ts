import { type Input, parseId, withIsoTimes } from '../http/contract.ts'
import { route } from '../http/endpoint.ts'
import { notFound } from '../http/errors.ts'
import * as contract from './contract.ts'
import { listClients } from './list-queries.ts'
import { type ClientKey, type ClientRow, createClient, findClient, updateClient } from './queries.ts'

export const routes = [
  route(contract.listClients, async ({ query }, context) => {
    const { rows, total } = await listClients(context, query)
    return { data: rows.map(withIsoTimes), pagination: { page: query.page, per_page: query.per_page, total } }
  }),
  route(contract.createClient, async ({ body }, context) => one(await createClient(context, body))),
  route(contract.readClient, async (input, context) => one(await findClient(context, keyOf(input)))),
  route(contract.updateClient, async (input, context) => one(await updateClient(context, keyOf(input), input.body))),
]

function one(row: ClientRow | undefined) {
  if (!row) throw notFound('Client')
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
