import { ERRORS, type ErrorKind, MAX_ISSUES, type Reason } from '../http/errors.ts'
import type { Json, JsonObject } from './json.ts'

/** What every error answer looks like. `details` depends on the status; each response tells which it sends. */
export const errorSchema: JsonObject = {
  type: 'object',
  description: 'Every error has this form, whatever its status.',
  properties: {
    error: {
      type: 'object',
      description: 'What went wrong.',
      properties: {
        code: {
          type: 'string',
          enum: [...new Set(Object.values(ERRORS).map((error) => error.code))].sort(),
          description: 'What kind of error this is. Decide by the code and the HTTP status, never by the message.',
        },
        message: { type: 'string', minLength: 1, description: 'For people; its wording may change.' },
        details: {
          description: 'More about the error, for programs; `null` where there is no more to say.',
          anyOf: [
            { $ref: '#/components/schemas/ValidationDetails' },
            { $ref: '#/components/schemas/ReasonDetails' },
            { $ref: '#/components/schemas/LimitDetails' },
            { type: 'null' },
          ],
        },
      },
      required: ['code', 'message', 'details'],
      additionalProperties: false,
    },
  },
  required: ['error'],
  additionalProperties: false,
}

const REASONS: Record<Reason, string> = {
  integration_missing: 'the company has no such integration',
  integration_disabled: 'the company has switched it off',
  storage_not_configured: 'no file storage is set up',
  supplier_unavailable: 'the supplier did not answer as it should',
  supplier_rejected_credentials: 'the supplier refused the credentials of the company',
}

export const detailSchemas: Record<string, JsonObject> = {
  ValidationDetails: {
    type: 'object',
    description: 'Sent with 400: everything that is wrong with the request, at once.',
    properties: {
      issues: {
        type: 'array',
        description: `One entry for each thing that is wrong, ${MAX_ISSUES} at most. Long texts are cut.`,
        minItems: 1,
        maxItems: MAX_ISSUES,
        items: {
          type: 'object',
          description: 'One thing that is wrong.',
          properties: {
            path: {
              type: 'string',
              description: 'The field, with dots between levels (`messages.3`); empty where it is the whole body.',
            },
            message: { type: 'string', minLength: 1, description: 'What is wrong with it.' },
          },
          required: ['path', 'message'],
          additionalProperties: false,
        },
      },
      issue_count: {
        type: 'integer',
        minimum: MAX_ISSUES + 1,
        description: `How many issues there are, sent where there are more than the ${MAX_ISSUES} that are listed.`,
      },
    },
    required: ['issues'],
    additionalProperties: false,
  },
  ReasonDetails: {
    type: 'object',
    description: 'Sent with 409 and 502: why something outside of the API could not be used.',
    properties: {
      reason: {
        type: 'string',
        enum: Object.keys(REASONS),
        description: `${Object.entries(REASONS)
          .map(([reason, meaning]) => `\`${reason}\`: ${meaning}`)
          .join('; ')}.`,
      },
      storage_code: {
        type: 'string',
        pattern: '^[A-Za-z0-9]{1,64}$',
        description: 'The error code of the company’s own storage, such as `NoSuchBucket`, where it sent one.',
      },
    },
    required: ['reason'],
    additionalProperties: false,
  },
  LimitDetails: {
    type: 'object',
    description: 'Sent with 413: how large the body may be, or all that is stored.',
    properties: {
      limit_bytes: { type: 'integer', minimum: 1, description: 'The limit, in bytes.' },
      reason: {
        type: 'string',
        enum: ['storage_quota'],
        description: '`storage_quota`: the limit is that of the stored email threads of the company, not of the body.',
      },
    },
    required: ['limit_bytes'],
    additionalProperties: false,
  },
}

interface ErrorAnswer {
  /** The name of the response under `components`. */
  name: string
  description: string
  message?: string
  details?: Json
  headers?: readonly string[]
}

const ANSWERS: Record<ErrorKind, ErrorAnswer> = {
  invalid_request: {
    name: 'InvalidRequest',
    description:
      'The request is not valid: malformed JSON, a wrong value, a missing or an unknown field. `details.issues` names every problem. Mend the request before it is sent again.',
    message: 'per_page: must be a whole number from 1 to 100',
    details: { issues: [{ path: 'per_page', message: 'must be a whole number from 1 to 100' }] },
  },
  unauthenticated: {
    name: 'Unauthenticated',
    description: 'No token, or one that is malformed, unknown, expired or revoked. Not counted against any token.',
    headers: ['WWW-Authenticate'],
  },
  forbidden: {
    name: 'Forbidden',
    description: 'The token is valid but lacks the permission that this operation needs, or its company is suspended.',
    message: 'The token lacks the permission clients:write.',
  },
  not_found: {
    name: 'NotFound',
    description:
      'There is no such resource in the company of the token. A resource of another company, a deleted one and an id that cannot exist look the same.',
  },
  method_not_allowed: {
    name: 'MethodNotAllowed',
    description: 'The path does not know this method; `Allow` lists those it knows.',
  },
  conflict: {
    name: 'Conflict',
    description: 'What this needs is missing or switched off in the company; `details.reason` tells which.',
    details: { reason: 'integration_missing' },
  },
  too_large: {
    name: 'BodyTooLarge',
    description:
      'The body has more bytes than this operation takes; `details.limit_bytes` tells how many it takes. With `details.reason` `storage_quota` the email threads of the company would take more stored (compressed) bytes than that; only a PUT that raises them is refused.',
    message: 'The body is larger than 1048576 bytes.',
    details: { limit_bytes: 1_048_576 },
  },
  unsupported_media_type: {
    name: 'UnsupportedMediaType',
    description:
      'The body was not sent with `Content-Type: application/json`, or it was sent with a `Content-Encoding`, which the header `Accept-Encoding: identity` then tells.',
    headers: ['Accept-Encoding'],
  },
  rate_limited: {
    name: 'RateLimited',
    description:
      'Too many requests, or too much database time used. Wait as many seconds as `Retry-After` tells, then send the same request again.',
    headers: ['Retry-After'],
  },
  internal_error: {
    name: 'InternalError',
    description: 'The server failed. The message tells the request id, which helps us to find the cause.',
    message: 'The server failed. Tell us the request id 3f1c2a9e-7d54-4a39-9d0e-2b1f6f6f1a10.',
  },
  upstream_failed: {
    name: 'UpstreamFailed',
    description: 'A supplier failed and nothing is remembered from earlier; `details.reason` tells how.',
    details: { reason: 'supplier_unavailable' },
  },
  unavailable: {
    name: 'Unavailable',
    description:
      'The server is too busy for a large body at this moment. Nothing was changed. Wait as many seconds as `Retry-After` tells, then send the same request again.',
    headers: ['Retry-After'],
  },
}

export function errorResponseName(kind: ErrorKind): string {
  return ANSWERS[kind].name
}

/** The response component of an error, without the headers that every answer has. */
export function describeError(kind: ErrorKind): { description: string; headers: readonly string[]; example: Json } {
  const { description, message, details, headers } = ANSWERS[kind]
  const { code, message: standard } = ERRORS[kind]
  return {
    description,
    headers: headers ?? [],
    example: { error: { code, message: message ?? standard, details: details ?? null } },
  }
}
