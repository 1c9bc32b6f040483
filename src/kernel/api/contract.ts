import * as z from 'zod/mini'
import type { Permission } from '../gate/permissions.ts'
import type { ErrorKind } from '../http/errors.ts'
// This import also sets the messages of every schema.
import { notListed } from '../http/messages.ts'

/**
 * An endpoint as data, from which its route is mounted, its input validated and its description published. Every
 * endpoint can also return 401, 403, 405, 429, 500 and 503; `errors` lists the others.
 */
export interface Contract {
  method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  /** Below `/api/v1`, with `{name}` for a parameter. */
  path: string
  operationId: string
  tag: string
  /** Null allows any token. */
  permission: Permission | null
  /** The least role, for the administration API, whose callers have roles instead of permissions. */
  role?: Role
  /** A POST that changes nothing: it ignores an `Idempotency-Key`. */
  isReadOnly?: true
  params?: z.ZodMiniType
  /** The error of invalid path parameters: 404 by default, since no resource can have them. */
  invalidParams?: 'invalid_request'
  query?: z.ZodMiniType
  body?: z.ZodMiniType
  /** {@link BODY_LIMIT_BYTES} by default. */
  bodyLimitBytes?: number
  /** The handler gets the body as UTF-8 bytes and validates it itself; `body` is only published. */
  hasRawBody?: true
  response: z.ZodMiniType
  /** The media type of the response: JSON by default. */
  mediaType?: 'application/x-ndjson'
  /** The response carries an `ETag`, and `If-None-Match` may give 304. */
  hasEtag?: true
  /** The response may have a `Link` to the next page. */
  isPaged?: true
  /** The response is one client or order, and carries its version as a strong `ETag`. */
  hasVersion?: true
  /** A PUT that takes `If-None-Match: *`. */
  createsOnly?: true
  /** For the administration API: the company in the path may not exist yet. */
  createsCompany?: true
  /** The number of requests that it counts as: 1 by default. */
  countRequests?(body: unknown): number
  errors: readonly ErrorKind[]
}

export const BODY_LIMIT_BYTES = 1_048_576

/** Roles in ascending order: each includes the ones before it. `member` is everyone signed in. */
export const ROLES = ['member', 'developer', 'owner', 'operator'] as const

export type Role = (typeof ROLES)[number]

export function takesKey({ method, role, isReadOnly }: Pick<Contract, 'method' | 'role' | 'isReadOnly'>): boolean {
  return role === undefined && !isReadOnly && (method === 'POST' || method === 'PATCH' || method === 'DELETE')
}

export interface Documentation {
  summary: string
  description: string
  /**
   * One example of the input's parts. A test checks it against the contract, sends it and records the response in
   * `src/site/reference/examples.json`, unless a response is given here. Left out where the input has no parts.
   */
  example?: { params?: Record<string, string>; query?: Record<string, unknown>; body?: unknown; response?: unknown }
}

export type At = `${Contract['method']} /${string}`
export type Given = Partial<Contract> & Pick<Contract, 'response'>
type Inherited<G> = Omit<Contract, 'params' | 'query' | 'body' | 'method' | 'path' | keyof G>
type Defined<A extends At, G extends Given> = Inherited<G> &
  G &
  (A extends `${infer M} ${infer P}` ? { method: M & Contract['method']; path: P } : never)

/**
 * Makes the contracts of one tag. By default a GET needs the permission to read the resource, another method that to
 * write it; null allows any token.
 */
export function contractsOf(tag: string, resource: (Permission extends `${infer R}:${string}` ? R : never) | null) {
  return <A extends At, const G extends Given>(operationId: string, at: A, given: G) => {
    const [method, path] = at.split(' ')
    const permission = resource && `${resource}:${method === 'GET' ? 'read' : 'write'}`
    const all: object = { tag, permission, errors: [], method, path, operationId, ...given }
    // The types of the method and the path are in `at`.
    return all as Defined<A, G>
  }
}

type Rule<T extends z.core.$ZodShape> = z.core.$ZodCheck<z.output<z.ZodMiniObject<T, z.core.$strict>>>

/** A strict object with rules of its own, published as a schema named `id`. */
export function component<T extends z.core.$ZodShape>(id: string, description: string, fields: T, ...rules: Rule<T>[]) {
  return z.strictObject(fields).check(...rules, z.meta({ id, description }))
}

/** A {@link component} of fields to change, of which a body must name one: `{}` would change nothing. */
export function changesOf<T extends z.core.$ZodShape>(id: string, description: string, fields: T, ...rules: Rule<T>[]) {
  return z.strictObject(fields).check(namesAField, ...rules, z.meta({ id, description, minProperties: 1 }))
}

