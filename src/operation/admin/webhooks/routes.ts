import { randomBytes } from 'node:crypto'
import { EVENT_TYPES, eventTypeOf } from '../../../delivery/webhooks/event-types.ts'
import { openSecrets, rotateSecret, sealSecrets } from '../../../delivery/webhooks/message.ts'
import { conflict, found, invalid, unavailable } from '../../../kernel/http/errors.ts'
import { findProblem, OutboundError } from '../../../kernel/http/outbound.ts'
import type { AdminContext } from '../context.ts'
import { adminList, adminRoute, withTimes } from '../endpoint.ts'
import { listFromEach } from '../queries.ts'
import { findUsed, invalidateCompany, invalidateTokens } from '../tokens/queries.ts'
import * as contract from './contract.ts'
import * as queries from './queries.ts'

const ID_BYTES = 9

export const routes = [
  ...[contract.listAllWebhooks, contract.listWebhooks].map((list) =>
    adminList(list, queries.listEndpoints, present, (row) => [row.company_id, row.created_at, row.id], listFromEach),
  ),

  adminRoute(contract.createWebhook, async ({ body }, context) => {
    const { event_types = EVENT_TYPES } = body
    const id = `we_${randomBytes(ID_BYTES).toString('hex')}`
    const url = await readUrl(body.url, context)
    const secrets = rotateSecret(null, context.now)
    const secret = await sealSecrets(context.credentialsKey, context.companyId, id, secrets)
    // Read before: a failure behind the creation would lose the secret.
    const used = await findUsed(context)
    const row = await queries.createEndpoint(context, { id, url, secret, event_types: inOrder(event_types) })
    if (!row) throw conflict(`The company has ${queries.MAX_ENDPOINTS} endpoints: delete one first`)
    await invalidateTokens(context, used)
    return { ...present(row), secret: secrets.secret }
  }),

  adminRoute(contract.readWebhook, async ({ params: { endpoint_id } }, context) => {
    return present(found(await queries.findEndpoint(context, endpoint_id), 'Endpoint'))
  }),

  adminRoute(contract.updateWebhook, async ({ params: { endpoint_id }, body }, context) => {
    const { url, event_types, enabled } = body
    // Read the endpoint first: a missing one needs no DNS look-up.
    found(await queries.findEndpoint(context, endpoint_id), 'Endpoint')
    const change = {
      ...(url !== undefined && { url: await readUrl(url, context) }),
      ...(event_types && { event_types: inOrder(event_types) }),
      ...(enabled !== undefined && { enabled }),
    }
    const row = found(await queries.updateEndpoint(context, endpoint_id, change), 'Endpoint')
    if (enabled) await invalidateCompany(context)
    if (row.enabled) context.deliverWebhooks()
    return present(row)
  }),

  adminRoute(contract.deleteWebhook, async ({ params: { endpoint_id } }, context) => {
    const url = found(await queries.deleteEndpoint(context, endpoint_id), 'Endpoint')
    return { id: endpoint_id, url, deleted: true as const }
  }),

  adminRoute(contract.rotateWebhookSecret, async ({ params: { endpoint_id } }, context) => {
    const { secret: stored } = found(await queries.findEndpoint(context, endpoint_id), 'Endpoint')
    const { companyId, credentialsKey, now } = context
    // Secrets that cannot be decrypted are replaced without a transition.
    const current = await openSecrets(credentialsKey, companyId, endpoint_id, stored).catch(() => null)
    const secrets = rotateSecret(current, now)
    const sealed = await sealSecrets(credentialsKey, companyId, endpoint_id, secrets)
    const row = await queries.replaceSecret(context, endpoint_id, stored, sealed)
    if (!row) throw conflict('The endpoint was changed meanwhile: retry')
    return { ...present(row), secret: secrets.secret }
  }),

  adminRoute(contract.replayWebhook, async ({ params: { endpoint_id }, body }, context) => {
    const [from, to] = [Date.parse(body.from), Date.parse(body.to)]
    if (from >= to) throw invalid([{ path: 'to', message: 'must be after `from`' }])
    const { isStarted, endpoint } = found(await queries.startReplay(context, endpoint_id, from, to), 'Endpoint')
    if (!isStarted && endpoint.replaying) {
      throw conflict('A replay of the endpoint is under way: wait until `replaying` is false')
    }
    if (!isStarted) throw conflict('No change from then is kept that the endpoint was already sent')
    if (endpoint.enabled) context.deliverWebhooks()
    return present(endpoint)
  }),

  adminList(
    contract.listWebhookDeliveries,
    async (context, { params: { endpoint_id }, ...page }) =>
      found(await queries.listDeliveries(context, endpoint_id, page), 'Endpoint'),
    ({ type, operation, ...row }) => ({ ...withTimes(row), event_type: operation && eventTypeOf(type, operation) }),
    ({ sequence }) => [sequence],
  ),
]

/** Normalizes an address and checks it like a delivery. @throws ApiError 400; 503 if the resolver does not respond */
async function readUrl(text: string, { addresses }: AdminContext): Promise<string> {
  // Check the stored form, since escapes make it longer.
  const url = URL.parse(text)?.href ?? text
  const problem = await findProblem(url, addresses()).catch((error: unknown) => {
    if (!(error instanceof OutboundError)) throw error
    const message = 'The address cannot be checked, since the resolver does not respond: retry'
    throw unavailable(5, { message, cause: error.message })
  })
  if (problem !== null) throw invalid([{ path: 'url', message: problem }])
  return url
}

/** Removes duplicates and sorts in the documented order. */
function inOrder(eventTypes: readonly string[]) {
  return EVENT_TYPES.filter((type) => eventTypes.includes(type))
}

function present({ secret: _, event_types, ...row }: queries.EndpointRow) {
  return { ...withTimes(row), event_types: inOrder(event_types) }
}
