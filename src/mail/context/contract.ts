import * as z from 'zod/mini'
import { dateTime, defineContract } from '../../http/contract.ts'
import { threadParams } from '../thread-key.ts'

const threadContext = z
  .strictObject({
    thread_id: z.string(),
    legacy_thread_id: z.nullable(z.string()),
    sender_email: z.nullable(z.string()),
    client_id: z.nullable(z.string()),
    client_data: z.nullable(z.record(z.string(), z.json())),
    clients_data: z.json().check(z.describe('JSON or null; an array in practice.')),
    orders_data: z.json().check(z.describe('JSON or null; an array in practice, each element with an `id`.')),
    selected_order_id: z.nullable(z.string()),
    participant_emails: z.json().check(z.describe('JSON or null; an array of strings in practice.')),
    participants_data: z.json().check(z.describe('JSON or null; an array in practice.')),
    fetched_at: dateTime,
    updated_at: dateTime,
  })
  .check(z.meta({ id: 'ThreadContext', description: 'What the CRM remembers of a mail thread.' }))

export const readThreadContext = defineContract({
  method: 'GET',
  path: '/mail/threads/{legacyThreadId}',
  operationId: 'readThreadContext',
  tag: 'Mail',
  permission: 'mail:read',
  params: threadParams,
  invalidParams: 'invalid_request',
  response: threadContext,
  errors: ['not_found'],
})

export const endpoints = [readThreadContext]
