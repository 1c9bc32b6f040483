import * as z from 'zod/mini'
import { EVENT_TYPES } from '../../../delivery/webhooks/message.ts'
import { component, dateTime, defineContract, id, idText, namesAField, text } from '../../../kernel/api/contract.ts'
import { MAX_URL_LENGTH } from '../../../kernel/http/address.ts'
import { adminPage, adminPageOf } from '../paging.ts'

const company_id = idText.check(z.describe('The company.'))
const endpointId = z.string().check(z.regex(/^we_[0-9a-f]{18}$/))
const ofCompany = z.strictObject({ company_id })
const ofEndpoint = z.strictObject({ company_id, endpoint_id: endpointId.check(z.describe('The endpoint.')) })

const count = z.int().check(z.nonnegative())
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
  removed_changes: count.check(
    z.describe('How many of those are no longer kept. They are not delivered: read the lists again.'),
  ),
  created_at: dateTime,
  updated_at: dateTime,
}

const endpoint = component('WebhookEndpoint', 'An address to which the changes of a company are delivered.', fields)
const endpointWithSecret = component('WebhookEndpointWithSecret', 'An endpoint, with its new signing secret.', {
  ...fields,
  secret: z.string().check(z.regex(/^whsec_[\w+/]{43}=$/), z.describe('Sent once, and stored encrypted.')),
})

const url = text(1, MAX_URL_LENGTH).check(
  z.describe('An https address whose host has public addresses only; in development also http on a loopback address.'),
)
const eventTypes = z.array(eventType).check(z.minLength(1), z.maxLength(EVENT_TYPES.length))

const common = { tag: 'Webhooks', permission: null, role: 'developer', errors: [] } as const

export const listAllWebhooks = defineContract({
  ...common,
  method: 'GET',
  path: '/webhooks',
  operationId: 'listAllWebhooks',
  role: 'operator',
  query: z.strictObject({
    ...adminPage,
    company_id: z.optional(idText).check(z.describe('Only those of this company.')),
    id: z.optional(endpointId).check(z.describe('Only the one with this id.')),
  }),
  response: adminPageOf(endpoint),
})

export const listWebhooks = defineContract({
  ...common,
  method: 'GET',
  path: '/companies/{company_id}/webhooks',
  operationId: 'listWebhooks',
  params: ofCompany,
  query: z.strictObject(adminPage),
  response: adminPageOf(endpoint),
})

export const createWebhook = defineContract({
  ...common,
  method: 'POST',
  path: '/companies/{company_id}/webhooks',
  operationId: 'createWebhook',
  params: ofCompany,
  body: component('WebhookInput', 'An endpoint to create.', {
    url,
    event_types: z.optional(eventTypes).check(z.describe('By default all.')),
  }),
  response: endpointWithSecret,
  errors: ['conflict'],
})

export const readWebhook = defineContract({
  ...common,
  method: 'GET',
  path: '/companies/{company_id}/webhooks/{endpoint_id}',
  operationId: 'readWebhook',
  params: ofEndpoint,
  response: endpoint,
})

export const updateWebhook = defineContract({
  ...common,
  method: 'PATCH',
  path: '/companies/{company_id}/webhooks/{endpoint_id}',
  operationId: 'updateWebhook',
  params: ofEndpoint,
  body: z
    .strictObject({ url: z.optional(url), event_types: z.optional(eventTypes), enabled: z.optional(z.boolean()) })
    .check(namesAField, z.meta({ id: 'WebhookChange', description: 'The fields to change.' })),
  response: endpoint,
})

export const deleteWebhook = defineContract({
  ...common,
  method: 'DELETE',
  path: '/companies/{company_id}/webhooks/{endpoint_id}',
  operationId: 'deleteWebhook',
  params: ofEndpoint,
  response: component('DeletedWebhook', 'The endpoint that was deleted.', {
    id: endpointId,
    url: z.string(),
    deleted: z.literal(true),
  }),
})

export const rotateWebhookSecret = defineContract({
  ...common,
  method: 'POST',
  path: '/companies/{company_id}/webhooks/{endpoint_id}/rotate-secret',
  operationId: 'rotateWebhookSecret',
  params: ofEndpoint,
  response: endpointWithSecret,
  errors: ['conflict'],
})

export const replayWebhook = defineContract({
  ...common,
  method: 'POST',
  path: '/companies/{company_id}/webhooks/{endpoint_id}/replay',
  operationId: 'replayWebhook',
  params: ofEndpoint,
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

export const listWebhookDeliveries = defineContract({
  ...common,
  method: 'GET',
  path: '/companies/{company_id}/webhooks/{endpoint_id}/deliveries',
  operationId: 'listWebhookDeliveries',
  params: ofEndpoint,
  query: z.strictObject(adminPage),
  response: adminPageOf(delivery),
})

export const endpoints = [
  listAllWebhooks,
  listWebhooks,
  createWebhook,
  readWebhook,
  updateWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  replayWebhook,
  listWebhookDeliveries,
]
