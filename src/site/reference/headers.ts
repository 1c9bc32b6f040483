import { COMPANY_LIMIT_MS, DATABASE_LIMIT_MS, LIMIT, POLICY, WINDOW_MS } from '../../kernel/gate/limits.ts'
import type { JsonObject } from './json.ts'

const REQUEST_ID = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' }
const NOT_EMPTY = { type: 'string', minLength: 1 }
const RESET_SECONDS = WINDOW_MS / 1000

const pattern = (source: string) => ({ type: 'string', pattern: source })

const optional = (description: string, schema: JsonObject, example: string) => ({ description, schema, example })
/** A header that is in every response that lists it. */
const required = (description: string, schema: JsonObject, example: string) => {
  return { description, required: true, schema, example }
}

/** Response headers by name, as components. A suffix after two hyphens separates two descriptions of one header. */
export const responseHeaders = {
  'X-Request-Id': required(
    'The id of this request: yours, or one made by the server. Quote it when you report a problem.',
    REQUEST_ID,
    '3f1c2a9e-7d54-4a39-9d0e-2b1f6f6f1a10',
  ),
  'RateLimit-Policy': optional(
    'Allowed in `w` seconds: to the token, `q` requests (`default`) and `q` milliseconds of database time (`database`); to all tokens of the company together, `q` milliseconds of database time (`company`). Ignore names that you do not know.',
    pattern(
      '^"default";q=\\d+;w=\\d+, "database";q=\\d+;w=\\d+;qu="milliseconds", "company";q=\\d+;w=\\d+;qu="milliseconds"$',
    ),
    POLICY,
  ),
  RateLimit: optional(
    'Left of each limit: `r` requests or milliseconds of database time; more after `t` seconds. That of `company` may be some seconds old.',
    pattern('^"default";r=\\d+;t=\\d+, "database";r=\\d+;t=\\d+, "company";r=\\d+;t=\\d+$'),
    [
      `"default";r=${LIMIT - 1};t=${RESET_SECONDS}`,
      `"database";r=${DATABASE_LIMIT_MS - 2};t=${RESET_SECONDS}`,
      `"company";r=${COMPANY_LIMIT_MS - 9};t=${RESET_SECONDS}`,
    ].join(', '),
  ),
  'X-Bookmark': optional(
    'The version of the data. Send it with the next request to read from a replica at least as fresh.',
    NOT_EMPTY,
    '00000085-0000024c-00004c6d-8e61117bf38d7adb71b934ebbf891683',
  ),
  'Server-Timing': optional('The milliseconds that the server waited for the database.', NOT_EMPTY, 'db;dur=12'),
  ETag: required(
    'The version of the response body, which changes with it. Send it back in `If-None-Match`.',
    pattern('^(W/)?"[^"]+"$'),
    '"1.0c6f2a54-0b5f-4a53-9d53-5f0f5b8a7c11.3"',
  ),
  'ETag--version': required(
    'The version of the object, in every encoding that is accepted. Send it back in `If-Match`, after a GET also in `If-None-Match`.',
    pattern('^"\\d+(-[0-9a-f]+)?"$'),
    '"7-0c6f2a540b5f4a53"',
  ),
  'Retry-After': required('The number of seconds to wait before the next attempt.', pattern('^\\d+$'), '42'),
  'Retry-After--unavailable': optional(
    'The number of seconds to wait before the next attempt. Where it is present nothing was changed, except perhaps by a PUT without a condition.',
    pattern('^\\d+$'),
    '10',
  ),
  'Retry-After--conflict': optional(
    'The number of seconds to wait, where a request with the same `Idempotency-Key` is running.',
    pattern('^\\d+$'),
    '1',
  ),
  'Idempotency-Replayed': optional(
    'Present where this is the stored response of an earlier request with the same `Idempotency-Key`.',
    { type: 'string', const: 'true' },
    'true',
  ),
  Link: optional(
    'The address of the next page, as `<…>; rel="next"`; absent on the last one.',
    pattern('^<[^>]+>; rel="next"$'),
    '<https://api.example.com/api/v1/clients?cursor=AbC>; rel="next"',
  ),
  'Accept-Encoding': optional(
    'Present where the body was compressed: send it uncompressed, without `Content-Encoding`.',
    { type: 'string', const: 'identity' },
    'identity',
  ),
  Vary: required(
    'The response may be compressed in transit; caches must store each encoding separately.',
    pattern('Accept-Encoding'),
    'Accept-Encoding',
  ),
  'WWW-Authenticate': required(
    'The authentication scheme; with `error="invalid_token"` where the token is unknown, revoked or expired (RFC 6750).',
    pattern('^Bearer( error="invalid_token", error_description="[^"]+")?$'),
    'Bearer',
  ),
} satisfies Record<string, JsonObject>

export type HeaderName = keyof typeof responseHeaders

export const headerNameOf = (name: HeaderName): string => name.replace(/--.*/, '')

/** Headers of every error response but a 401. */
export const ERROR_HEADERS: readonly HeaderName[] = ['X-Request-Id', 'RateLimit-Policy', 'RateLimit']
/** Headers of every 200 and 304. */
export const SUCCESS_HEADERS: readonly HeaderName[] = [...ERROR_HEADERS, 'X-Bookmark', 'Server-Timing']

const requestHeader = (name: string, description: string, schema: JsonObject = { type: 'string' }) => {
  return { name, in: 'header', description, schema }
}

/** Request headers of every operation, by component name. */
export const requestHeaders = {
  RequestId: requestHeader(
    'X-Request-Id',
    'Your own id for this request, returned in the response. An invalid one is ignored.',
    REQUEST_ID,
  ),
  Bookmark: requestHeader(
    'X-Bookmark',
    'The `X-Bookmark` of a response: what it had seen is read at least. Your own writes are read without it.',
  ),
}

export const ownHeaders = {
  idempotencyKey: requestHeader(
    'Idempotency-Key',
    'A new text of yours for each new request, such as a UUID. Repeated within 24 hours with the same request and token, it returns the first response and changes nothing, also with another `If-Match`. A refusal is stored too where the company’s data is its cause: 404 except for a file, 400 such as for an unknown `client_id`, and 409 `invoice_missing`. Correct the cause, and send a new key. After any other refusal the same key tries again.',
    pattern('^[\\x21-\\x7e]{1,255}$'),
  ),
  ifMatch: requestHeader(
    'If-Match',
    'The `ETag` of the version you have read, or a version in double quotes (`"7"`), several of them, or `*`: another version gives 412, and nothing is changed. A weak tag (`W/"7"`) matches none.',
  ),
  ifNoneMatchAny: requestHeader(
    'If-None-Match',
    '`*` only creates: 412 where the external id is taken, and nothing is changed.',
    { type: 'string', const: '*' },
  ),
  ifNoneMatch: requestHeader(
    'If-None-Match',
    'The `ETag` of a response you have stored, several of them, or `*`. 304 without a body while unchanged.',
  ),
}
