import * as z from 'zod/mini'
import { legacyThreadId } from '../files/contract.ts'
import {
  component,
  cursorText,
  dateTime,
  defineContract,
  id,
  idText,
  nextPage,
  oneLine,
  pageQuery,
  queryEmail,
} from '../http/contract.ts'

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

/** Of an array in a context. */
const MAX_ELEMENTS = 100
/** SQLite reads JSON of 1,000 levels. */
const MAX_DEPTH = 32

/** Whether the database can store it as JSON: a number that is no double has become infinite. */
function isStorable(value: unknown): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0 && depth <= MAX_DEPTH; depth++) {
    if (level.some((each) => typeof each === 'number' && !Number.isFinite(each))) return false
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []))
  }
  return level.length === 0
}

const storable = () =>
  z.refine(isStorable, `must be nested at most ${MAX_DEPTH} levels deep, with numbers of a double’s range`)

const linkedId = z.union([id, idText], {
  error: ({ input }) => (input === undefined ? 'is required' : 'must be a positive integer'),
})
const linkedClient = z.looseObject({ id: z.nullish(linkedId) })
const linkedOrder = z.looseObject({ id: linkedId })
const participantEmail = z.string().check(z.maxLength(1_000))
const listOf = <T extends z.ZodMiniType>(element: T) =>
  z.nullish(z.array(element).check(z.maxLength(MAX_ELEMENTS), storable()))
const ignored = z.optional(z.unknown()).check(z.describe('Ignored, so that what was read may be sent back.'))

const newThreadContext = z
  .strictObject({
    thread_id: z.nullish(oneLine(1, 255)).check(z.describe('Left out: the stored one, else the legacy id.')),
    sender_email: z.nullish(oneLine(1, 320)),
    client_id: z.nullish(linkedId).check(z.describe('A client of the company.')),
    client_data: z
      .nullish(linkedClient.check(storable()))
      .check(z.describe('An `id` must be a client of the company.')),
    clients_data: listOf(linkedClient).check(z.describe('An `id` must be a client of the company.')),
    orders_data: listOf(linkedOrder).check(z.describe('Each `id` must be an order of the company.')),
    selected_order_id: z.nullish(linkedId).check(z.describe('The `id` of an element of `orders_data`.')),
    participant_emails: listOf(participantEmail),
    participants_data: listOf(z.record(z.string(), z.unknown())),
    legacy_thread_id: ignored,
    fetched_at: ignored,
    updated_at: ignored,
  })
  .check(
    z.refine(({ client_id, orders_data }) => !!client_id || !!orders_data?.length, {
      message:
        'must link to something, by `client_id` or an element of `orders_data`: to remove the context, DELETE it',
    }),
    z.refine(
      ({ selected_order_id, orders_data }) =>
        !selected_order_id || !!orders_data?.some((order) => order.id === selected_order_id),
      { message: 'must be the id of an element of `orders_data`', path: ['selected_order_id'] },
    ),
    z.meta({
      id: 'ThreadContextBody',
      description: 'A whole context: what is left out becomes null. Ids may be numbers or strings of digits.',
    }),
  )

export type NewThreadContext = z.output<typeof newThreadContext>

const MAX_EMAIL = 320
const lowerCase = z.transform((email: string) => email.toLowerCase())
const email = z.email().check(z.maxLength(MAX_EMAIL))
export const accountEmail = z.pipe(email, lowerCase)

const nullableText = z.nullable(z.string())
const inputTime = z.nullish(z.iso.datetime({ offset: true }))
const participant = z.record(z.string(), z.json())
const message = participant.check(z.meta({ id: 'Message', description: 'A message, as it was sent: any object.' }))

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
    subject: z.optional(nullableText),
    snippet: z.optional(nullableText).check(z.describe('A short preview.')),
    mail_thread_id: z.optional(nullableText).check(z.describe('The canonical thread id, where it differs.')),
    first_message_at: inputTime,
    last_message_at: inputTime,
    mail_history_id: z.optional(nullableText).check(z.describe('For incremental sync.')),
    last_synced_at: inputTime.check(z.describe('Left out or null: the time of the server.')),
  })
  .check(
    z.meta({
      id: 'EmailThreadBody',
      description:
        'A whole thread. A text or time that is left out keeps its stored value, `null` clears it. Other fields are ignored, `company_id` too.',
    }),
  )

