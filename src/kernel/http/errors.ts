import { describeBytes } from './messages.ts'

const errorOf = (status: number, code: string, message: string) => ({ status, code, message })

/** `code` is one of the contract's six codes: several kinds of errors share one and differ in status. */
export const ERRORS = {
  invalid_request: errorOf(400, 'invalid_request', 'Invalid request'),
  unauthenticated: errorOf(401, 'unauthenticated', 'A valid bearer token is required'),
  forbidden: errorOf(403, 'forbidden', 'The token does not permit this'),
  not_found: errorOf(404, 'not_found', 'Resource not found'),
  method_not_allowed: errorOf(405, 'invalid_request', 'The path does not support this method'),
  request_timeout: errorOf(408, 'invalid_request', 'The body did not arrive whole and in time: send the request again'),
  conflict: errorOf(409, 'invalid_request', 'The request conflicts with the state of the company'),
  gone: errorOf(410, 'invalid_request', 'The resource is no longer available'),
  precondition_failed: errorOf(412, 'invalid_request', 'The resource has another version'),
  too_large: errorOf(413, 'invalid_request', 'The body is too large'),
  unsupported_media_type: errorOf(415, 'invalid_request', 'The body must be sent with Content-Type: application/json'),
  rate_limited: errorOf(429, 'rate_limited', 'Too many requests: retry after the seconds in Retry-After'),
  internal_error: errorOf(500, 'internal_error', 'Internal error'),
  upstream_failed: errorOf(502, 'internal_error', 'An upstream system failed'),
  unavailable: errorOf(503, 'internal_error', 'The service is busy: retry after the seconds in Retry-After'),
}

export type ErrorKind = keyof typeof ERRORS

/** Reasons for which a valid request failed: sent in `details.reason`, most of them with 409. */
export const REASONS = {
  integration_missing: 'The company has no such integration: set it up first',
  integration_disabled: 'The company has disabled this integration: enable it first',
  storage_not_configured: 'No file storage is configured',
  credentials_unreadable: 'The stored credentials of the integration cannot be read: save them again',
  supplier_unavailable: 'The supplier did not respond as expected: retry later',
  supplier_rejected_credentials: 'The supplier rejected the company’s credentials: correct them in the integration',
  external_id_taken: 'Another resource of the company has this `external_id`: choose another, or update that one',
  idempotency_key_reused:
    'The `Idempotency-Key` was sent with another request before: send a new key with each new request',
  idempotency_key_in_use: 'A request with this `Idempotency-Key` is still running: retry after the time in Retry-After',
  version_mismatch:
    'The resource does not exist, is deleted, or has another version than `If-Match` names (weak tags match none): read it again and repeat the change',
  already_exists:
    'The resource already exists, perhaps by an earlier try of this request: read it, or send the request without `If-None-Match` to replace it',
  invoice_missing: 'The order has no invoice',
  payments_limit:
    'The order would have more than 500 payments, or more than 400,000 bytes of their notes: shorten or delete some',
  cursor_expired:
    'The changes after this cursor are no longer stored: copy the lists again, and start with a new cursor',
}

export type Reason = keyof typeof REASONS

/** The kinds of those that are no `conflict`. */
const OTHER_KINDS: Partial<Record<Reason, ErrorKind>> = {
  supplier_unavailable: 'upstream_failed',
  supplier_rejected_credentials: 'upstream_failed',
  idempotency_key_reused: 'invalid_request',
  version_mismatch: 'precondition_failed',
  already_exists: 'precondition_failed',
  cursor_expired: 'gone',
}

/** One issue of the input: `path` is the field's, with dots between levels; empty for the whole. */
export interface Issue {
  path: string
  message: string
}

export type ErrorDetails =
  | { issues: Issue[]; issue_count?: number }
  | { reason: Reason; storage_code?: string; issues?: Issue[] }
  | { limit_bytes: number; reason?: 'storage_quota' }
  | { retry_after: number }
  | null

interface Options {
  message?: string
  details?: ErrorDetails
  headers?: Record<string, string>
  cause?: string | undefined
}

