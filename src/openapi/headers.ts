import { POLICY } from '../rate-limit/middleware.ts'
import { DATABASE_LIMIT_MS, LIMIT, WINDOW_MS } from '../rate-limit/window.ts'
import type { JsonObject } from './json.ts'

/** Response headers by name, as components. `required` ones are on every response that names them. */
export const responseHeaders = {
  'X-Request-Id': {
    description:
      'The id of this request: the one that was sent, or one made by the server. Tell it when you ask for help.',
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
    example: '3f1c2a9e-7d54-4a39-9d0e-2b1f6f6f1a10',
  },
  'RateLimit-Policy': {
    description:
      'The limits, in the form of draft-ietf-httpapi-ratelimit-headers-11: `default` allows `q` requests in `w` seconds, `database` allows `q` milliseconds of database time.',
    schema: { type: 'string', pattern: '^"default";q=\\d+;w=\\d+, "database";q=\\d+;w=\\d+;qu="milliseconds"$' },
    example: POLICY,
  },
  RateLimit: {
    description:
      'What is left of each limit: `r` requests or milliseconds of database time, until there is more in `t` seconds.',
    schema: { type: 'string', pattern: '^"default";r=\\d+;t=\\d+, "database";r=\\d+;t=\\d+$' },
    example: `"default";r=${LIMIT - 1};t=${WINDOW_MS / 1000}, "database";r=${DATABASE_LIMIT_MS - 2};t=${WINDOW_MS / 1000}`,
  },
  'X-Bookmark': {
    description:
      'How fresh the data of this answer is. Send it with the next request and that one may be answered by the nearest copy of the database that is at least as fresh.',
    schema: { type: 'string', minLength: 1 },
    example: '00000085-0000024c-00004c6d-8e61117bf38d7adb71b934ebbf891683',
  },
  'Server-Timing': {
    description: 'How many milliseconds the server waited for the database.',
    schema: { type: 'string', minLength: 1 },
    example: 'db;dur=12',
  },
  ETag: {
    description: 'Names this answer: it changes whenever the answer does. Send it back in `If-None-Match`.',
    required: true,
    schema: { type: 'string', pattern: '^(W/)?"[^"]+"$' },
    example: '"1.0c6f2a54-0b5f-4a53-9d53-5f0f5b8a7c11.3"',
  },
  'Retry-After': {
    description: 'How many seconds to wait before the request is sent again.',
    required: true,
    schema: { type: 'string', pattern: '^\\d+$' },
    example: '42',
  },
  'Accept-Encoding': {
    description: 'Present where the body was compressed: send it as it is, without `Content-Encoding`.',
    schema: { type: 'string', const: 'identity' },
    example: 'identity',
  },
  Vary: {
    description: 'The response may be compressed on its way; caches must keep the codings apart.',
    required: true,
    schema: { type: 'string', pattern: 'Accept-Encoding' },
    example: 'Accept-Encoding',
  },
  'WWW-Authenticate': {
    description: 'How to authenticate.',
    required: true,
    schema: { type: 'string', const: 'Bearer' },
    example: 'Bearer',
  },
} satisfies Record<string, JsonObject>

type HeaderName = keyof typeof responseHeaders

const LIMIT_HEADERS: readonly HeaderName[] = ['RateLimit-Policy', 'RateLimit']

/** The headers of an answer: those that it has anyway and those of its own. */
export function headersOf(kind: 'answer' | 'error' | 'unauthenticated', own: readonly string[] = []): JsonObject {
  const names: Record<typeof kind, readonly string[]> = {
    answer: ['X-Request-Id', ...LIMIT_HEADERS, 'X-Bookmark', 'Server-Timing'],
    error: ['X-Request-Id', ...LIMIT_HEADERS],
    unauthenticated: ['X-Request-Id'],
  }
  const all = [...names[kind], ...own]
  return Object.fromEntries(all.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

/** Request headers that every operation takes. */
export const requestHeaders: Record<string, JsonObject> = {
  RequestId: {
    name: 'X-Request-Id',
    in: 'header',
    description: 'An id of your own for this request; it comes back in the answer. Another form than this is ignored.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
  },
  Bookmark: {
    name: 'X-Bookmark',
    in: 'header',
    description:
      'The `X-Bookmark` of your last answer. Without it, or with one that is malformed, the main copy of the database answers, which is always up to date.',
    schema: { type: 'string' },
  },
}

/** Of operations whose answer carries an `ETag`. */
export const ifNoneMatch: JsonObject = {
  name: 'If-None-Match',
  in: 'header',
  description:
    'The `ETag` of an answer that you have, several of them, or `*`: while that is still the answer, it is 304 without a body.',
  schema: { type: 'string' },
}
