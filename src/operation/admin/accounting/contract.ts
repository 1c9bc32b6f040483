import * as z from 'zod/mini'
import { accountingId, component, type Documentation, dateTime, id, idText } from '../../../kernel/api/contract.ts'
import { adminContracts, anyCompany, count, listOf } from '../fields.ts'

const state = z
  .enum(['pending', 'parked', 'dead'])
  .check(z.describe('`pending`: retried automatically; `parked`: waits for a person; `dead`: rejected or given up.'))

const event = component('AccountingEvent', 'A change that is not delivered to the accounting system yet.', {
  id,
  company_id: id,
  order_id: id,
  operation: z.enum(['create', 'update', 'delete']),
  state,
  attempts: count,
  next_attempt_at: z.nullable(dateTime).check(z.describe('Null where it is not retried by itself.')),
  last_error: z.nullable(z.string()),
  created_at: dateTime,
  updated_at: dateTime,
})

const retried = component('RetriedEvents', 'What is sent again.', {
  retried: count.check(z.describe('How many events.')),
})

const ofState = { state: z.optional(state) }
const states = component('EventsToRetry', 'Which events to send again.', {
  states: z.array(z.enum(['parked', 'dead'])).check(z.minLength(1), z.maxLength(2)),
})

const define = adminContracts('Accounting', 'developer', {
  event_id: idText.check(z.describe('The event.')),
  client_id: idText.check(z.describe('The client.')),
})

export const listAllEvents = define('listAllEvents', 'GET /accounting-events', {
  role: 'operator',
  ...listOf(event, { ...ofState, ...anyCompany(idText) }),
})

export const listEvents = define('listEvents', 'GET /companies/{company_id}/accounting-events', listOf(event, ofState))

export const retryEvent = define('retryEvent', 'POST /companies/{company_id}/accounting-events/{event_id}/retry', {
  response: retried,
})

export const retryEvents = define('retryEvents', 'POST /companies/{company_id}/accounting-events/retry', {
  body: states,
  response: retried,
})

export const linkCustomer = define(
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
  tags: { Accounting: 'Changes that are not delivered to the accounting system yet.' },
  document: (): Record<string, Documentation> => ({
    listAllEvents: {
      summary: 'List undelivered accounting events of all companies',
      description: 'By database, then oldest first.',
      example: { query: { state: 'parked' } },
    },
    listEvents: {
      summary: 'List undelivered accounting events',
      description: 'Oldest first. Parked and dead ones need a person: their error says why.',
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
