import * as z from 'zod'
import { dateTime, defineContract } from '../../http/contract.ts'
import { threadParams } from '../thread-key.ts'

const threadContext = z
  .strictObject({
    thread_id: z.string(),
    legacy_thread_id: z.string().nullable(),
    sender_email: z.string().nullable(),
    client_id: z.string().nullable(),
    client_data: z.record(z.string(), z.json()).nullable(),
    clients_data: z.json().describe('JSON or null; an array in practice.'),
    orders_data: z.json().describe('JSON or null; an array in practice, each element with an `id`.'),
    selected_order_id: z.string().nullable(),
    participant_emails: z.json().describe('JSON or null; an array of strings in practice.'),
    participants_data: z.json().describe('JSON or null; an array in practice.'),
    fetched_at: dateTime,
    updated_at: dateTime,
  })
  .meta({ id: 'ThreadContext', description: 'What the CRM remembers of a mail thread.' })

export const readThreadContext = defineContract({
  method: 'GET',
  path: '/mail/threads/{legacyThreadId}',
  operationId: 'readThreadContext',
  tag: 'Mail',
  permission: 'mail:read',
  summary: 'Read what links a mail thread to clients and orders',
  description:
    'Answers 404 unless the stored context is tied to the company: through its client, through an order in `orders_data`, or through a company id in its JSON. Of several contexts with this id, the newest that is tied. What in it belongs to another company is left out: elements of `clients_data` and `orders_data`, the client and the selected order. The forms inside the JSON depend on what wrote it.',
  params: threadParams,
  badParams: 'invalid_request',
  answer: threadContext,
  errors: ['not_found'],
  example: {
    params: { legacyThreadId: '18c2f0a9b7d3e411' },
    answer: {
      thread_id: 'thread-f:1784215093462262801',
      legacy_thread_id: '18c2f0a9b7d3e411',
      sender_email: 'ines@harbor-rowing.example',
      client_id: '42',
      client_data: { id: 42, company_name: 'Harbor Rowing Club' },
      clients_data: [{ id: 42, company_name: 'Harbor Rowing Club' }],
      orders_data: [{ id: 87, title: 'Regatta shirts' }],
      selected_order_id: '87',
      participant_emails: ['ines@harbor-rowing.example', 'sales@shop.example'],
      participants_data: [{ name: 'Ines Duarte', email: 'ines@harbor-rowing.example' }],
      fetched_at: '2026-03-02T09:31:00.000Z',
      updated_at: '2026-03-02T09:31:00.000Z',
    },
  },
})
