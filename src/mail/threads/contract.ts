import * as z from 'zod'
import { dateTime, defineContract } from '../../http/contract.ts'
import { threadParams } from '../thread-key.ts'

/** 25 MiB: at least 20 MiB of messages, whatever stands around them. */
const BODY_LIMIT_BYTES = 26_214_400

export const accountEmail = z
  .email()
  .max(320)
  .transform((email) => email.toLowerCase())

const aText = z.string().nullable()
const givenTime = z.iso.datetime({ offset: true }).nullable().optional()
const message = z
  .record(z.string(), z.json())
  .meta({ id: 'Message', description: 'A message, as it was sent: any object.' })
const participant = z.record(z.string(), z.json())

const emailThread = z
  .strictObject({
    participants: z.array(participant),
    labels: z.array(z.string()),
    messages: z.array(message),
    id: z.uuid(),
    account_email: z.string().describe('The mailbox that was synced, lower-case.'),
    legacy_thread_id: z.string(),
    mail_thread_id: aText.describe('The canonical thread id, where it differs.'),
    subject: aText,
    snippet: aText.describe('A short preview.'),
    message_count: z.int().nonnegative().describe('The length of `messages`.'),
    first_message_at: dateTime.nullable(),
    last_message_at: dateTime.nullable(),
    mail_history_id: aText.describe('For incremental sync.'),
    last_synced_at: dateTime,
    created_at: dateTime,
    updated_at: dateTime,
    deleted: z.boolean(),
  })
  .meta({ id: 'EmailThread', description: 'A mail thread with all its messages.' })

const one = z.strictObject({ email_thread: emailThread })

const newThread = z
  .object({
    account_email: z.email().max(320).describe('The mailbox that was synced; stored lower-case.'),
    messages: z.array(message).describe('All messages of the thread, on every call; `[]` for none.'),
    participants: z.array(participant).optional().describe('Left out: `[]`.'),
    labels: z.array(z.string()).optional().describe('Left out: `[]`.'),
    subject: aText.optional(),
    snippet: aText.optional().describe('A short preview.'),
    mail_thread_id: aText.optional().describe('The canonical thread id, where it differs.'),
    first_message_at: givenTime,
    last_message_at: givenTime,
    mail_history_id: aText.optional().describe('For incremental sync.'),
    last_synced_at: givenTime.describe('Left out or null: the time of the server.'),
  })
  .meta({
    id: 'EmailThreadBody',
    description:
      'A whole thread. A text or time that is left out keeps its stored value, `null` clears it. Other fields are ignored, `company_id` too.',
  })

export const putEmailThread = defineContract({
  method: 'PUT',
  path: '/mail/email-threads/{legacyThreadId}',
  operationId: 'putEmailThread',
  tag: 'Mail',
  permission: 'mail:write',
  params: threadParams,
  badParams: 'invalid_request',
  body: newThread,
  bodyAsBytes: true,
  bodyLimitBytes: BODY_LIMIT_BYTES,
  answer: one,
  errors: [],
})

export const readEmailThread = defineContract({
  method: 'GET',
  path: '/mail/email-threads/{legacyThreadId}',
  operationId: 'readEmailThread',
  tag: 'Mail',
  permission: 'mail:read',
  params: threadParams,
  badParams: 'invalid_request',
  query: z.strictObject({
    account_email: accountEmail.describe('The mailbox; its case does not matter.').meta({ format: 'email' }),
  }),
  hasEtag: true,
  answer: one,
  errors: ['not_found'],
})
