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

const examplePath = { legacyThreadId: '18c2f0a9b7d3e411' }

const exampleThread = {
  id: '0c6f2a54-0b5f-4a53-9d53-5f0f5b8a7c11',
  account_email: 'sales@shop.example',
  legacy_thread_id: '18c2f0a9b7d3e411',
  mail_thread_id: 'thread-f:1784215093462262801',
  subject: 'Shirts for the regatta',
  snippet: 'Could you quote 48 shirts …',
  message_count: 1,
  first_message_at: '2026-03-02T09:30:00.000Z',
  last_message_at: '2026-03-02T09:30:00.000Z',
  mail_history_id: '987654',
  last_synced_at: '2026-03-02T09:31:00.000Z',
  created_at: '2026-03-02T09:31:00.120Z',
  updated_at: '2026-03-02T09:31:00.120Z',
  deleted: false,
  participants: [{ name: 'Ines Duarte', email: 'ines@harbor-rowing.example' }],
  labels: ['INBOX'],
  messages: [
    {
      id: '18c2f0a9b7d3e411',
      sent_at: '2026-03-02T09:30:00Z',
      from: { name: 'Ines Duarte', email: 'ines@harbor-rowing.example' },
      body_plain: 'Could you quote 48 shirts …',
      is_from_us: false,
      attachments: [{ filename: 'logo.png', mime_type: 'image/png', size_bytes: 18_204 }],
    },
  ],
}

export const putEmailThread = defineContract({
  method: 'PUT',
  path: '/mail/email-threads/{legacyThreadId}',
  operationId: 'putEmailThread',
  tag: 'Mail',
  permission: 'mail:write',
  summary: 'Store a whole email thread',
  description:
    'Creates the thread of this mailbox, or replaces it: nothing is merged, so send every message each time. Mailboxes are kept apart: the same id with another `account_email` is another thread. What is stored comes back as the same JSON values, whatever its size; a message may be any object. Sending what is stored already is cheap. A soft-deleted thread is restored.',
  params: threadParams,
  badParams: 'invalid_request',
  body: newThread,
  bodyAsBytes: true,
  bodyLimitBytes: BODY_LIMIT_BYTES,
  answer: one,
  errors: [],
  example: {
    params: examplePath,
    body: {
      account_email: 'sales@shop.example',
      subject: exampleThread.subject,
      snippet: exampleThread.snippet,
      mail_thread_id: exampleThread.mail_thread_id,
      mail_history_id: exampleThread.mail_history_id,
      first_message_at: exampleThread.first_message_at,
      last_message_at: exampleThread.last_message_at,
      participants: exampleThread.participants,
      labels: exampleThread.labels,
      messages: exampleThread.messages,
    },
    answer: { email_thread: exampleThread },
  },
})

export const readEmailThread = defineContract({
  method: 'GET',
  path: '/mail/email-threads/{legacyThreadId}',
  operationId: 'readEmailThread',
  tag: 'Mail',
  permission: 'mail:read',
  summary: 'Read a whole email thread',
  description:
    'The thread of this mailbox with every message. 404 for one that was never stored or is soft-deleted. The answer carries a strong `ETag`; send it back in `If-None-Match` and an unchanged thread answers 304 without a body.',
  params: threadParams,
  badParams: 'invalid_request',
  query: z.strictObject({
    account_email: accountEmail.describe('The mailbox; its case does not matter.').meta({ format: 'email' }),
  }),
  hasEtag: true,
  answer: one,
  errors: ['not_found'],
  example: {
    params: examplePath,
    query: { account_email: 'sales@shop.example' },
    answer: { email_thread: exampleThread },
  },
})
