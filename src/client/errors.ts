import type { components } from './schema.d.ts'

type Schemas = components['schemas']
/** The API's codes, and three of this library for responses that are not the API's. */
export type ErrorCode =
  | Schemas['ErrorResponse']['error']['code']
  | 'network_error'
  | 'upload_failed'
  | 'unexpected_answer'
/** Why an outside system, a version or a key could not be used. */
export type ErrorReason = Schemas['ReasonDetails']['reason'] | NonNullable<Schemas['LimitDetails']['reason']>
/** One thing wrong with a request: `path` is the field's, with dots between levels; empty for the whole body. */
export type Issue = { path: string; message: string }

export type ApiErrorFields = Pick<ApiError, 'status' | 'code' | 'message'> &
  Partial<Pick<ApiError, 'details' | 'requestId' | 'retryAfterSeconds' | 'cause'>>

/** The reason that failed calls reject with. A call aborted by the caller's signal rejects with the signal's reason. */
export class ApiError extends Error {
  override readonly name: string = 'ApiError'
  /** HTTP status, or 0 without a complete response. */
  readonly status: number
  readonly code: ErrorCode | (string & {})
  /** `null`, or the details beyond the message, as they were sent. */
  readonly details: unknown
  /** Everything wrong with the request, from `details.issues` of a 400; otherwise empty. */
  readonly issues: readonly Issue[]
  /** From `details.reason`, if any. */
  readonly reason: ErrorReason | (string & {}) | null
  /** The `X-Request-Id` of the response: quote it when you report a problem. */
  readonly requestId: string | null
  /** From the response's `Retry-After`, if any. */
  readonly retryAfterSeconds: number | null

  constructor(fields: ApiErrorFields) {
    super(fields.message, fields)
    this.status = fields.status
    this.code = fields.code
    this.details = fields.details ?? null
    const { issues, reason } = isRecord(this.details) ? this.details : {}
    this.issues = Array.isArray(issues) ? issues.filter(isIssue) : []
    this.reason = typeof reason === 'string' ? reason : null
    this.requestId = fields.requestId ?? null
    this.retryAfterSeconds = fields.retryAfterSeconds ?? null
  }
}

/**
 * The cursor is older than the changes that the API keeps, so that some were missed: copy the lists anew, and follow the
 * changes from a cursor taken before that copy.
 */
export class CursorExpiredError extends ApiError {
  override readonly name = 'CursorExpiredError'
}

/** Reads an unsuccessful response: its parsed body, undefined where it is not JSON, such as a proxy's HTML. */
export function readApiError({ status, headers }: Response, body: unknown): ApiError {
  const { code, message, details } = isRecord(body) && isRecord(body.error) ? body.error : {}
  const isExpired = status === 410 && isRecord(details) && details.reason === 'cursor_expired'
  return new (isExpired ? CursorExpiredError : ApiError)({
    status,
    code: typeof code === 'string' ? code : 'unexpected_answer',
    message: typeof message === 'string' ? message : `The API responded with ${status} and an unexpected body`,
    details,
    requestId: headers.get('x-request-id'),
    retryAfterSeconds: readRetryAfter(headers.get('retry-after'), Date.now()),
  })
}

/** The storage's XML error has a code; the rest of it repeats the signed URL and is dropped. */
export function readUploadError({ status, headers }: Response, text: string): ApiError {
  const storageCode = /<Code>(\w{1,100})<\/Code>/.exec(text)?.[1]
  return new ApiError({
    status,
    code: 'upload_failed',
    message: `The storage responded with ${status}${storageCode ? ` (${storageCode})` : ''}`,
    details: storageCode ? { storage_code: storageCode } : null,
    retryAfterSeconds: readRetryAfter(headers.get('retry-after'), Date.now()),
  })
}

/** Seconds of a `Retry-After` header (RFC 9110, 10.2.3: whole seconds or an HTTP date); null when absent or invalid. */
export function readRetryAfter(header: string | null, nowMs: number): number | null {
  if (header === null) return null
  if (/^\d{1,9}$/.test(header.trim())) return Number(header)
  // A bare or signed number would be read as a year by Date.parse.
  const atMs = /[A-Za-z]/.test(header) ? Date.parse(header) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.max(0, Math.ceil((atMs - nowMs) / 1000))
}

function isIssue(value: unknown): value is Issue {
  return isRecord(value) && typeof value.path === 'string' && typeof value.message === 'string'
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
