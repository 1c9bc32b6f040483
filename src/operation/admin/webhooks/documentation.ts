import { EVENT_TYPES } from '../../../delivery/webhooks/message.ts'
import type { Documentation } from '../../../kernel/api/contract.ts'

const endpoint = {
  id: 'we_3f9c2a7d51e08b46c0',
  company_id: 1,
  url: 'https://hooks.ridgeline.example/crm',
  event_types: [...EVENT_TYPES],
  enabled: true,
  disabled_reason: null,
  replaying: false,
  behind: 0,
  removed_changes: 0,
  created_at: '2026-03-02T09:00:00.000Z',
  updated_at: '2026-03-02T09:00:00.000Z',
}
const secret = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY='
const ofCompany = { company_id: '1' }
const params = { ...ofCompany, endpoint_id: endpoint.id }
const pagination = { per_page: 50, next_cursor: null, has_more: false }

export const documentation = {
  listAllWebhooks: {
    summary: 'List webhook endpoints of all companies',
    description: 'By company, then oldest first.',
    example: { query: { id: endpoint.id }, response: { data: [endpoint], pagination } },
  },
  listWebhooks: {
    summary: 'List webhook endpoints',
    description: 'Those of the company, oldest first.',
    example: { params: ofCompany, response: { data: [endpoint], pagination } },
  },
  createWebhook: {
    summary: 'Create a webhook endpoint',
    description:
      'What changes from now on is delivered to it; the first change up to 5 minutes late. The signing secret is in this response only. A company has at most 10 endpoints. At most 10 messages a second go to one host, over all endpoints of the company. An address at which the first 20 attempts fail is disabled with a reason.',
    example: { params: ofCompany, body: { url: endpoint.url }, response: { ...endpoint, secret } },
  },
  readWebhook: {
    summary: 'Read a webhook endpoint',
    description: 'How far it is behind, and why the service disabled it if it did.',
    example: { params, response: endpoint },
  },
  updateWebhook: {
    summary: 'Change a webhook endpoint',
    description:
      'An endpoint that is enabled again goes on where it stopped, apart from its `removed_changes`. What waits for a retry is delivered at once when the endpoint is enabled or has a new address.',
    example: { params, body: { enabled: true }, response: { ...endpoint, behind: 12 } },
  },
  deleteWebhook: {
    summary: 'Delete a webhook endpoint',
    description: 'What waits to be delivered to it is deleted too.',
    example: { params, response: { id: endpoint.id, url: endpoint.url, deleted: true } },
  },
  rotateWebhookSecret: {
    summary: 'Replace a signing secret',
    description: 'The present secret also signs for 24 hours. The new one is in this response only.',
    example: { params, response: { ...endpoint, secret } },
  },
  replayWebhook: {
    summary: 'Deliver a time span again',
    description:
      'The changes of the span that the endpoint was already sent are delivered again before new ones, with the same ids. Of a disabled endpoint, once it is enabled. While a replay is under way another one is refused with 409. Changes are kept for 31 days.',
    example: {
      params,
      body: { from: '2026-03-01T00:00:00Z', to: '2026-03-02T00:00:00Z' },
      response: { ...endpoint, replaying: true },
    },
  },
  listWebhookDeliveries: {
    summary: 'List failed deliveries',
    description: 'The changes whose delivery failed, and those that wait behind them, in the order of the changes.',
    example: {
      params,
      response: {
        data: [
          {
            sequence: 4711,
            event_type: 'order.updated',
            entity_id: '10042',
            attempts: 3,
            first_attempt_at: '2026-03-02T09:10:00.000Z',
            next_attempt_at: '2026-03-02T09:45:07.000Z',
            last_error: 'HTTP 500',
          },
        ],
        pagination,
      },
    },
  },
} satisfies Record<string, Documentation>
