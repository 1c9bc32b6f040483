import { describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import { amount, date, dateTime, id, idText, trimmed, wholeNumber } from '../../../src/kernel/api/contract.ts'
import examples from '../../../src/site/reference/examples.json'
import { SchemaWriter } from '../../../src/site/reference/schema.ts'
import { expectConforms } from '../../support/conformance.ts'

const nullableText = { type: ['string', 'null'] }
const positive = { type: 'integer', minimum: 1, maximum: 9007199254740991 }
const object = { type: 'object' }
const withText = { properties: { a: { type: 'string' } }, required: ['a'] }
const pattern = (regex: RegExp) => z.string().check(z.regex(regex))
const text = (pattern: string) => ({ type: 'string', pattern })
const upTo100 = { type: 'integer', minimum: 1, maximum: 100 }

describe('a Zod schema is published as what it accepts', () => {
  const cases: [string, z.ZodMiniType, 'input' | 'output', unknown][] = [
    ['an id', id, 'output', positive],
    ['an id in a query', idText, 'input', positive],
    ['a number in a query', wholeNumber(1, 100), 'input', upTo100],
    ['a default behind a transform', z._default(wholeNumber(1, 100), 25), 'input', { ...upTo100, default: 25 }],
    ['trimmed text', trimmed(255), 'input', expect.objectContaining({ type: 'string', minLength: 1, maxLength: 255 })],
    ['the rules behind a trim', z.pipe(z.string().check(z.trim()), pattern(/^x$/)), 'input', text('^x$')],
    ['a pattern with slashes and backslashes', pattern(/^\/a\\\/[^/]$/), 'input', text('^/a\\\\/[^/]$')],
    ['nullable text', z.nullable(z.string()), 'output', nullableText],
    ['a nullable enum', z.nullable(z.enum(['a', 'b'])), 'output', { ...nullableText, enum: ['a', 'b', null] }],
    ['a date', date, 'input', { type: 'string', format: 'date' }],
    ['a date-time in a request', z.iso.datetime({ offset: true }), 'input', { type: 'string', format: 'date-time' }],
    ['a date-time in a response', dateTime, 'output', { type: 'string', format: 'date-time', pattern: '\\.\\d{3}Z$' }],
    ['an amount', amount, 'output', { type: 'number' }],
    ['an object of anything', z.record(z.string(), z.unknown()), 'output', { ...object, additionalProperties: true }],
    [
      'a strict body',
      z.strictObject({ a: z.optional(z.string()) }),
      'input',
      { ...object, properties: { a: { type: 'string' } }, additionalProperties: false },
    ],
    ['a strict response', z.strictObject({ a: z.string() }), 'output', { ...object, ...withText }],
  ]
  it('a default in a body as text, since generators would make its field required', () => {
    const body = z.strictObject({
      a: z._default(z.int().check(z.describe('A number.')), 1),
      default: z._default(z.boolean(), true),
    })
    const { properties, required } = new SchemaWriter().write(body, 'body')
    expect(required).toBeUndefined()
    expect(properties).toEqual({
      a: expect.objectContaining({ type: 'integer', description: 'A number. Default: `1`.' }),
      default: { type: 'boolean', description: 'Default: `true`.' },
    })
  })

  it.each(cases)('%s', (_name, schema, io, expected) => {
    expect(new SchemaWriter().write(schema, io)).toEqual(expected)
  })
})

describe('components', () => {
  const shared = z.strictObject({ a: id }).check(z.meta({ id: 'Shared', description: 'Used twice.' }))

  it('holds a schema with an id once and refers to it', () => {
    const writer = new SchemaWriter()
    const reference = { $ref: '#/components/schemas/Shared' }
    expect(writer.write(shared, 'output')).toEqual(reference)
    expect(writer.write(z.array(shared), 'output')).toEqual({ type: 'array', items: reference })
    expect(writer.write(z.nullable(shared), 'output')).toEqual({ anyOf: [reference, { type: 'null' }] })
    expect([...writer.components.keys()]).toEqual(['Shared'])
  })

  it('publishes any JSON by name', () => {
    const writer = new SchemaWriter()
    expect(writer.write(z.array(z.json()), 'output')).toEqual({
      type: 'array',
      items: { $ref: '#/components/schemas/JsonValue' },
    })
    expect(writer.components.get('JsonValue')).toEqual({ description: 'Any JSON value.' })
  })

  it('throws for two schemas that differ under one id', () => {
    const differing = z
      .strictObject({ a: z.string(), b: z._default(z.string(), 'x') })
      .check(z.meta({ id: 'Differing' }))
    const writer = new SchemaWriter()
    writer.write(differing, 'input')
    expect(() => writer.write(differing, 'output')).toThrow('Two different schemas have the id Differing.')
  })

  it('throws for a schema that refers to itself and has no id', () => {
    const tree: z.ZodMiniType = z.strictObject({ children: z.lazy(() => z.array(tree)) })
    expect(() => new SchemaWriter().write(z.array(tree), 'output')).toThrow('refers to itself')
  })
})

const HEADERS = {
  'content-type': 'application/json',
  'access-control-allow-origin': '*',
  'x-request-id': 'r-1',
  'x-content-type-options': 'nosniff',
  'ratelimit-policy':
    '"default";q=300;w=60, "database";q=15000;w=60;qu="milliseconds", "company";q=40000;w=60;qu="milliseconds"',
  ratelimit: '"default";r=299;t=60, "database";r=14998;t=60, "company";r=40000;t=60',
  etag: '"1-0"',
  vary: 'Accept-Encoding',
}

interface Change {
  method?: string
  path?: string
  status?: number
  body?: unknown
  /** Headers to set, or with null to leave out. */
  headers?: Record<string, string | null>
}

const client = examples.readClient

function error(code: string, details: object = {}, message = 'No.') {
  return { error: { code, message, details: { documentation_url: 'https://api.test/#errors', ...details } } }
}

/** A response that conforms to GET /clients/42, except for the change. */
function respond(change: Change = {}): [Request, Response] {
  const { method = 'GET', path = '/api/v1/clients/42', status = 200, body = client, headers = {} } = change
  const all = Object.entries({ ...HEADERS, ...headers }).filter((entry): entry is [string, string] => entry[1] !== null)
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return [
    new Request(`https://api.test${path}`, { method }),
    new Response(status === 204 ? null : text, { status, headers: all }),
  ]
}

const UNAUTHENTICATED: Change = {
  status: 401,
  body: error('unauthenticated'),
  headers: { 'www-authenticate': 'Bearer', ratelimit: null, 'ratelimit-policy': null },
}
const issues = { issues: [{ path: 'email', message: 'must be an email' }] }

describe('expectConforms rejects', () => {
  const { email, ...withoutEmail } = client.client
  const withField = (field: object) => ({ body: { client: { ...client.client, ...field } } })
  const cases: [string, Change, RegExp][] = [
    ['an unknown field', withField({ secret: 1 }), /#\/client: Property "secret" does not match/],
    ['an unknown field beside', { body: { ...client, extra: null } }, /body #: Property "extra" does not match/],
    ['a missing field', { body: { client: withoutEmail } }, /required property "email"/],
    ['a wrong type', withField({ id: '42' }), /#\/client\/id.*"string" is invalid/],
    ['a date-time without milliseconds', withField({ created_at: '2026-03-02T09:30:00Z' }), /created_at.*pattern/],
    ['an undocumented status', { status: 201 }, /status is not among 200, 304, 400, 401/],
    ['a status of another operation', { status: 413, body: error('invalid_request', { limit_bytes: 1 }) }, /not among/],
    ['an error as 200', { body: error('not_found') }, /required property "client"/],
    ['another media type', { headers: { 'content-type': 'text/html' } }, /Content-Type is text\/html/],
    ['text that is not JSON', { body: '{' }, /not JSON/],
    ['a body to HEAD', { method: 'HEAD', body: '{}' }, /HEAD has no body/],
    ['no request id', { headers: { 'x-request-id': null } }, /X-Request-Id is missing/],
    ['no nosniff', { headers: { 'x-content-type-options': null } }, /x-content-type-options is missing/],
    ['no CORS', { headers: { 'access-control-allow-origin': null } }, /access-control-allow-origin is missing/],
    ['no rate limit', { headers: { ratelimit: null } }, /RateLimit is missing/],
    ['a malformed rate limit', { headers: { ratelimit: 'limit=300' } }, /header RateLimit .*pattern/],
    ['one limit of two', { headers: { ratelimit: '"default";r=299;t=60' } }, /header RateLimit .*pattern/],
    ['a 401 without its header', { ...UNAUTHENTICATED, headers: {} }, /WWW-Authenticate is missing/],
    ['a 429 without Retry-After', { status: 429, body: error('rate_limited', { retry_after: 7 }) }, /Retry-After is m/],
    ['an unknown code', { status: 404, body: error('gone') }, /error\/code/],
    ['a code of another status', { status: 404, body: error('forbidden') }, /code forbidden is not one of not_found/],
    ['an error without details', { status: 404, body: { error: { code: 'not_found', message: 'No.' } } }, /details/],
    [
      'details of another status',
      { status: 404, body: error('not_found', issues) },
      /has documentation_url and issues/,
    ],
    ['a 400 without issues', { status: 400, body: error('invalid_request') }, /details has no issues/],
    ['a 500 without the request id', { status: 500, body: error('internal_error') }, /lacks the request id/],
    ['a 405 without Allow', { method: 'PUT', status: 405, body: error('invalid_request') }, /Allow is missing/],
    ['200 on an unknown path', { path: '/api/v1/nothing' }, /status is not among 404/],
    ['404 for another method', { method: 'PUT', status: 404, body: error('not_found') }, /status is not among 405/],
    ['a preflight with 200', { method: 'OPTIONS' }, /preflight returns 204/],
  ]
  it.each(cases)('%s', async (_name, change, expected) => {
    await expect(expectConforms(...respond(change))).rejects.toThrow(expected)
  })
})
