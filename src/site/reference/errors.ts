import * as z from 'zod'
import { BODY_LIMIT_BYTES, component } from '../../kernel/api/contract.ts'
import { rateLimited } from '../../kernel/gate/limits.ts'
import {
  ApiError,
  ERRORS,
  type ErrorKind,
  errorFor,
  invalid,
  MAX_ISSUES,
  REASONS,
  type Reason,
  tooLarge,
} from '../../kernel/http/errors.ts'
import { ERROR_HEADERS, type HeaderName } from './headers.ts'

const issue = z
  .strictObject({
    path: z
      .string()
      .describe('The field as it was sent, dots between levels (`messages.3`); empty for the whole body.'),
    message: z.string().min(1).describe('What is wrong, worded to follow the field’s name.'),
  })
  .describe('One problem.')

/** This omits the upper bound that `z.int()` publishes. */
const integer = (minimum: number, description: string) => z.number().meta({ type: 'integer', minimum, description })

const documented = {
  documentation_url: z.url().describe('The part of the reference about the operation or the kind of error.'),
}

const validationDetails = component('ValidationDetails', 'Every problem of the path, else the query, else the body.', {
  ...documented,
  issues: z.array(issue).min(1).max(MAX_ISSUES).describe('The first problems. Long texts are truncated.'),
  issue_count: integer(
    MAX_ISSUES + 1,
    'The number of all problems, where not all are listed. Of a list in an email thread, at most 1,000 are counted.',
  ).exactOptional(),
  reason: z.enum(['idempotency_key_reused']).describe('Names a problem of the `Idempotency-Key`.').exactOptional(),
})

const reasons = Object.entries(REASONS).map(([reason, message]) => `- \`${reason}\`: ${message}`)
const reasonDetails = component('ReasonDetails', 'Why a valid request could not be carried out.', {
  ...documented,
  reason: z.enum(Object.keys(REASONS) as Reason[]).describe(reasons.join('\n')),
  storage_code: z
    .string()
    .regex(/^[A-Za-z0-9]{1,64}$/)
    .describe('The error code of the company’s own storage, such as `NoSuchBucket`, where it sent one.')
    .exactOptional(),
})

const limitDetails = component('LimitDetails', 'Sent with 413: the limit of the body, or of everything stored.', {
  ...documented,
  limit_bytes: integer(0, 'The limit, in bytes.'),
  reason: z
    .enum(['storage_quota'])
    .describe('`storage_quota`: what the company may store, email threads or all else.')
    .exactOptional(),
})

const retryDetails = component('RetryDetails', 'Sent with 429: when the same request succeeds.', {
  ...documented,
  retry_after: integer(1, 'The seconds to wait, as in `Retry-After`.'),
})

const plainDetails = component('PlainDetails', 'Sent where there is nothing to add.', documented)

const details = z.union([validationDetails, reasonDetails, limitDetails, retryDetails, plainDetails])

export const errorSchema = component('ErrorResponse', 'Every error has this form, whatever its status.', {
  error: z
    .strictObject({
      code: z
        .enum([...new Set(Object.values(ERRORS).map((error) => error.code))].sort())
        .describe('The kind of error. Decide by the code and the HTTP status, never by the message.'),
      message: z.string().min(1).describe('For people; its wording may change.'),
      details: details.describe('More about the error, for programs.'),
    })
    .describe('What went wrong.'),
})

const OF_STORED: readonly HeaderName[] = [...ERROR_HEADERS, 'Idempotency-Replayed']

const { issues, issue_count } = validationDetails.shape
const adminDetails = component('ErrorDetails', 'More about the error, for programs.', {
  documentation_url: z.url().describe('The description of this API.'),
  issues: issues.exactOptional(),
  issue_count,
  reason: z.enum(['credentials_unreadable']).describe(REASONS.credentials_unreadable).exactOptional(),
  limit_bytes: limitDetails.shape.limit_bytes.exactOptional(),
  retry_after: retryDetails.shape.retry_after.exactOptional(),
})

