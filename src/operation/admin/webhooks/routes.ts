import { randomBytes } from 'node:crypto'
import { startWebhooks } from '../../../delivery/webhooks/delivery.ts'
import {
  credentialsKind,
  EVENT_TYPES,
  eventTypeOf,
  readSecrets,
  rotateSecret,
} from '../../../delivery/webhooks/message.ts'
import { isoTimeOrNull, withIsoTimes } from '../../../kernel/api/contract.ts'
import { decryptCredentials, encryptCredentials } from '../../../kernel/gate/credentials.ts'
import { addressPolicy, findProblem } from '../../../kernel/http/address.ts'
import { ApiError, invalid, notFound } from '../../../kernel/http/errors.ts'
import { OutboundError } from '../../../kernel/http/outbound.ts'
import type { AdminContext } from '../context.ts'
import { adminRoute } from '../endpoint.ts'
import { openAdminPage } from '../paging.ts'
import { listFromEach } from '../queries.ts'
import * as contract from './contract.ts'
import * as queries from './queries.ts'

const ID_BYTES = 9

export const routes = [
  adminRoute(contract.listAllWebhooks, async ({ query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listAllWebhooks, query, context)
    const { company_id, id } = query
    const filters = { ...(company_id !== undefined && { company_id }), ...(id !== undefined && { id }) }
    const rows = await listFromEach(context, after, limit, (each, at, rest) =>
      queries.listEndpoints(each, { ...filters, after: placeOf(at), limit: rest }),
    )
    return page(
      rows,
      ({ row }) => present(row),
      ({ row, database }) => [...place(row), database],
    )
  }),

  adminRoute(contract.listWebhooks, async ({ query }, context) => {
    const { after, limit, page } = openAdminPage(contract.listWebhooks, query, context)
    const rows = await queries.listEndpoints(context, { after: placeOf(after), limit })
    return page(rows, present, place)
  }),

  adminRoute(contract.createWebhook, async ({ body }, context) => {
    const { event_types = EVENT_TYPES } = body
    const id = `we_${randomBytes(ID_BYTES).toString('hex')}`
    const url = await readUrl(body.url, context)
    const secrets = rotateSecret(null, context.now)
    const row = await queries.createEndpoint(context, {
      id,
      url,
      secret: await sealSecrets(context, id, secrets),
      event_types: inOrder(event_types),
    })
    if (!row) {
      const message = `The company has ${queries.MAX_ENDPOINTS} endpoints: delete one first`
      throw new ApiError('conflict', { message })
    }
    return { ...present(row), secret: secrets.secret }
  }),

  adminRoute(contract.readWebhook, async ({ params: { endpoint_id } }, context) =>
    present(await readEndpoint(context, endpoint_id)),
  ),

  adminRoute(contract.updateWebhook, async ({ params: { endpoint_id }, body }, context) => {
    const { url, event_types, enabled } = body
    // Read the endpoint first: a missing one needs no DNS look-up.
    await readEndpoint(context, endpoint_id)
    const row = await queries.updateEndpoint(context, endpoint_id, {
      ...(url !== undefined && { url: await readUrl(url, context) }),
      ...(event_types && { event_types: inOrder(event_types) }),
      ...(enabled !== undefined && { enabled }),
    })
    if (!row) throw notFound('Endpoint')
    startDelivery(context, row)
    return present(row)
  }),

  adminRoute(contract.deleteWebhook, async ({ params: { endpoint_id } }, context) => {
    const url = await queries.deleteEndpoint(context, endpoint_id)
    if (url === null) throw notFound('Endpoint')
    return { id: endpoint_id, url, deleted: true as const }
  }),

  adminRoute(contract.rotateWebhookSecret, async ({ params: { endpoint_id } }, context) => {
    const stored = await queries.findSecret(context, endpoint_id)
    if (stored === null) throw notFound('Endpoint')
    const secrets = rotateSecret(await openSecrets(context, endpoint_id, stored), context.now)
    const sealed = await sealSecrets(context, endpoint_id, secrets)
    const row = await queries.replaceSecret(context, endpoint_id, stored, sealed)
    if (!row) throw new ApiError('conflict', { message: 'The endpoint was changed meanwhile: retry' })
    return { ...present(row), secret: secrets.secret }
  }),

  adminRoute(contract.replayWebhook, async ({ params: { endpoint_id }, body }, context) => {
    const [from, to] = [Date.parse(body.from), Date.parse(body.to)]
    if (from >= to) throw invalid([{ path: 'to', message: 'must be after `from`' }])
    await readEndpoint(context, endpoint_id)
    const span = await queries.findSpan(context, endpoint_id, from, to)
    if (!span) {
      throw new ApiError('conflict', { message: 'No change from then is kept that the endpoint was already sent' })
    }
    const row = await queries.startReplay(context, endpoint_id, span)
    if (!row) {
      const message = 'A replay of the endpoint is under way: wait until `replaying` is false'
      throw new ApiError('conflict', { message })
    }
    startDelivery(context, row)
    return present(row)
  }),

  adminRoute(contract.listWebhookDeliveries, async ({ params: { endpoint_id }, query }, context) => {
    const list = { ...query, endpoint_id }
    const { after, limit, page } = openAdminPage(contract.listWebhookDeliveries, list, context)
    const rows = await queries.listDeliveries(context, endpoint_id, Number(after?.[0] ?? 0), limit)
    if (!rows) throw notFound('Endpoint')
    return page(rows, presentDelivery, ({ sequence }) => [sequence])
  }),
]

