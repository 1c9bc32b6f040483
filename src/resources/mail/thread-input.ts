import { Buffer } from 'node:buffer'
import { LruCache } from '../../kernel/http/cache.ts'
import { type Issue, invalid } from '../../kernel/http/errors.ts'
import { FORMATS } from '../../kernel/http/messages.ts'
import { hashOf } from './content.ts'
import { accountEmail, MAX_TEXT_BYTES } from './contract.ts'
import { JsonError, type Member, scanObject } from './json-scan.ts'

export const TEXT_FIELDS = ['mail_thread_id', 'subject', 'snippet', 'mail_history_id'] as const
export type TextField = (typeof TEXT_FIELDS)[number]

export const TIME_FIELDS = ['first_message_at', 'last_message_at', 'last_synced_at'] as const
type TimeField = (typeof TIME_FIELDS)[number]

const ARRAY_FIELDS = ['participants', 'labels', 'messages'] as const
type ArrayField = (typeof ARRAY_FIELDS)[number]

const SCALARS = Object.fromEntries(['account_email', ...TEXT_FIELDS, ...TIME_FIELDS].map((field) => [field, null]))
/** Fields to read; arrays with the kind of their elements. */
const FIELDS = {
  ...(SCALARS as Record<'account_email' | TextField | TimeField, null>),
  ...({ participants: 'object', labels: 'string', messages: 'object' } as const),
}

/** The arrays of a thread; an omitted one is empty. */
export interface Content extends Record<ArrayField, Member> {
  /** SHA-256 of {@link contentText}, lower-case hex. */
  hash: string
}

export type ThreadInput = ReturnType<typeof parseThread>

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const EMPTY_ARRAY: Member = { text: encoder.encode('[]'), kind: 'array', count: 0, mismatches: [] }

/** Emails and date-times are shorter, so a longer text is not even decoded. */
const SHORT_TEXT_BYTES = 4_096
/** The estimated size of a cache entry besides its bodies. */
const CACHE_ENTRY_BYTES = 2_000

/**
 * Caches small content by company and thread, each array a view of its body: the same bytes need no new scan and hash.
 */
export const contentCache = new LruCache<string, Content>({
  maxWeight: 8_000_000,
  weigh: (content) => {
    const bodies = new Set(ARRAY_FIELDS.map((field) => content[field].text.buffer))
    return Array.from(bodies).reduce((bytes, body) => bytes + body.byteLength, CACHE_ENTRY_BYTES)
  },
})

/** Builds the JSON text of the three arrays as members of an object, in pieces. */
export function contentText(content: Record<ArrayField, Member>): Uint8Array[] {
  return ARRAY_FIELDS.flatMap((field, index) => [
    encoder.encode(`${index > 0 ? ',' : ''}"${field}":`),
    content[field].text,
  ])
}

/**
 * Reads the UTF-8 of a PUT without building its values: arrays keep the bytes that were sent, so that no number or
 * escape in them changes.
 *
 * @param cached content of an earlier body: an array with the same bytes is reused
 * @returns the lower-case email, texts as JSON and times in milliseconds; an omitted field is absent
 * @throws ApiError 400 with every issue's path
 */