/** A value that may be left out, and is then this one, as is published. */
export function withDefault<T extends z.ZodMiniType>(
  schema: T,
  value: Parameters<typeof z._default<T>>[1],
  description?: string,
) {
  return z._default(schema, value).check(z.meta({ default: value, ...(description && { description }) }))
}

type Parsed<T> = T extends z.ZodMiniType ? z.output<T> : undefined

export interface Input<C extends Contract> {
  params: Parsed<C['params']>
  query: Parsed<C['query']>
  body: C extends { hasRawBody: true } ? Uint8Array : Parsed<C['body']>
}

export type ResponseBody<C extends Contract> = z.output<C['response']>

/** Requires that a body changes something. Checked only without other issues, since it could mislead beside them. */
const namesAField = z.refine<object>((body) => Object.keys(body).length > 0, {
  error: 'must name at least one field to change',
  when: ({ issues }) => issues.length === 0,
})

/** Counts Unicode code points, as JSON Schema does. */
function isLonger(text: string, max: number): boolean {
  return text.length > max && (text.length > max * 2 || Array.from(text).length > max)
}

/** The values of JSON by their level, from 0: without recursion, since a body may be deeper than the stack. */
export function* levelsOf(value: unknown): Generator<unknown[], void> {
  const childrenOf = (each: unknown) => (typeof each === 'object' && each !== null ? Object.values(each) : [])
  for (let level = [value]; level.length > 0; level = level.flatMap(childrenOf)) yield level
}

/** For published patterns: any character but control characters, and the same without white space. */
const IN_LINE = '[^\\x00-\\x1f\\x7f-\\x9f]'
const IN_WORD = '[^\\s\\x00-\\x1f\\x7f-\\x9f]'
const TRIMMED = `\\s*${IN_WORD}(${IN_LINE}*${IN_WORD})?\\s*`

/** Text of `min` to `max` characters, stored as sent; line breaks and tabs are allowed. */
export function text(min: 0 | 1, max: number) {
  return z.string().check(
    z.refine((value) => value.length >= min && !isLonger(value, max), {
      error: ({ input }) => (input === '' ? 'must not be blank' : `must have at most ${max} characters`),
    }),
    z.refine((value) => value.isWellFormed(), 'must be well-formed Unicode, without lone surrogates'),
    z.meta({ minLength: min, maxLength: max }),
  )
}

/**
 * A text of one line and 1 to `max` characters, stored as sent. The published pattern uses plain ranges, which generated
 * clients can compile in any language.
 */
export function oneLine(max: number) {
  return text(1, max).check(
    z.refine((value) => !/\p{Cc}/u.test(value), 'must not contain control characters, such as line breaks or tabs'),
    z.meta({ minLength: 1, maxLength: max, pattern: `^${IN_LINE}*$` }),
  )
}

export function trimmed(max: number) {
  return z
    .pipe(z.string().check(z.trim()), oneLine(max))
    .check(z.meta({ minLength: 1, maxLength: max, pattern: `^${TRIMMED}$` }))
}

/** An id in a body: a positive integer up to 2^53 − 1. */
export const id = z.int().check(z.positive(), z.meta({ maximum: Number.MAX_SAFE_INTEGER }))

const ID_PATTERN = /^[1-9]\d{0,15}$/

/** The id in a path segment or query value, or null: a positive integer up to 2^53 − 1, without leading zeros. */
export function parseId(value: string): number | null {
  const number = ID_PATTERN.test(value) ? Number(value) : Number.NaN
  return Number.isSafeInteger(number) ? number : null
}

/** The id in a text of a body, which is published as a pattern. */
export const idDigits = z
  .pipe(z.string().check(z.regex(ID_PATTERN, 'must be a positive integer')), z.transform(Number))
  .check(z.refine(Number.isSafeInteger, `must be at most ${Number.MAX_SAFE_INTEGER}`))

export const idText = idDigits.check(z.meta({ type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER }))