/** Any other error becomes a 500 without details. A `cause`, in our own words without values, is only logged. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly kind: ErrorKind
  readonly details: ErrorDetails
  readonly headers: Record<string, string>

  constructor(kind: ErrorKind, options: Options = {}) {
    super(options.message ?? ERRORS[kind].message, options)
    this.kind = kind
    this.details = options.details ?? null
    this.headers = options.headers ?? {}
  }
}

export const MAX_ISSUES = 100
const MAX_PATH_CHARACTERS = 200
const MAX_MESSAGE_CHARACTERS = 300

/** A 400 with every issue at once. @param count of all issues, if the list holds only the first ones */
export function invalid(issues: Issue[], count = issues.length): ApiError {
  const listed = issues.slice(0, MAX_ISSUES).map(({ path, message }) => ({
    path: truncate(path, MAX_PATH_CHARACTERS),
    message: truncate(message, MAX_MESSAGE_CHARACTERS),
  }))
  const named = listed.slice(0, 3).map(({ path, message }) => `${path ? `\`${path}\`` : 'The body'} ${message}`)
  const more = count > 3 ? ` (and ${count - 3} more)` : ''
  return new ApiError('invalid_request', {
    message: `${named.join('; ')}${more}`,
    details: { issues: listed, ...(count > listed.length && { issue_count: count }) },
  })
}

/** Well-formed: strict parsers refuse JSON with half a character, which a name that was sent may have. */
function truncate(text: string, characters: number): string {
  return text.length > characters ? `${text.slice(0, characters - 1).toWellFormed()}…` : text.toWellFormed()
}

/** A 401 with the challenge of RFC 6750, section 3, which names an error only where there was a token. */
export function unauthenticated(message: string, isInvalidToken = false): ApiError {
  const error = isInvalidToken ? ` error="invalid_token", error_description="${message}"` : ''
  return new ApiError('unauthenticated', { message, headers: { 'WWW-Authenticate': `Bearer${error}` } })
}

export function notFound(resource: string): ApiError {
  return new ApiError('not_found', { message: `${resource} not found` })
}

/** A 503 whose `Retry-After` promises that nothing was changed. */
export function unavailable(retryAfterSeconds: number, options: { message?: string; cause?: string } = {}): ApiError {
  return new ApiError('unavailable', { ...options, headers: { 'Retry-After': String(retryAfterSeconds) } })
}

export function conflict(message: string): ApiError {
  return new ApiError('conflict', { message })
}

export function tooLarge(limitBytes: number): ApiError {
  const message = `The body must have at most ${describeBytes(limitBytes)}`
  return new ApiError('too_large', { message, details: { limit_bytes: limitBytes } })
}

type Refusal = { refusal: Pick<ApiError, 'kind' | 'message' | 'headers'> & { cause?: string } }

/** The result of an object's call, which returns an {@link ApiError} since RPC drops its class. @throws that error */
export function accepted<T extends object>(result: T | Refusal): Exclude<T, Refusal> {
  if ('refusal' in result) throw new ApiError(result.refusal.kind, result.refusal)
  return result as Exclude<T, Refusal>
}

/** @throws ApiError 404 for a row that does not exist */
export function found<T>(row: T | null | undefined, resource: string): T {
  if (row === null || row === undefined) throw notFound(resource)
  return row
}

/** Builds the error of a {@link REASONS reason}, whose message may be replaced. */
export function errorFor(
  reason: Reason,
  { issues, storage_code, ...options }: Options & { issues?: Issue[]; storage_code?: string | null } = {},
): ApiError {
  const details = { reason, ...(issues && { issues }), ...(storage_code != null && { storage_code }) }
  return new ApiError(OTHER_KINDS[reason] ?? 'conflict', { message: REASONS[reason], ...options, details })
}

/** The parts of the reference about kinds of errors that the operation does not explain. */
const PARTS: Partial<Record<ErrorKind, string>> = {
  unauthenticated: 'guide-authentication',
  rate_limited: 'guide-rate-limit',
}

/** @param requestUrl at whose origin the reference is @param operation that failed, where one was found */
export function errorBody({ kind, message, details }: ApiError, requestUrl: string, operation?: string) {
  const { origin, pathname } = new URL(requestUrl)
  const part = `#${PARTS[kind] ?? operation ?? 'guide-errors'}`
  const documentation_url = `${origin}/${pathname.startsWith('/admin') ? 'admin/v1/openapi.json' : part}`
  return { error: { code: ERRORS[kind].code, message, details: { ...details, documentation_url } } }
}

export function errorResponse(error: ApiError, requestUrl: string, operation?: string): Response {
  const headers = { 'Cache-Control': 'private, no-store', ...error.headers }
  return Response.json(errorBody(error, requestUrl, operation), { status: ERRORS[error.kind].status, headers })
}
