import { parseId } from '../http/contract.ts'
import { route } from '../http/endpoint.ts'
import { notFound } from '../http/errors.ts'
import * as contract from './contract.ts'
import { listClients } from './list-queries.ts'
import { presentClient } from './present.ts'
import * as queries from './queries.ts'

export const routes = [
  route(contract.listClients, async ({ query: { q, ...page } }, context) => {
    const { rows, total } = await listClients(context, page, q?.trim() ?? '')
    return { data: rows.map(presentClient), pagination: { page: page.page, per_page: page.per_page, total } }
  }),

  route(contract.createClient, async ({ body }, context) => ({
    client: presentClient(await queries.createClient(context, body)),
  })),

  route(contract.readClient, async ({ params, query }, { db, companyId }) =>
    one(await queries.findClient(db, companyId, keyOf(params.id, query.email))),
  ),

  route(contract.updateClient, async ({ params, query, body }, context) =>
    one(await queries.updateClient(context, keyOf(params.id, query.email), body)),
  ),
]

function one(row: Parameters<typeof presentClient>[0] | undefined) {
  if (!row) throw notFound('Client')
  return { client: presentClient(row) }
}

/** The query's email names a client before the path does, by id or by email; anything else can be no client. */
function keyOf(segment: string, email: string | undefined): queries.ClientKey {
  if (email !== undefined) return { email }
  const id = parseId(segment)
  if (id !== null) return { id }
  if (segment.includes('@')) return { email: segment.trim() }
  throw notFound('Client')
}
