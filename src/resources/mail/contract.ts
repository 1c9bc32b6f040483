import * as z from 'zod/mini'
import { component, contractsOf, dateTime, idText, instant, queryEmail, version } from '../../kernel/api/contract.ts'
import { cursorPageOf, listQuery } from '../../kernel/api/list-query.ts'
import { trimmedEmail } from '../clients/contract.ts'
import { legacyThreadId } from '../files/contract.ts'
import { newThreadContext } from './context-input.ts'

const threadContext = component('ThreadContext', 'The clients and orders that a mail thread is linked to.', {
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

const MAX_EMAIL = 320
const lowerCase = z.transform((email: string) => email.toLowerCase())
const email = trimmedEmail(MAX_EMAIL)
export const accountEmail = z.pipe(email, lowerCase)

/** Limits a text of a thread outside its arrays, in bytes of UTF-8. */
export const MAX_TEXT_BYTES = 100_000

const nullableText = z.nullable(z.string())
const limitedText = z.string().check(z.maxLength(MAX_TEXT_BYTES), z.meta({ 'x-max-bytes': MAX_TEXT_BYTES }))
const inputText = (description = '') =>
  z.nullish(limitedText).check(z.describe(`${description}At most 100,000 bytes of UTF-8.`))
const inputTime = z.nullish(z.iso.datetime({ offset: true }))
const participant = z.record(z.string(), z.json())
const mailbox = z
  .looseObject({ name: z.optional(z.string()), email: z.optional(z.string()) })
  .check(z.meta({ id: 'Mailbox', description: 'A name and an address.' }))

const attachment = z
  .looseObject({
    filename: z.optional(z.string()).check(z.describe('Without one the attachment is not shown.')),
    mime_type: z.optional(z.string()),
    size_bytes: z.optional(z.number()),
    storage_key: z.nullish(z.string()).check(z.describe('The `key` of the uploaded file: it makes a download link.')),
    mail_attachment_id: z.optional(z.string()).check(z.describe('Identifies the attachment, before its filename.')),
  })
  .check(z.meta({ id: 'Attachment', description: 'A file of a message.' }))

const suggestedMessage = z
  .looseObject({
    id: z.optional(z.string()).check(z.describe('The message id of the mailbox.')),
    sent_at: z.optional(z.string()).check(z.describe('A date-time. `internal_date` is read where it is left out.')),
    from: z.optional(z.union([mailbox, z.string()])),
    to: z.optional(z.union([z.array(mailbox), z.string()])),
    subject: z.optional(z.string()),
    snippet: z.optional(z.string()).check(z.describe('A short preview.')),
    body_plain: z.optional(z.string()),
    body_text: z.optional(z.string()).check(z.describe('The same as `body_plain`.')),
    body_html: z.nullish(z.string()),
    is_from_us: z.optional(z.boolean()).check(z.describe('Shown on the right.')),
    attachments: z.optional(z.array(attachment)),
  })
  .check(z.meta({ id: 'Message', description: 'A message, with the fields that are suggested.' }))
const message = z
  .union([suggestedMessage, z.record(z.string(), z.json())])
  .check(z.describe('A `Message` is suggested. Any object is stored, and returned as it was sent.'))

/** Stored as JSON texts. */
export const TEXT_FIELDS = ['mail_thread_id', 'subject', 'snippet', 'mail_history_id'] as const
export type TextField = (typeof TEXT_FIELDS)[number]

const summaryFields = {
  id: z.uuid(),
  account_email: z.string().check(z.describe('The mailbox that was synced, lower-case.')),
  legacy_thread_id: z.string(),
  mail_thread_id: nullableText.check(z.describe('The canonical thread id, where it differs.')),
  subject: nullableText,
  snippet: nullableText.check(z.describe('A short preview.')),
  message_count: z.int().check(z.nonnegative(), z.describe('The number of messages.')),
  first_message_at: z.nullable(dateTime),
  last_message_at: z.nullable(dateTime),
  mail_history_id: nullableText.check(z.describe('For incremental sync.')),
  last_synced_at: dateTime,
  created_at: dateTime,
  updated_at: dateTime,
  deleted: z.boolean(),
}

export const isText = (name: string) => TEXT_FIELDS.some((text) => text === name)

/** The fields of a thread without its content, the texts last. */
export const SUMMARY_FIELDS = (Object.keys(summaryFields) as (keyof typeof summaryFields)[]).sort(
  (a, b) => Number(isText(a)) - Number(isText(b)),
)

const emailThread = component('EmailThread', 'A mail thread with all its messages.', {
  participants: z.array(participant),
  labels: z.array(z.string()),
  messages: z.array(message),
  ...summaryFields,
})

const emailThreadSummary = component(
  'EmailThreadSummary',
  'A mail thread without what is stored with its messages: participants, labels and the messages. Texts are cut after 2,000 characters, with `…` at the end.',
  summaryFields,
)

const newThread = z
  .object({
    account_email: email.check(z.describe('The mailbox that was synced; stored lower-case.')),
    messages: z.array(message).check(z.describe('All messages of the thread, on every call; `[]` for none.')),
    participants: z.optional(z.array(participant)).check(z.describe('Left out: `[]`.')),
    labels: z.optional(z.array(z.string())).check(z.describe('Left out: `[]`.')),
    subject: inputText(),
    snippet: inputText('A short preview. '),
    mail_thread_id: inputText('The canonical thread id, where it differs. '),
    first_message_at: inputTime,
    last_message_at: inputTime,
    mail_history_id: inputText('For incremental sync. '),
    last_synced_at: inputTime.check(z.describe('Left out or null: the time of the server.')),
  })
  .check(
    z.meta({
      id: 'EmailThreadBody',
      description:
        'A whole thread. A text or time but `last_synced_at` that is left out keeps its stored value, `null` clears it. A text beside the arrays has at most 100,000 bytes of UTF-8, and 150,000 as JSON with its escapes. Other fields are ignored, `company_id` too.',
    }),
  )

/** The fields of an exported thread that a PUT does not have. */
export const exportedFields = {
  id: z.uuid().check(z.toLowerCase()),
  legacy_thread_id: legacyThreadId,
  last_synced_at: instant,
  created_at: instant,
  updated_at: instant,
  deleted: z.boolean(),
  revision: version,
  content_revision: version,
}

export const exportedThread = z
  .looseObject({ ...exportedFields, account_email: z.string(), messages: z.array(z.record(z.string(), z.json())) })
  .check(z.meta({ id: 'ExportedEmailThread', description: 'The `data` of a line of an export, as it is.' }))

const define = contractsOf('Mail', 'mail')
const shared = {
  params: z.strictObject({ legacyThreadId }),
  invalidParams: 'invalid_request',
  errors: ['not_found'],
} as const

const oneContext = { ...shared, response: threadContext } as const

export const readThreadContext = define('readThreadContext', 'GET /mail/threads/{legacyThreadId}', oneContext)

export const putThreadContext = define('putThreadContext', 'PUT /mail/threads/{legacyThreadId}', {
  ...oneContext,
  errors: [],
  body: newThreadContext,
  bodyLimitBytes: 262_144,
})

export const deleteThreadContext = define('deleteThreadContext', 'DELETE /mail/threads/{legacyThreadId}', oneContext)

const ofMailbox = {
  account_email: z
    .pipe(queryEmail(MAX_EMAIL), lowerCase)
    .check(z.describe('The mailbox; its case does not matter.'), z.meta({ format: 'email' })),
}
const query = z.strictObject(ofMailbox)
const response = z.strictObject({ email_thread: emailThread })

export const putEmailThread = define('putEmailThread', 'PUT /mail/email-threads/{legacyThreadId}', {
  ...shared,
  errors: [],
  body: newThread,
  hasRawBody: true,
  bodyLimitBytes: 26_214_400, // 25 MiB: at least 20 MiB of messages, with everything around them.
  response,
})

export const readEmailThread = define('readEmailThread', 'GET /mail/email-threads/{legacyThreadId}', {
  ...shared,
  query,
  hasEtag: true,
  response,
})

export const deleteEmailThread = define('deleteEmailThread', 'DELETE /mail/email-threads/{legacyThreadId}', {
  ...shared,
  query,
  response: z.strictObject({ email_thread: emailThreadSummary }),
})

const cursorPage = { per_page: listQuery.per_page, cursor: listQuery.cursor }

export const listEmailThreads = define('listEmailThreads', 'GET /mail/email-threads', {
  isPaged: true,
  query: z.strictObject({
    ...ofMailbox,
    deleted: listQuery.deleted.check(z.describe('Whether soft-deleted threads are listed.')),
    updated_since: listQuery.updated_since,
    ...cursorPage,
  }),
  response: cursorPageOf(emailThreadSummary),
})
export type ThreadList = z.output<typeof listEmailThreads.query>

export const listThreadContexts = define('listThreadContexts', 'GET /mail/threads', {
  isPaged: true,
  query: z
    .strictObject({
      order_id: z.optional(idText).check(z.describe('The contexts that are linked to this order.')),
      client_id: z.optional(idText).check(z.describe('The contexts that are linked to this client.')),
      ...cursorPage,
    })
    .check(
      z.refine(({ order_id, client_id }) => order_id !== undefined || client_id !== undefined, {
        message: 'or `client_id` is required',
        path: ['order_id'],
      }),
      z.refine(({ order_id, client_id }) => order_id === undefined || client_id === undefined, {
        message: 'must not be sent together with order_id: send one of them',
        path: ['client_id'],
      }),
    ),
  response: cursorPageOf(threadContext),
})
export type ContextList = z.output<typeof listThreadContexts.query>
