import { distance } from 'fastest-levenshtein'
import * as z from 'zod/mini'

z.config({ customError: describeIssue })

const TYPES: Record<string, string> = {
  array: 'an array',
  object: 'an object',
  record: 'an object',
  boolean: 'true or false',
}
/** Limits the unknown fields with a message, and the length of a name that gets a suggestion. */
const MAX_UNKNOWN = 100
const MAX_NAME_CHARACTERS = 100

export const FORMATS = {
  email: 'an email address such as ada@example.com',
  date: 'a date such as 2026-01-31',
  datetime: 'a date-time with an offset, such as 2026-01-31T09:30:00Z',
  uuid: 'a UUID',
}
const UNITS: Record<string, string> = { string: 'character', array: 'element' }

/**
 * Describes an issue as a predicate of its field: "`per_page` must be at most 100". Unknown fields are one issue of
 * their parent, so their messages are joined by line breaks, in the order of the first {@link MAX_UNKNOWN} keys.
 */
function describeIssue(issue: z.core.$ZodRawIssue): string {
  const { input } = issue
  switch (issue.code) {
    case 'invalid_type':
      if (input === undefined) return 'is required'
      if (issue.expected === 'int') return 'must be an integer'
      // JSON has no infinity: 1e400 becomes one.
      if (issue.expected === 'number' && typeof input === 'number') return 'must be in the range of a double'
      return `must be ${TYPES[issue.expected] ?? `a ${issue.expected}`}, not ${describeSent(input)}`
    case 'invalid_value':
      return input === undefined ? 'is required' : describeChoice(issue.values, input)
    case 'invalid_format':
      return `must be ${(FORMATS as Record<string, string>)[issue.format] ?? 'in the required format'}`
    case 'too_small':
      return describeBound(issue.origin, issue.inclusive ? 'at least' : 'greater than', issue.minimum)
    case 'too_big':
      return describeBound(issue.origin, issue.inclusive ? 'at most' : 'less than', issue.maximum)
    case 'unrecognized_keys': {
      const definition = issue.inst?._zod.def
      const known = definition && 'shape' in definition ? Object.keys(Object(definition.shape)) : []
      const describe = (name: string) => `is not a known field${suggest(name, known)}`
      return issue.keys.slice(0, MAX_UNKNOWN).map(describe).join('\n')
    }
    default:
      return 'is invalid'
  }
}

function describeBound(origin: string, comparison: string, limit: number | bigint): string {
  const unit = UNITS[origin]
  return unit ? `must have ${comparison} ${limit} ${unit}${limit === 1 ? '' : 's'}` : `must be ${comparison} ${limit}`
}

/** Names the type of what was sent, since its value may be a secret. */
function describeSent(input: unknown): string {
  if (input === null) return 'null'
  if (Array.isArray(input)) return 'an array'
  return typeof input === 'object' ? 'an object' : `a ${typeof input}`
}

function describeChoice(values: readonly unknown[], input: unknown): string {
  const list = values.map((value) => JSON.stringify(value)).join(', ')
  return `must be ${values.length > 1 ? 'one of ' : ''}${list}${suggest(input, values.map(String))}`
}

export function notListed(names: readonly string[]) {
  return ({ input }: { input?: unknown }) => `must be a comma list of ${names.join(', ')}${suggest(input, names)}`
}

/** Our fields and parameters, with what other APIs call them. */
const SYNONYMS: Record<string, readonly string[]> = {
  per_page: ['limit', 'page_size', 'pageSize', 'pagesize'],
  cursor: ['page', 'after', 'starting_after'],
  page: ['offset'],
  q: ['search', 'query'],
  sort: ['order_by'],
  updated_since: ['since', 'modified_since'],
  expand: ['include'],
  invoice_items: ['lines', 'line_items', 'items'],
  client_id: ['customer_id', 'client'],
  quantity: ['qty'],
  paid_at: ['date'],
  status_id: ['status', 'order_status_id'],
  tax_id: ['tax'],
  company_name: ['company'],
  email: ['email_address'],
  from: ['form'],
}

const HINTS: Record<string, string> = {
  company_id: 'the company is known without it',
  if_none_match: 'send the operation by itself',
}

/** Appends "; did you mean status_id?" if exactly one known name is close, ", not an array" to one, else nothing. */
function suggest(sent: unknown, known: readonly string[]): string {
  if (Array.isArray(sent)) return ', not an array'
  if (typeof sent !== 'string' || sent.length > MAX_NAME_CHARACTERS) return ''
  const meant = known.find((name) => SYNONYMS[name]?.includes(sent))
  if (meant !== undefined) return `; did you mean ${meant}?`
  if (Object.hasOwn(HINTS, sent)) return `; ${HINTS[sent]}`
  const letters = lettersOf(sent)
  // A minus means the descending order.
  const alike = known.filter((name) => name.startsWith('-') === sent.startsWith('-'))
  // The first of names with the same letters.
  const byLetters = new Map(alike.toReversed().map((name) => [lettersOf(name), name]))
  const isClose = (other: string) => distance(letters, other) <= Math.min(2, Math.floor(other.length / 4))
  const [only = '', ...others] = byLetters.has(letters) ? [letters] : [...byLetters.keys()].filter(isClose)
  const found = others.length === 0 && byLetters.get(only)
  return found ? `; did you mean ${found}?` : ''
}

const lettersOf = (name: string) => name.toLowerCase().replaceAll(/[^a-z\d]/g, '')

export function describeBytes(bytes: number): string {
  return bytes < 1_048_576 ? `${bytes} bytes` : `${Number((bytes / 1_048_576).toFixed(2))} MiB`
}

export function joinOr(names: readonly string[]): string {
  return names.length > 1 ? `${names.slice(0, -1).join(', ')} or ${names.at(-1)}` : names.join()
}

/** @returns undefined for a text that is not JSON, or has more values: parsed, one may take ten times its bytes */
export function parseJson(text: string, maxValues = Number.POSITIVE_INFINITY): unknown {
  if (maxValues < text.length && !text.matchAll(/[,[{]/g).drop(maxValues).next().done) return
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What is wrong with JSON, by V8's message, whose other parts may quote the body. */
export function describeSyntax(message: string): string {
  const [, problem = ''] =
    /^(Unexpected token '.'|[A-Z].*?)(?=, (?:\.{3})?"| in JSON| after JSON|$)/su.exec(message) ?? []
  const [place] = /line \d+ column \d+/.exec(message) ?? []
  const named = problem && `: ${problem[0]?.toLowerCase()}${problem.slice(1)}`
  return `is not valid JSON${named}${place ? ` at ${place}` : ''}`
}
