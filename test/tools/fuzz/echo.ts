import { isDeepStrictEqual } from 'node:util'
import { isObject, type Json, type JsonObject } from '../../../src/site/reference/json.ts'
import { type Draft, writeObject } from './draft.ts'

/** How deep a message may be for the comparison not to run out of stack. */
const MAX_TEXT = 50_000

type Places = Readonly<Record<string, readonly [place: string, name: string]>>

/** Fields that a part of the response has under their own names. */
const placesIn = (place: string, ...names: string[]): Places =>
  Object.fromEntries(names.map((name) => [name, [place, name]]))

const CLIENT: Places = {
  ...placesIn('client', 'company_name', 'first_name', 'last_name', 'email', 'website', 'phone', 'deleted'),
  ...placesIn('client', 'accounting_sync_enabled', 'tax_exempt', 'tax_exempt_reason'),
}

const ORDER: Places = {
  ...placesIn('project', 'title', 'client_id', 'description', 'start_date', 'deadline', 'client_notes'),
  status_id: ['project', 'order_status_id'],
  ...placesIn('invoice', 'tax_exempt', 'tax_exempt_reason', 'discount_amount', 'discount_type'),
}

const THREAD: Places = {
  ...placesIn('email_thread', 'messages', 'participants', 'labels', 'subject', 'snippet'),
  ...placesIn('email_thread', 'mail_thread_id', 'mail_history_id'),
}

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
