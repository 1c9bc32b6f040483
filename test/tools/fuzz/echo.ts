import { isDeepStrictEqual } from 'node:util'
import { isObject, type Json, type JsonObject } from '../../../src/site/reference/json.ts'
import { type Draft, writeObject } from './draft.ts'

/** How deep a message may be for the comparison not to run out of stack. */
const MAX_TEXT = 50_000

type Places = Readonly<Record<string, readonly [place: string, name: string]>>

const CLIENT: Places = Object.fromEntries(
  [
    'company_name',
    'first_name',
    'last_name',
    'email',
    'website',
    'phone',
    'accounting_sync_enabled',
    'tax_exempt',
    'tax_exempt_reason',
    'deleted',
  ].map((name) => [name, ['client', name]]),
)

const ORDER: Places = {
  ...Object.fromEntries(
    ['title', 'client_id', 'description', 'start_date', 'deadline', 'client_notes'].map((name) => [
      name,
      ['project', name],
    ]),
  ),
  status_id: ['project', 'order_status_id'],
  ...Object.fromEntries(
    ['tax_exempt', 'tax_exempt_reason', 'discount_amount', 'discount_type'].map((name) => [name, ['invoice', name]]),
  ),
}

const THREAD: Places = Object.fromEntries(
  ['messages', 'participants', 'labels', 'subject', 'snippet', 'mail_thread_id', 'mail_history_id'].map((name) => [
    name,
    ['email_thread', name],
  ]),
)

/** Where a response repeats the sent fields, by operation. */
const ECHOES: Readonly<Record<string, Places>> = {
  createClient: CLIENT,
  updateClient: CLIENT,
  createOrder: ORDER,
  updateOrder: ORDER,
  putEmailThread: THREAD,
}

/** Fields stored with the white space around them. */
const AS_SENT = new Set([...Object.keys(THREAD), 'website', 'description', 'client_notes', 'start_date'])

/** The response to a write must repeat the sent fields. */
export function checkEcho(draft: Draft, body: Json | undefined): string[] {
  const places = ECHOES[draft.operation.id]
  if (!places || !draft.members || !isObject(body)) return []
  const text = writeObject(draft.members)
  if (text.length > MAX_TEXT) return []
  const sent: JsonObject = JSON.parse(text)
  return Object.entries(places).flatMap(([field, [place, name]]) => {
    const part = body[place]
    if (!Object.hasOwn(sent, field) || !isObject(part)) return []
    const value = sent[field]
    const expected = typeof value === 'string' && !AS_SENT.has(field) ? value.trim() : value
    if (isDeepStrictEqual(part[name], expected) || isNear(part[name], expected)) return []
    return [`${field}: sent ${JSON.stringify(expected)}, returned ${JSON.stringify(part[name])}`]
  })
}

/** Amounts may be off by what binary arithmetic leaves behind. */
function isNear(a: unknown, b: unknown): boolean {
  return typeof a === 'number' && typeof b === 'number' && Math.abs(a - b) <= Math.abs(b) * 4 * Number.EPSILON
}