/** The administration sends one reason only. */
export const adminErrorSchema = component('ErrorResponse', 'Every error has this form, whatever its status.', {
  error: errorSchema.shape.error.extend({ details: adminDetails }).describe('What went wrong.'),
})

type ErrorResponse = { description: string; example?: ApiError; headers?: readonly HeaderName[] }

/** The error responses by kind. Default example: the kind's own message; default headers: {@link ERROR_HEADERS}. */
export const errorResponses: Record<ErrorKind, ErrorResponse> = {
  invalid_request: {
    description:
      'Malformed JSON, a wrong value, a missing or unknown field, or the `Idempotency-Key` of another request: `details.issues` names every problem.',
    example: invalid([{ path: 'per_page', message: 'must be between 1 and 100' }]),
    headers: OF_STORED,
  },
  unauthenticated: {
    description: 'No token, or a malformed, unknown, expired or revoked one. Not counted against any token.',
    headers: ['X-Request-Id', 'WWW-Authenticate'],
  },
  forbidden: { description: 'The token lacks the permission of this operation, or its company is suspended.' },
  not_found: {
    description: 'The resource does not exist in the company. Another company’s and a deleted one look the same.',
    headers: OF_STORED,
  },
  method_not_allowed: { description: 'The path does not support this method; `Allow` lists those it supports.' },
  request_timeout: {
    description: 'The body did not arrive whole and in time. Nothing was changed: send the request again.',
  },
  conflict: {
    description:
      'The company lacks or has disabled what this operation needs, or its credentials cannot be read; an `external_id` is taken; an order has no invoice, or all the payments it may have; or a request with the same `Idempotency-Key` is running (then with `Retry-After`). `details.reason` names the cause.',
    example: errorFor('integration_missing'),
    headers: [...OF_STORED, 'Retry-After--conflict'],
  },
  gone: {
    description: 'What the request continues from is no longer stored; `details.reason` names the cause.',
    example: errorFor('cursor_expired'),
  },
  precondition_failed: {
    description:
      'The resource has another version than `If-Match` names, or exists although `If-None-Match: *` was sent. Nothing was changed.',
    example: errorFor('version_mismatch'),
  },
  too_large: {
    description:
      'The body is larger than `details.limit_bytes`. With the `details.reason` `storage_quota`, what the company stores, email threads (compressed) or all else, would exceed that limit. Only writes that store more are rejected: reading and deleting always work.',
    example: tooLarge(BODY_LIMIT_BYTES),
  },
  unsupported_media_type: {
    description:
      'The body was not sent with `Content-Type: application/json`, or it was sent with a `Content-Encoding`; the response then has `Accept-Encoding: identity`.',
    headers: [...ERROR_HEADERS, 'Accept-Encoding'],
  },
  rate_limited: {
    description: 'Too many requests, or too much database time used. Retry after the seconds in `Retry-After`.',
    example: rateLimited(42),
    headers: [...ERROR_HEADERS, 'Retry-After'],
  },
  internal_error: {
    description: 'The server failed. The message contains the request id: quote it when you report the problem.',
    example: new ApiError('internal_error', {
      message: 'Internal error: report the request id 3f1c2a9e-7d54-4a39-9d0e-2b1f6f6f1a10',
    }),
  },
  upstream_failed: {
    description: 'A supplier or storage failed and no earlier response is cached; `details.reason` names the cause.',
    example: errorFor('supplier_unavailable'),
  },
  unavailable: {
    description:
      'The service is being updated, too busy for a large body, or does not reach a database. With `Retry-After` nothing was changed, except perhaps by a PUT without a condition: retry after those seconds. Without it the request, or a part of it, may have been carried out.',
    headers: [...ERROR_HEADERS, 'Retry-After--unavailable'],
  },
}

export function errorResponseName(kind: ErrorKind): string {
  if (kind === 'too_large') return 'BodyTooLarge'
  return kind.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())
}