const shared = { tag: 'Mail', params: z.strictObject({ legacyThreadId }), invalidParams: 'invalid_request' } as const
const emailThreads = {
  ...shared,
  path: '/mail/email-threads/{legacyThreadId}',
  response: z.strictObject({ email_thread: emailThread }),
} as const
const read = { method: 'GET', permission: 'mail:read' } as const

const threadContexts = { ...shared, path: '/mail/threads/{legacyThreadId}', response: threadContext } as const
const write = { permission: 'mail:write' } as const

export const readThreadContext = defineContract({
  ...threadContexts,
  ...read,
  operationId: 'readThreadContext',
  errors: ['not_found'],
})

export const putThreadContext = defineContract({
  ...threadContexts,
  ...write,
  method: 'PUT',
  operationId: 'putThreadContext',
  body: newThreadContext,
  // The longest way to write numbers makes five times as much of it: a row of D1 may have 2,000,000 bytes.
  bodyLimitBytes: 262_144,
  errors: [],
})

export const deleteThreadContext = defineContract({
  ...threadContexts,
  ...write,
  method: 'DELETE',
  operationId: 'deleteThreadContext',
  errors: ['not_found'],
})

export const putEmailThread = defineContract({
  ...emailThreads,
  method: 'PUT',
  operationId: 'putEmailThread',
  permission: 'mail:write',
  body: newThread,
  hasRawBody: true,
  bodyLimitBytes: 26_214_400, // 25 MiB: at least 20 MiB of messages, with everything around them.
  errors: [],
})

const ofMailbox = {
  account_email: z
    .pipe(queryEmail(MAX_EMAIL), lowerCase)
    .check(z.describe('The mailbox; its case does not matter.'), z.meta({ format: 'email' })),
}

export const readEmailThread = defineContract({
  ...emailThreads,
  ...read,
  operationId: 'readEmailThread',
  query: z.strictObject(ofMailbox),
  hasEtag: true,
  errors: ['not_found', 'unavailable'],
})

export const deleteEmailThread = defineContract({
  ...emailThreads,
  ...write,
  method: 'DELETE',
  operationId: 'deleteEmailThread',
  query: z.strictObject(ofMailbox),
  response: z.strictObject({ email_thread: emailThreadSummary }),
  errors: ['not_found'],
})

/** A list that is paged by cursors alone. */
const cursorPage = { per_page: pageQuery.per_page, cursor: z.optional(cursorText) }
const list = { tag: 'Mail', ...read, isPaged: true, errors: [] } as const

function listResponse<T extends z.ZodMiniType>(element: T) {
  const pagination = z.strictObject({ per_page: z.int().check(z.positive()), ...nextPage })
  return z.strictObject({ data: z.array(element), pagination })
}

const sinceTime = z
  .pipe(
    z.string().check(
      // Form decoding turns an unencoded `+` into a space, which no date-time contains.
      z.overwrite((value) => value.replace(' ', '+')),
      z.iso.datetime({ offset: true }),
    ),
    z.transform((value) => Date.parse(value)),
  )
  .check(z.meta({ format: 'date-time' }))

export const listEmailThreads = defineContract({
  ...list,
  path: '/mail/email-threads',
  operationId: 'listEmailThreads',
  query: z.strictObject({
    ...ofMailbox,
    deleted: z
      ._default(z.enum(['exclude', 'include', 'only']), 'exclude')
      .check(z.meta({ default: 'exclude' }), z.describe('Whether soft-deleted threads are listed.')),
    updated_since: z
      .optional(sinceTime)
      .check(z.describe('Only threads that were written or deleted since, inclusive.')),
    ...cursorPage,
  }),
  response: listResponse(emailThreadSummary),
})

export const listThreadContexts = defineContract({
  ...list,
  path: '/mail/threads',
  operationId: 'listThreadContexts',
  query: z
    .strictObject({
      order_id: z.optional(idText).check(z.describe('The contexts that are linked to this order.')),
      client_id: z.optional(idText).check(z.describe('The contexts that are linked to this client.')),
      ...cursorPage,
    })
    .check(
      z.refine(({ order_id, client_id }) => order_id !== undefined || client_id !== undefined, {
        message: 'or client_id is required',
        path: ['order_id'],
      }),
      z.refine(({ order_id, client_id }) => order_id === undefined || client_id === undefined, {
        message: 'must not be sent together with order_id: send one of them',
        path: ['client_id'],
      }),
    ),
  response: listResponse(threadContext),
})

export const endpoints = [
  listThreadContexts,
  readThreadContext,
  putThreadContext,
  deleteThreadContext,
  listEmailThreads,
  readEmailThread,
  putEmailThread,
  deleteEmailThread,
]
