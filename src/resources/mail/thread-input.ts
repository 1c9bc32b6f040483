import { Buffer } from 'node:buffer'
import { type Issue, invalid } from '../../kernel/http/errors.ts'
import { FORMATS } from '../../kernel/http/messages.ts'
import { hashOf, lengthOf } from './content.ts'
import { accountEmail, MAX_TEXT_BYTES, TEXT_FIELDS, type TextField } from './contract.ts'
import { type Kind, type Member, scanObject } from './json-scan.ts'

const TIME_FIELDS = ['first_message_at', 'last_message_at', 'last_synced_at'] as const

/** The arrays, with the kind of their elements. */
const ARRAYS = { participants: 'object', labels: 'string', messages: 'object' } as const

const FIELDS = ['account_email', ...TEXT_FIELDS, ...TIME_FIELDS, ...Object.keys(ARRAYS)]

export type ThreadColumns = ReturnType<typeof parseThread>['columns']

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const EMPTY_ARRAY: Member = { text: encoder.encode('[]'), kind: 'array', count: 0, mismatches: [] }

/** Emails, ids and date-times are shorter, so a longer value is not even decoded. */
const SHORT_VALUE_BYTES = 4_096

/**
 * Reads the UTF-8 of a PUT without building its values: arrays keep the bytes that were sent, so that no number or
 * escape in them changes.
 *
 * @returns `content` is the JSON text of the three arrays as members of an object, in pieces. `columns` has texts as
 *   JSON, times in milliseconds, and the SHA-256 of the content in lower-case hex; an omitted text or time is absent
 * @throws ApiError 400 with every issue's path
 */
export function parseThread(bytes: Uint8Array) {
  const members = scan(bytes)
  const issues: Issue[] = []
  const report = (path: string, message: string) => issues.push({ path, message })
  const email = accountEmail.safeParse(shortValue(members.get('account_email')))
  if (!email.success) {
    report('account_email', members.has('account_email') ? `must be ${FORMATS.email}` : 'is required')
  }
  const texts: Partial<Record<TextField, string | null>> = {}
  for (const field of TEXT_FIELDS) {
    const member = members.get(field)
    if (!member) continue
    if (member.kind === 'string') texts[field] = storedText(member.text)
    else if (member.kind === 'null') texts[field] = null
    else report(field, `must be a string or null, not ${NOUNS[member.kind]}`)
    if (texts[field] === '') report(field, TOO_LONG)
  }
  const times: Partial<Record<(typeof TIME_FIELDS)[number], number | null>> = {}
  for (const field of TIME_FIELDS) {
    const member = members.get(field)
    if (!member) continue
    const value = shortValue(member)
    times[field] = typeof value === 'string' ? parseDateTime(value) : null
    if (times[field] === null && member.kind !== 'null') report(field, `must be ${FORMATS.datetime}, or null`)
  }
  const content: Uint8Array[] = []
  for (const [field, element] of Object.entries(ARRAYS)) {
    const member = members.get(field) ?? EMPTY_ARRAY
    if (member.kind !== 'array') report(field, `must be an array of ${element}s, not ${NOUNS[member.kind]}`)
    for (const index of member.mismatches) report(`${field}.${index}`, `must be ${NOUNS[element]}`)
    content.push(encoder.encode(`${content.length > 0 ? ',' : ''}"${field}":`), member.text)
  }
  const messages = members.get('messages')
  if (!messages) report('messages', 'is required')
  if (!email.success || !messages || issues.length > 0) throw invalid(issues)

  const stored = { content_hash: hashOf(content), content_bytes: lengthOf(content), message_count: messages.count }
  return { accountEmail: email.data, content, columns: { ...texts, ...times, ...stored } }
}

function scan(bytes: Uint8Array): Map<string, Member> {
  try {
    const members = scanObject(bytes, FIELDS, ARRAYS)
    if (members) return members
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw invalid([{ path: '', message: bytes.length === 0 ? 'is required' : 'is not valid JSON' }])
  }
  throw invalid([{ path: '', message: 'must be an object' }])
}

const NOUNS: Record<Kind, string> = {
  object: 'an object',
  array: 'an array',
  string: 'a string',
  number: 'a number',
  boolean: 'a boolean',
  null: 'null',
}

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

/** Reads the value of short JSON; undefined for longer one. */
export function shortValue(member: Member | undefined): unknown {
  const isShort = member && member.text.length <= SHORT_VALUE_BYTES
  return isShort ? JSON.parse(decoder.decode(member.text)) : undefined
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