async function readEndpoint(context: AdminContext, id: string): Promise<queries.EndpointRow> {
  const row = await queries.findEndpoint(context, id)
  if (!row) throw notFound('Endpoint')
  return row
}

function startDelivery({ db, env, waitUntil }: AdminContext, { company_id, enabled }: queries.EndpointRow): void {
  if (enabled) waitUntil(startWebhooks(env, company_id, db.primaryRegion()))
}

/**
 * The normalized address, checked like a delivery's.
 *
 * @throws ApiError 400, or 503 where the resolver does not respond
 */
async function readUrl(text: string, { env }: AdminContext): Promise<string> {
  // Check the stored form, since escapes make it longer.
  const url = URL.parse(text)?.href ?? text
  try {
    const problem = await findProblem(url, addressPolicy(env))
    if (problem !== null) throw invalid([{ path: 'url', message: problem }])
    return url
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error
    throw new ApiError('unavailable', {
      message: 'The address cannot be checked, since the resolver does not respond: retry',
      headers: { 'Retry-After': '5' },
      cause: error.message,
    })
  }
}

type Secrets = ReturnType<typeof readSecrets>

function sealSecrets({ companyId, env }: AdminContext, id: string, secrets: Secrets): Promise<string> {
  const { CREDENTIALS_KEY } = env
  return encryptCredentials(CREDENTIALS_KEY, companyId, credentialsKind(id), secrets)
}

/** Null if the secrets cannot be decrypted; then they are replaced without a transition. */
function openSecrets({ companyId, env }: AdminContext, id: string, stored: string): Promise<Secrets | null> {
  const { CREDENTIALS_KEY } = env
  return decryptCredentials(CREDENTIALS_KEY, companyId, credentialsKind(id), stored)
    .then(readSecrets)
    .catch(() => null)
}

/** Removes duplicates and sorts in the documented order. */
function inOrder(eventTypes: readonly string[]) {
  return EVENT_TYPES.filter((type) => eventTypes.includes(type))
}

function placeOf(after: readonly unknown[] | null): queries.EndpointPlace {
  const [companyId, createdAt, id] = after ?? [0, 0, '']
  return [Number(companyId), Number(createdAt), String(id)]
}

const place = ({ company_id, created_at, id }: queries.EndpointRow) => [company_id, created_at, id]

function present({ event_types, ...row }: queries.EndpointRow) {
  return { ...withIsoTimes(row), event_types: inOrder(event_types) }
}

function presentDelivery({ type, operation, first_attempt_at, next_attempt_at, ...row }: queries.DeliveryRow) {
  return {
    ...row,
    event_type: operation && eventTypeOf(type, operation),
    first_attempt_at: isoTimeOrNull(first_attempt_at),
    next_attempt_at: isoTimeOrNull(next_attempt_at),
  }
}
