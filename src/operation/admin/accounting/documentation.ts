import type { Documentation } from '../../../kernel/api/contract.ts'

const event = {
  id: 12,
  company_id: 1,
  order_id: 44,
  operation: 'update',
  state: 'parked',
  attempts: 3,
  next_attempt_at: null,
  last_error: 'The invoice has another total in the accounting system.',
  created_at: '2026-03-02T09:00:00.000Z',
  updated_at: '2026-03-02T09:05:00.000Z',
}
const params = { company_id: '1' }
const list = { data: [event], pagination: { per_page: 50, next_cursor: null, has_more: false } }

export const documentation = {
  listAllEvents: {
    summary: 'List undelivered accounting events of all companies',
    description: 'Oldest first.',
    example: { query: { state: 'parked' }, response: list },
  },
  listEvents: {
    summary: 'List undelivered accounting events',
    description: 'Oldest first. Parked and dead ones need a person: their error says why.',
    example: { params, query: { state: 'parked' }, response: list },
  },
  retryEvent: {
    summary: 'Retry an accounting event',
    description: 'Sends it again at once, and ends a stop or pause of the company’s deliveries.',
    example: { params: { ...params, event_id: '12' }, response: { retried: 1 } },
  },
  retryEvents: {
    summary: 'Retry all accounting events in some states',
    description: 'The same, of every parked or dead event.',
    example: { params, body: { states: ['dead'] }, response: { retried: 3 } },
  },
  linkCustomer: {
    summary: 'Link a client to a customer',
    description:
      'Assigns the client’s invoices to this customer of the accounting system instead of one found or created by name, and sends the client’s parked and dead events again.',
    example: {
      params: { ...params, client_id: '17' },
      body: { customer_id: '58' },
      response: { client_id: 17, company_name: 'Harbor Rowing Club', customer_id: '58', retried: 1 },
    },
  },
} satisfies Record<string, Documentation>
