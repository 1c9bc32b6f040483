import * as z from 'zod/mini'
import { accountingId, component, type Documentation, dateTime, id, idText } from '../../../kernel/api/contract.ts'
import { adminContracts, anyCompany, count, listOf } from '../fields.ts'

/** A test compares these with the kinds of a seed file. */
export const KINDS = ['supplier_b', 'supplier_a', 'accounting_sync', 'storage'] as const

export type Kind = (typeof KINDS)[number]

const integration = component('Integration', 'A connection of a company to another system, without its credentials.', {
  kind: z.enum(KINDS),
  enabled: z.boolean(),
  base_url: z.string(),
  settings: z
    .record(z.string(), z.nullable(z.string()))
    .check(z.describe('What else is not secret, such as a bucket.')),
  state: z
    .enum(['connected', 'disabled', 'paused', 'reconnect_needed', 'credentials_unreadable'])
    .check(z.describe('`reconnect_needed`, of accounting only: it no longer accepts the credentials. Put new ones.')),
  reason: z.nullable(z.string()).check(z.describe('Why it is paused or must be connected again.')),
  paused_until: z.nullable(dateTime),
  updated_at: dateTime,
})

const kind = z.enum(KINDS).check(z.describe('The kind of integration.'))
const define = adminContracts('Integrations', 'owner', { kind })

export const listIntegrations = define('listIntegrations', 'GET /companies/{company_id}/integrations', {
  role: 'developer',
  response: z.strictObject({ data: z.array(integration) }),
})

export const putIntegration = define('putIntegration', 'PUT /companies/{company_id}/integrations/{kind}', {
  // The fields depend on the kind: the handler validates them like those of a seed file.
  body: z.looseObject({ credentials: z.optional(z.record(z.string(), z.string())) }).check(
    z.meta({
      id: 'IntegrationInput',
      description:
        'An integration as in a seed file: `enabled`, `credentials`, and `base_url` (of `storage`: `endpoint`, `bucket`, `region`, `addressing`). Credentials that are left out stay as they are, unless an address is of another host: 400.',
    }),
  ),
  response: integration,
  errors: ['conflict'],
})

export const testIntegration = define('testIntegration', 'POST /companies/{company_id}/integrations/{kind}/test', {
  response: component('ConnectionTest', 'What one call to the other system gave.', {
    ok: z.boolean(),
    message: z.string(),
  }),
})

const eventState = z
  .enum(['pending', 'parked', 'dead'])
  .check(z.describe('`pending`: retried automatically; `parked`: waits for a person; `dead`: rejected or given up.'))

const event = component('AccountingEvent', 'A change that is not delivered to the accounting system yet.', {
  id,
  company_id: id,
  order_id: id,
  operation: z.enum(['create', 'update', 'delete']),
  state: eventState,
  attempts: count,
  next_attempt_at: z.nullable(dateTime).check(z.describe('Null where it is not retried by itself.')),
  last_error: z.nullable(z.string()),
  created_at: dateTime,
  updated_at: dateTime,
})

const retried = component('RetriedEvents', 'What is sent again.', {
  retried: count.check(z.describe('How many events.')),
})

const ofState = { state: z.optional(eventState) }
const states = component('EventsToRetry', 'Which events to send again.', {
  states: z.array(z.enum(['parked', 'dead'])).check(z.minLength(1), z.maxLength(2)),
})

const defineAccounting = adminContracts('Accounting', 'developer', {
  event_id: idText.check(z.describe('The event.')),
  client_id: idText.check(z.describe('The client.')),
})

export const listAllEvents = defineAccounting('listAllEvents', 'GET /accounting-events', {
  role: 'operator',
  ...listOf(event, { ...ofState, ...anyCompany(idText) }),
})

export const listEvents = defineAccounting(
  'listEvents',
  'GET /companies/{company_id}/accounting-events',
  listOf(event, ofState),
)

export const retryEvent = defineAccounting(
  'retryEvent',
  'POST /companies/{company_id}/accounting-events/{event_id}/retry',
  {
    response: retried,
  },
)

export const retryEvents = defineAccounting('retryEvents', 'POST /companies/{company_id}/accounting-events/retry', {
  body: states,
  response: retried,
})

export const linkCustomer = defineAccounting(
  'linkCustomer',
  'PUT /companies/{company_id}/clients/{client_id}/accounting-customer',
  {
    body: component('AccountingCustomer', 'The customer in the accounting system.', { customer_id: accountingId }),
    response: component('LinkedCustomer', 'The client and its customer.', {
      client_id: id,
      company_name: z.string(),
      customer_id: z.string(),
      retried: count.check(z.describe('Parked and dead events that are sent again.')),
    }),
  },
)

export const published = {
  tags: {
    Integrations: 'Connections of a company to other systems.',
    Accounting: 'Changes that are not delivered to the accounting system yet.',
  },
  document: (): Record<string, Documentation> => ({
    listIntegrations: {
      summary: 'List integrations',
      description: 'Those of the company with their state, without credentials.',
    },
    putIntegration: {
      summary: 'Save an integration',
      description:
        'Creates or replaces it. What was stopped for lost consent or rejected credentials is tried again. A disabled one may have no credentials.',
      example: {
        params: { kind: 'supplier_b' },
        body: {
          enabled: true,
          base_url: 'https://api.supplier.example',
          credentials: { account_number: '12345', api_key: 'secret' },
        },
      },
    },
    testIntegration: {
      summary: 'Test the connection',
      description: 'Makes one call that changes nothing, with the stored credentials.',
      example: {
        params: { kind: 'supplier_b' },
        response: { ok: true, message: 'The supplier accepts the credentials.' },
      },
    },
    listAllEvents: {
      summary: 'List undelivered accounting events of all companies',
      description: 'By database, then oldest first.',
      example: { query: { state: 'parked' } },
    },
    listEvents: {
      summary: 'List undelivered accounting events',
      description:
        'Oldest first. Parked and dead ones need a person: their error says why. Pending ones are not retried by themselves while the integration is disabled or must be connected again, or the company is suspended or its deliveries are paused.',
      example: { query: { state: 'parked' } },
    },
    retryEvent: {
      summary: 'Retry an accounting event',
      description: 'Sends it again at once, and ends a stop or pause of the company’s deliveries.',
      example: { params: { event_id: '12' } },
    },
    retryEvents: {
      summary: 'Retry all accounting events in some states',
      description: 'The same, of every parked or dead event.',
      example: { body: { states: ['dead'] } },
    },
    linkCustomer: {
      summary: 'Link a client to a customer',
      description:
        'Assigns the client’s invoices to this customer of the accounting system instead of one found or created by name, and sends the client’s parked and dead events again.',
      example: { params: { client_id: '17' }, body: { customer_id: '58' } },
    },
  }),
}
