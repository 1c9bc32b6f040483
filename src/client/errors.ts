/** The API's own codes, and three of this library for answers that are not the API's. */
export type ErrorCode =
  | 'unauthenticated'
  | 'forbidden'
  | 'invalid_request'
  | 'not_found'
  | 'rate_limited'
  | 'internal_error'
  | 'network_error'
  | 'upload_failed'
  | 'unexpected_answer'

export interface ApiErrorFields {
  /** HTTP status, or 0 where there was no whole answer. */
  status: number
  code: ErrorCode | (string & {})
  message: string
  details?: unknown
  requestId?: string | null
  retryAfterSeconds?: number | null
  cause?: unknown
}

/** Every failed call rejects with this, except for one that the caller's own signal ended: that rejects with its reason. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly code: ErrorCode | (string & {})
  /** `null`, or what the API tells beyond the message, e.g. `{ issues: [{ path, message }] }`. */
  readonly details: unknown
  /** The `X-Request-Id` of the answer: name it when you report a problem. */
  readonly requestId: string | null
  /** Seconds to wait before the next try, when the answer told. */
  readonly retryAfterSeconds: number | null

  constructor(fields: ApiErrorFields) {
    super(fields.message, fields.cause === undefined ? {} : { cause: fields.cause })
    this.status = fields.status
    this.code = fields.code
    this.details = fields.details ?? null
    this.requestId = fields.requestId ?? null
    this.retryAfterSeconds = fields.retryAfterSeconds ?? null
  }
}

/** Reads an answer that is not a success. Never throws: a proxy may answer HTML, and the storage answers XML. */
export function readApiError(response: Response, text: string, nowMs: number): ApiError {
  const { code, message, details } = readErrorBody(text)
  return new ApiError({
    status: response.status,
    code: code ?? 'unexpected_answer',
    message: message ?? `The API answered ${response.status} without an error body`,
    details,
    requestId: response.headers.get('x-request-id'),
    retryAfterSeconds: readRetryAfter(response.headers.get('retry-after'), nowMs),
  })
}

/** The storage's error names a code in XML; the rest of it repeats the signed address and is dropped. */
export function readUploadError(response: Response, text: string, nowMs: number): ApiError {
  const storageCode = /<Code>(\w{1,100})<\/Code>/.exec(text)?.[1] ?? null
  return new ApiError({
    status: response.status,
    code: 'upload_failed',
    message: `The storage answered ${response.status}${storageCode ? ` (${storageCode})` : ''}`,
    details: storageCode ? { storage_code: storageCode } : null,
    retryAfterSeconds: readRetryAfter(response.headers.get('retry-after'), nowMs),
  })
}

/** Seconds of a `Retry-After` header (RFC 9110, 10.2.3: whole seconds or an HTTP date); null when absent or unreadable. */
export function readRetryAfter(header: string | null, nowMs: number): number | null {
  if (header === null) return null
  if (/^\d{1,9}$/.test(header.trim())) return Number(header)
  // A bare or signed number would be read as a year by Date.parse.
  const atMs = /[A-Za-z]/.test(header) ? Date.parse(header) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.max(0, Math.ceil((atMs - nowMs) / 1000))
}

function readErrorBody(text: string): { code?: string; message?: string; details?: unknown } {
  try {
    const body: unknown = JSON.parse(text)
    if (!isRecord(body) || !isRecord(body.error)) return {}
    const { code, message, details } = body.error
    return {
      ...(typeof code === 'string' && { code }),
      ...(typeof message === 'string' && { message }),
      details,
    }
  } catch {
    return {}
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
