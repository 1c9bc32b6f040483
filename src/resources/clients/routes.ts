import { type Input, parseId, withIsoTimes } from '../../kernel/api/contract.ts'
import { operation, route } from '../../kernel/api/endpoint.ts'
import { openPage } from '../../kernel/api/paging.ts'
import { fold } from '../../kernel/db/columns.ts'
import { found, notFound } from '../../kernel/http/errors.ts'
import * as contract from './contract.ts'
import { type ClientRow, changeOf, creationOf, findClient, listClients, replacementOf } from './queries.ts'

/** The changes of clients, for routes of their own and for batches. */
export const operations = [
  operation(contract.createClient, ({ body }, context) => creationOf(context, body), reply),
  operation(contract.updateClient, (input, context) => changeOf(context, keyOf(input), input.body), reply),
  operation(contract.deleteClient, (input, context) => changeOf(context, keyOf(input), { deleted: true }), reply),
  operation(contract.putClient, ({ params, body }, context) => replacementOf(context, params.external_id, body), reply),
]

export const routes = [
  route(contract.listClients, async ({ query }, context) => {
    const { start, pagination } = openPage(contract.listClients, query, context)
    const page = await listClients(context, query, start)
    return { data: page.rows.map(({ row }) => withIsoTimes(row)), pagination: await pagination(page) }
  }),
  route(contract.readClient, async (input, context) => reply(await findClient(context, keyOf(input)))),
  route(contract.readClientByExternalId, async ({ params }, context) =>
    reply(await findClient(context, { externalId: params.external_id })),
  ),
  ...operations,
]

function reply(row: ClientRow | undefined) {
  const client = found(row, 'Client')
  return { body: { client: withIsoTimes(client) }, version: client.version }
}

/** The email of the query wins over the path, which has an id or an email. */
function keyOf({ params, query }: Omit<Input<typeof contract.readClient>, 'body'>) {
  if (query.email !== undefined) return { emailKey: fold(query.email) }
  const id = parseId(params.id)
  if (id !== null) return { clientId: id }
  const email = contract.email.safeParse(params.id)
  if (email.success) return { emailKey: fold(email.data) }
  throw notFound('Client')
}
