import * as z from 'zod/mini'
import { EVENT_TYPES } from '../../../delivery/webhooks/event-types.ts'
import { changesOf, component, type Documentation, dateTime, id, oneLine } from '../../../kernel/api/contract.ts'
import { adminContracts, anyCompany, count, listOf } from '../fields.ts'

const endpointId = z.string().check(z.regex(/^we_[0-9a-f]{18}$/, 'must be an id such as we_0123456789abcdef01'))

const eventType = z.enum(EVENT_TYPES)
const time = z.iso.datetime({ offset: true })

const fields = {
  id: endpointId,
  company_id: id,
  url: z.string(),
  event_types: z.array(eventType),
  enabled: z.boolean(),
  disabled_reason: z.nullable(z.string()).check(z.describe('Why the service disabled it; null where a caller did.')),
  replaying: z.boolean().check(z.describe('Whether changes of a time span are yet to be delivered again.')),
  behind: count.check(z.describe('How many changes of the company it is behind.')),
  waiting: count.check(z.describe('How many others failed, or wait behind such a one. At most 1,000 are counted.')),
  removed_changes: count.check(
    z.describe('How many of both are no longer kept. They are not delivered: read the lists again.'),
  ),
  created_at: dateTime,
  updated_at: dateTime,
}

const endpoint = component('WebhookEndpoint', 'An address to which the changes of a company are delivered.', fields)
const endpointWithSecret = component('WebhookEndpointWithSecret', 'An endpoint, with its new signing secret.', {
  ...fields,
  secret: z.string().check(z.regex(/^whsec_[\w+/]{43}=$/), z.describe('Sent once, and stored encrypted.')),
})

/** The limit of every address, by `kernel/http/outbound.ts`. */
const URL_MAX_LENGTH = 2_048

const url = oneLine(URL_MAX_LENGTH).check(
  z.describe('An https address whose host has public addresses only; in development also http on a loopback address.'),
)
const eventTypes = z.array(eventType).check(z.minLength(1), z.maxLength(EVENT_TYPES.length))

const define = adminContracts('Webhooks', 'developer', { endpoint_id: endpointId.check(z.describe('The endpoint.')) })

export const listAllWebhooks = define('listAllWebhooks', 'GET /webhooks', {
  role: 'operator',
  ...listOf(endpoint, anyCompany(endpointId)),
})

export const listWebhooks = define('listWebhooks', 'GET /companies/{company_id}/webhooks', listOf(endpoint, {}))

export const createWebhook = define('createWebhook', 'POST /companies/{company_id}/webhooks', {
  body: component('WebhookInput', 'An endpoint to create.', {
    url,
    event_types: z.optional(eventTypes).check(z.describe('By default all.')),
  }),
  response: endpointWithSecret,
  errors: ['conflict'],
})

export const readWebhook = define('readWebhook', 'GET /companies/{company_id}/webhooks/{endpoint_id}', {
  response: endpoint,
})

export const updateWebhook = define('updateWebhook', 'PATCH /companies/{company_id}/webhooks/{endpoint_id}', {
  body: changesOf('WebhookChange', 'The fields to change.', {
    url: z.optional(url),
    event_types: z.optional(eventTypes),
    enabled: z.optional(z.boolean()),
  }),
  response: endpoint,
})

export const deleteWebhook = define('deleteWebhook', 'DELETE /companies/{company_id}/webhooks/{endpoint_id}', {
  response: component('DeletedWebhook', 'The endpoint that was deleted.', {
    id: endpointId,
    url: z.string(),
    deleted: z.literal(true),
  }),
})

export const rotateWebhookSecret = define(
  'rotateWebhookSecret',
  'POST /companies/{company_id}/webhooks/{endpoint_id}/rotate-secret',
  { response: endpointWithSecret, errors: ['conflict'] },
)

