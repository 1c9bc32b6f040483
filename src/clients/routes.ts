import { parseId, withIsoTimes } from '../http/contract.ts'
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
  route(contract.readClient, async ({ params, query }, context) =>
    one(await findClient(context, keyOf(params.id, query.email))),
  ),
  route(contract.updateClient, async ({ params, query, body }, context) =>
    one(await updateClient(context, keyOf(params.id, query.email), body)),
  ),
]

function one(row: ClientRow | undefined) {
  if (!row) throw notFound('Client')
  return { client: withIsoTimes(row) }
}

/** The email of the query wins over the path, which has an id or an email. */
function keyOf(segment: string, email: string | undefined): ClientKey {
  if (email !== undefined) return { email }
  const id = parseId(segment)
  if (id !== null) return { id }
  if (segment.includes('@')) return { email: segment.trim() }
  throw notFound('Client')
}