/** Without quoted local parts. Zod's own pattern refuses characters such as `&`, and domains such as `.xn--p1ai`. */
const EMAIL =
  /^(?:[\w!#$%&'*+/=?^`{|}~-]+\.)*[\w!#$%&'*+/=?^`{|}~-]+@(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+(?:[A-Za-z]{2,}|[Xx][Nn]--[A-Za-z0-9-]+)$/
export const emailAddress = () => z.email({ pattern: EMAIL })

/** An email in a query. Form decoding turns an unencoded `+` into a space, which no email contains: one in front is refused. */
export function queryEmail(maxLength: number) {
  return z.string().check(
    z.refine((value) => !value.startsWith(' '), { error: 'begins with a space: encode + as %2B', abort: true }),
    z.overwrite((value) => value.trimEnd().replaceAll(' ', '+')),
    emailAddress(),
    z.maxLength(maxLength),
  )
}

export function wholeNumber(min: number, max: number) {
  const message = `must be between ${min} and ${max}`
  return z.pipe(z.string().check(z.regex(/^\d{1,16}$/, message)), z.transform(Number)).check(
    z.refine((value) => value >= min && value <= max, message),
    z.meta({ type: 'integer', minimum: min, maximum: max }),
  )
}

/** The integrator's own id of a resource, unique in the company. Clients remove `.` and `..` from the path of a URL. */
export const externalId = trimmed(255).check(
  z.refine((value) => !/^\.{1,2}$/.test(value), 'must not be . or ..'),
  z.meta({ pattern: `^(?!\\s*\\.{1,2}\\s*$)${TRIMMED}$` }),
)

/** The id of a customer, an item or a tax code in the accounting system. */
export const accountingId = z.string().check(z.regex(/^[\w-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'))

export const version = z.int().check(z.positive(), z.describe('Raised by 1 with every change.'))

/** A comma list of some of the given names in a query; blank names none. */
export function commaList<const T extends readonly [string, ...string[]]>(names: T, description: string) {
  const name = `\\s*(?:${names.join('|')})?\\s*`
  const split = z.transform((value: string) => value.split(',').flatMap((part) => part.trim() || []))
  return z
    .pipe(z.pipe(text(0, 200), split), z.array(z.enum(names, { error: notListed(names) })))
    .check(z.meta({ type: 'string', pattern: `^${name}(?:,${name})*$` }), z.describe(description))
}

export const date = z.iso.date()

/** The last instant of a year of four digits, as milliseconds. */
export const LAST_INSTANT = Date.parse('9999-12-31T23:59:59.999Z')

/** A date-time with an offset, as milliseconds. Responses show years of four digits only. */
export const instant = z
  .pipe(z.iso.datetime({ offset: true }), z.transform(Date.parse))
  .check(z.refine((ms) => /^\d{4}-/.test(isoTime(ms)), 'must be in the years 0000 to 9999 in UTC'))

/** A date-time in a response: UTC, with milliseconds and `Z`. */
export const dateTime = z.iso.datetime({ precision: 3 })

export const currency = z.string().check(z.regex(/^[A-Z]{3}$/, 'must be three capital letters, such as USD'))

/** An amount in the company's currency, with at most 2 decimals. */
export const amount = z.number()

export const PER_PAGE_MAX = 100

/** Up to `max` different ids in a query, in ascending order: a comma list, the parameter repeated, or both. */
export function idList(max: number) {
  const element = ID_PATTERN.source.slice(1, -1)
  const parts = z.transform((sent) => [sent].flat().flatMap((part) => String(part).split(',')))
  const texts = z.array(z.string()).check(
    z.refine((texts) => texts.every((text) => ID_PATTERN.test(text.trim())), {
      error: 'must be a positive integer, or a comma list of them',
      abort: true,
    }),
    z.refine((texts) => texts.length <= max, `must have at most ${max} ids`),
    z.refine((texts) => new Set(texts.map(Number)).size === texts.length, 'must name each id only once'),
  )
  const toIds = z.transform((texts: string[]) => texts.map(Number).sort((a, b) => a - b))
  return z.pipe(z.pipe(z.pipe(z.unknown(), parts), texts), toIds).check(
    z.refine((ids) => ids.every(Number.isSafeInteger), 'must be at most 9007199254740991'),
    z.meta({ type: 'string', pattern: `^\\s*${element}\\s*(?:,\\s*${element}\\s*)*$` }),
  )
}

/** A `cursor` in a query. The longest, after a `thread_id` of 255 characters of 4 bytes, has about 1,410 characters. */
export const cursorText = z
  .string()
  .check(
    z.regex(/^[A-Za-z0-9_-]{1,1500}$/, 'must be the `next_cursor` of a response'),
    z.describe('The `next_cursor` of a response to the same query: the page after it.'),
  )

/** Milliseconds since the epoch as UTC with milliseconds and `Z`. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}

type Times<T> = Record<'created_at' | 'updated_at', T>

export function withIsoTimes<T extends Times<number>>(row: T): Omit<T, keyof Times<number>> & Times<string> {
  return { ...row, created_at: isoTime(row.created_at), updated_at: isoTime(row.updated_at) }
}

export function isoTimeOrNull(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms)
}

export function isoDate(ms: number): string {
  return isoTime(ms).slice(0, 10)
}