export function parseThread(bytes: Uint8Array, cached?: Content) {
  const members = scan(bytes, cached)
  const issues: Issue[] = []
  const report = (path: string, message: string) => issues.push({ path, message })
  const email = accountEmail.safeParse(shortText(members.get('account_email')))
  if (!email.success) {
    report('account_email', members.has('account_email') ? `must be ${FORMATS.email}` : 'is required')
  }
  const texts: Partial<Record<TextField, string | null>> = {}
  for (const field of TEXT_FIELDS) {
    const member = members.get(field)
    if (!member) continue
    if (member.kind !== 'string' && member.kind !== 'null')
      report(field, `must be a string or null, not ${nounOf(member)}`)
    else texts[field] = member.kind === 'null' ? null : storedText(member.text)
    if (texts[field] === '') report(field, TOO_LONG)
  }
  const times: Partial<Record<TimeField, number | null>> = {}
  for (const field of TIME_FIELDS) {
    const member = members.get(field)
    if (!member) continue
    const time = parseDateTime(shortText(member))
    if (time === null && member.kind !== 'null') report(field, `must be ${FORMATS.datetime}, or null`)
    times[field] = time
  }
  const arrayOf = (field: ArrayField): Member => {
    const member = members.get(field) ?? EMPTY_ARRAY
    const element = FIELDS[field]
    if (member.kind !== 'array') report(field, `must be an array of ${element}s, not ${nounOf(member)}`)
    for (const index of member.mismatches) report(`${field}.${index}`, `must be ${NOUNS[element]}`)
    return member
  }
  const arrays = { participants: arrayOf('participants'), labels: arrayOf('labels'), messages: arrayOf('messages') }
  if (!members.has('messages')) report('messages', 'is required')
  if (!email.success || issues.length > 0) throw invalid(issues)

  const isCached = cached && ARRAY_FIELDS.every((field) => arrays[field] === cached[field])
  const content: Content = { ...arrays, hash: isCached ? cached.hash : hashOf(contentText(arrays)) }
  return { accountEmail: email.data, texts, times, content }
}

function scan(bytes: Uint8Array, cached?: Content): Map<keyof typeof FIELDS, Member> {
  try {
    const members = scanObject(bytes, FIELDS, cached)
    if (members) return members
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw invalid([{ path: '', message: bytes.length === 0 ? 'is required' : 'is not valid JSON' }])
  }
  throw invalid([{ path: '', message: 'must be an object' }])
}

const NOUNS = { object: 'an object', string: 'a string' }

/** Names the kind of a value, for a message. */
function nounOf({ kind, text: [first = 0] }: Member): string {
  if (kind === 'null') return 'null'
  if (kind === 'other') return TRUE_OR_FALSE.has(first) ? 'a boolean' : 'a number'
  return kind === 'string' ? 'a string' : `an ${kind}`
}

const TRUE_OR_FALSE: ReadonlySet<number> = new Set(encoder.encode('tf'))

/** A row of D1 has at most 2,000,000 bytes, and escapes may make a text six times as long. */
const MAX_TEXT_JSON_BYTES = 150_000
const TOO_LONG = `must have at most ${MAX_TEXT_BYTES.toLocaleString('en')} bytes of UTF-8, and ${MAX_TEXT_JSON_BYTES.toLocaleString('en')} as JSON`

/** The text as the shortest JSON; empty if it is too long. */
function storedText(text: Uint8Array): string {
  if (text.length > 6 * MAX_TEXT_BYTES + 2) return ''
  const value: string = JSON.parse(decoder.decode(text))
  const json = JSON.stringify(value)
  const fits = Buffer.byteLength(value) <= MAX_TEXT_BYTES && Buffer.byteLength(json) <= MAX_TEXT_JSON_BYTES
  return fits ? json : ''
}

/** Reads a short string, else an empty text. */
function shortText(member: Member | undefined): string {
  const isShort = member?.kind === 'string' && member.text.length <= SHORT_TEXT_BYTES
  return isShort ? JSON.parse(decoder.decode(member.text)) : ''
}

const DATE_TIME =
  /^(\d{4}-\d\d-\d\d)T((?:[01]\d|2[0-3]):[0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,30}))?)?(?:Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)$/i

/**
 * Parses an ISO 8601 date-time with an offset to milliseconds since the epoch; finer fractions are truncated. Null for
 * any other text, a day that does not exist, and a UTC year without four digits.
 */
export function parseDateTime(text: string): number | null {
  const parts = DATE_TIME.exec(text)
  if (!parts) return null
  const [, date = '', time, second = '00', fraction = '', sign = '+', hours = '0', minutes = '0'] = parts
  const local = Date.parse(`${date}T${time}:${second}.${fraction.slice(0, 3).padEnd(3, '0')}Z`)
  // A day that does not exist is rejected or becomes a day of the next month.
  if (Number.isNaN(local) || !new Date(local).toISOString().startsWith(date)) return null
  const ms = local - Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * 60_000
  return /^\d{4}-/.test(new Date(ms).toISOString()) ? ms : null
}
