import { distance } from 'fastest-levenshtein'
import * as z from 'zod/mini'

z.config({ customError: describeIssue })

const TYPES: Record<string, string> = {
  int: 'an integer',
  array: 'an array',
  object: 'an object',
  record: 'an object',
  boolean: 'true or false',
}
/** Messages echo short values of these types only, since no secret has one. */
const ECHOED_TYPES = ['number', 'int', 'boolean']
const MAX_ECHO_CHARACTERS = 20
/** Limits the unknown fields with a message, and the length of a name that gets a suggestion. */
const MAX_UNKNOWN = 100
const MAX_NAME_CHARACTERS = 100

export const FORMATS = {
  email: 'an email address such as ada@example.com',
  date: 'a date such as 2026-01-31',
  datetime: 'a date-time with an offset, such as 2026-01-31T09:30:00Z',
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
      return `must be ${TYPES[issue.expected] ?? `a ${issue.expected}`}, not ${describeSent(input, issue.expected)}`
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

/**
 * Whether the next issue is of the same value and kind: then it has the field's own bound, and this one that of exact
 * integers.
 */
export function isFartherBound({ code, path }: z.core.$ZodIssue, next: z.core.$ZodIssue | undefined): boolean {
  return (code === 'too_small' || code === 'too_big') && next?.code === code && String(next.path) === String(path)
}

function describeBound(origin: string, comparison: string, limit: number | bigint): string {
  const unit = UNITS[origin]
  return unit ? `must have ${comparison} ${limit} ${unit}${limit === 1 ? '' : 's'}` : `must be ${comparison} ${limit}`
}

/** Echoes a short number or flag, else names the value's type. */
function describeSent(input: unknown, expected: string): string {
  const isShort = typeof input === 'string' ? input.length <= MAX_ECHO_CHARACTERS : typeof input !== 'object'
  const isEchoed = isShort && ECHOED_TYPES.includes(expected)
  if (input === null) return 'null'
  if (Array.isArray(input)) return 'an array'
  if (typeof input === 'object') return 'an object'
  if (typeof input === 'string') return isEchoed ? `the string ${JSON.stringify(input)}` : 'a string'
  return isEchoed ? String(input) : `a ${typeof input}`
}

function describeChoice(values: readonly unknown[], input: unknown): string {
  const list = values.map((value) => JSON.stringify(value)).join(', ')
  return `must be ${values.length > 1 ? 'one of ' : ''}${list}${suggest(input, values.map(String))}`
}

/** The message for a name outside of a comma list's. */
export function notListed(names: readonly string[]) {
  return ({ input }: { input?: unknown }) => {
    const isShort = typeof input === 'string' && input.length <= MAX_ECHO_CHARACTERS
    const sent = isShort ? `, not ${JSON.stringify(input)}` : ''
    return `must be a comma list of ${names.join(', ')}${sent}${suggest(input, names)}`
  }
}

/** What other APIs call our fields and parameters. */
const SYNONYMS: Record<string, string> = {
  limit: 'per_page',
  page_size: 'per_page',
  pageSize: 'per_page',
  pagesize: 'per_page',
  page: 'cursor',
  offset: 'page',
  after: 'cursor',
  starting_after: 'cursor',
  search: 'q',
  query: 'q',
  order_by: 'sort',
  since: 'updated_since',
  modified_since: 'updated_since',
  include: 'expand',
  lines: 'invoice_items',
  line_items: 'invoice_items',
  items: 'invoice_items',
  customer_id: 'client_id',
  qty: 'quantity',
  date: 'paid_at',
}

const HINTS: Record<string, string> = {
  company_id: 'the company is known without it',
  if_none_match: 'send the operation by itself',
}

/** Appends "; did you mean status_id?" if exactly one known name is close, else nothing. */
function suggest(sent: unknown, known: readonly string[]): string {
  if (typeof sent !== 'string' || sent.length > MAX_NAME_CHARACTERS) return ''
  const synonym = Object.hasOwn(SYNONYMS, sent) ? SYNONYMS[sent] : undefined
  if (synonym !== undefined && known.includes(synonym)) return `; did you mean ${synonym}?`
  if (Object.hasOwn(HINTS, sent)) return `; ${HINTS[sent]}`
  let found = ''
  let best = 0
  for (const name of known) {
    const score = similarity(sent, name)
    if (score === best && lettersOf(name) !== lettersOf(found)) found = ''
    if (score > best) {
      found = name
      best = score
    }
  }
  return found && `; did you mean ${found}?`
}

/**
 * 3 for the same letters, 2 to 3 for slips of one or two letters, up to 1 for shared words; 0 if the names are not
 * close.
 */
function similarity(sent: string, name: string): number {
  const [a, b] = [lettersOf(sent), lettersOf(name)]
  if (a === b) return 3
  const allowed = Math.min(2, Math.floor(Math.min(a.length, b.length) / 4))
  // Transposed letters, as in `form` for `from`, count as one slip.
  const countSlips = () => (sorted(a) === sorted(b) ? 1 : distance(a, b))
  const slips = Math.abs(a.length - b.length) <= allowed ? countSlips() : Number.POSITIVE_INFINITY
  if (slips <= allowed) return 3 - slips / 3
  const [words, others] = [wordsOf(sent), wordsOf(name)]
  const [fewer, more] = words.size < others.size ? [words, others] : [others, words]
  const isPart = fewer.isSubsetOf(more) && fewer.size * 2 >= more.size
  return isPart ? fewer.size / more.size : 0
}

const wordsOf = (name: string) =>
  new Set(
    name
      .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
      .toLowerCase()
      .match(/[a-z\d]+/g),
  )
const sorted = (letters: string) => [...letters].sort().join()
const lettersOf = (name: string) => name.toLowerCase().replaceAll(/[^a-z\d]/g, '')

/** Formats a size for people: bytes below 1 MiB, else MiB with at most 2 decimals. */
export function describeBytes(bytes: number): string {
  return bytes < 1_048_576 ? `${bytes} bytes` : `${Number((bytes / 1_048_576).toFixed(2))} MiB`
}

export function joinOr(names: readonly string[]): string {
  return names.length > 1 ? `${names.slice(0, -1).join(', ')} or ${names.at(-1)}` : names.join()
}

/** What is wrong with JSON, by V8's message, whose other parts may quote the body. */
export function describeSyntax(message: string, text = ''): string {
  const [, problem = ''] =
    /^(Unexpected token '.'|[A-Z].*?)(?=, (?:\.{3})?"| in JSON| after JSON|$)/su.exec(message) ?? []
  const [place = findToken(message, text)] = /line \d+ column \d+/.exec(message) ?? []
  const named = problem && `: ${problem[0]?.toLowerCase()}${problem.slice(1)}`
  return `is not valid JSON${named}${place ? ` at ${place}` : ''}`
}

/** The position of an unexpected token, which V8 quotes with ten characters on each side, if the text has these once. */
function findToken(message: string, text: string): string | undefined {
  const [, token = '', start, quoted = '', end] =
    /^Unexpected token '(.)', (\.{3})?"(.*)"(\.{3})? is not valid JSON$/su.exec(message) ?? []
  const sought = start || end ? quoted : token
  const [before, after, ...others] = sought ? text.split(sought) : []
  if (after === undefined || others.length > 0) return undefined
  const lines = `${before}${sought.slice(0, start ? 10 : -10)}`.split('\n')
  return `line ${lines.length} column ${(lines.at(-1) ?? '').length + 1}`
}