export const replayWebhook = define('replayWebhook', 'POST /companies/{company_id}/webhooks/{endpoint_id}/replay', {
  body: component('WebhookReplay', 'A time span whose changes are delivered again.', {
    from: time.check(z.describe('The first moment of the span.')),
    to: time.check(z.describe('The moment at which it has ended.')),
  }),
  response: endpoint,
  errors: ['conflict'],
})

const delivery = component('WebhookDelivery', 'A change whose delivery failed, or that waits behind such a one.', {
  sequence: id.check(z.describe('Of the change, ascending in the company.')),
  event_type: z.nullable(eventType).check(z.describe('Null of a change that is no longer kept.')),
  entity_id: z.string().check(z.describe('The client, order or email thread.')),
  attempts: count.check(z.describe('That failed.')),
  first_attempt_at: z.nullable(dateTime),
  next_attempt_at: z.nullable(dateTime).check(z.describe('Null of a change that waits behind another.')),
  last_error: z.nullable(z.string()),
})

export const listWebhookDeliveries = define(
  'listWebhookDeliveries',
  'GET /companies/{company_id}/webhooks/{endpoint_id}/deliveries',
  listOf(delivery, {}),
)

const sampleEndpoint = { endpoint_id: 'we_3f9c2a7d51e08b46c0' }

export const published = {
  tags: {
    Webhooks:
      'The addresses to which the changes of a company are delivered, signed by the Standard Webhooks convention.',
  },
  document: (): Record<string, Documentation> => ({
    listAllWebhooks: {
      summary: 'List webhook endpoints of all companies',
      description: 'By database, then by company, then oldest first.',
      example: { query: { id: sampleEndpoint.endpoint_id } },
    },
    listWebhooks: {
      summary: 'List webhook endpoints',
      description: 'Those of the company, oldest first.',
    },
    createWebhook: {
      summary: 'Create a webhook endpoint',
      description:
        'What changes from now on is delivered to it; the first change up to 5 minutes late. The signing secret is in this response only. A company has at most 10 endpoints. At most 10 messages a second go to one host, over all endpoints of the company. An address at which the first 20 attempts fail is disabled with a reason.',
      example: { body: { url: 'https://hooks.ridgeline.example/crm' } },
    },
    readWebhook: {
      summary: 'Read a webhook endpoint',
      description: 'How far it is behind, and why the service disabled it if it did.',
      example: { params: sampleEndpoint },
    },
    updateWebhook: {
      summary: 'Change a webhook endpoint',
      description:
        'An endpoint that is enabled again goes on where it stopped, apart from its `removed_changes`. What waits for a retry is delivered at once when the endpoint is enabled or has a new address.',
      example: { params: sampleEndpoint, body: { enabled: true } },
    },
    deleteWebhook: {
      summary: 'Delete a webhook endpoint',
      description: 'What waits to be delivered to it is deleted too.',
      example: { params: sampleEndpoint },
    },
    rotateWebhookSecret: {
      summary: 'Replace a signing secret',
      description:
        'The present secret also signs for 24 hours; of several rotations in that time, the last three secrets do. The new one is in this response only. 409 where the secret was replaced meanwhile: send the request again.',
      example: { params: sampleEndpoint },
    },
    replayWebhook: {
      summary: 'Deliver a time span again',
      description:
        'The changes of the span that the endpoint was already sent are delivered again before new ones, with the same ids. Of a disabled endpoint, once it is enabled. While a replay is under way another one is refused with 409, and so is a span without a change that is kept and that the endpoint was already sent. Changes are kept for 31 days.',
      example: { params: sampleEndpoint, body: { from: '2026-03-01T00:00:00Z', to: '2026-03-02T00:00:00Z' } },
    },
    listWebhookDeliveries: {
      summary: 'List failed deliveries',
      description: 'The changes whose delivery failed, and those that wait behind them, in the order of the changes.',
      example: { params: sampleEndpoint },
    },
  }),
}
