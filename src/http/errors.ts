/**
 * The one table of errors: what a thrown {@link ApiError}, an answer and the published description have in common.
 * `code` is one of the six codes of the contract; several kinds share a code and differ in status.
 */
export const ERRORS = {
  invalid_request: { status: 400, code: 'invalid_request', message: 'The request is invalid.' },
  unauthenticated: { status: 401, code: 'unauthenticated', message: 'A valid bearer token is required.' },
  forbidden: { status: 403, code: 'forbidden', message: 'The token does not permit this.' },
  not_found: { status: 404, code: 'not_found', message: 'There is no such resource in this company.' },
  method_not_allowed: { status: 405, code: 'invalid_request', message: 'The path does not know this method.' },
  conflict: { status: 409, code: 'invalid_request', message: 'An integration that this needs is not available.' },
  too_large: { status: 413, code: 'invalid_request', message: 'The body is too large.' },
  unsupported_media_type: {
    status: 415,
    code: 'invalid_request',
    message: 'The body must be sent with Content-Type: application/json.',
  },
  rate_limited: { status: 429, code: 'rate_limited', message: 'Too many requests. Retry after the time given.' },
  internal_error: { status: 500, code: 'internal_error', message: 'The server failed.' },
  upstream_failed: { status: 502, code: 'internal_error', message: 'A supplier failed.' },
  unavailable: { status: 503, code: 'internal_error', message: 'The service is busy. Retry after the time given.' },
} as const

export type ErrorKind = keyof typeof ERRORS

/** One thing wrong with the input: `path` is the field's, dots between levels; empty for the whole. */
export interface Issue {
  path: string
  message: string
}

export type ErrorDetails =
  | { issues: Issue[]; issue_count?: number }
  | { reason: Reason; storage_code?: string }
  | { limit_bytes: number; reason?: 'storage_quota' }
  | null

export type Reason =
  | 'integration_missing'
  | 'integration_disabled'
  | 'storage_not_configured'
  | 'supplier_unavailable'
  | 'supplier_rejected_credentials'

/** An error that is meant for the caller. Anything else that is thrown becomes a 500 that tells nothing. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly kind: ErrorKind
  readonly details: ErrorDetails
  readonly headers: Record<string, string>

  constructor(
    kind: ErrorKind,
    options: { message?: string; details?: ErrorDetails; headers?: Record<string, string> } = {},
  ) {
    super(options.message ?? ERRORS[kind].message)
    this.kind = kind
    this.details = options.details ?? null
    this.headers = options.headers ?? {}
  }
}

/** So many issues are listed; of a path or a message that a caller made long, so many characters are sent back. */
export const MAX_ISSUES = 100
const MAX_PATH_CHARACTERS = 200
const MAX_MESSAGE_CHARACTERS = 300

/**
 * 400 with every issue at once, up to {@link MAX_ISSUES}.
 *
 * @param count of all issues, where the list holds only the first ones
 */
export function invalid(issues: Issue[], count = issues.length): ApiError {
  const listed = issues.slice(0, MAX_ISSUES).map(({ path, message }) => ({
    path: truncate(path, MAX_PATH_CHARACTERS),
    message: truncate(message, MAX_MESSAGE_CHARACTERS),
  }))
  const named = listed.slice(0, 3).map(({ path, message }) => (path ? `${path}: ${message}` : message))
  const more = count > 3 ? ` (and ${count - 3} more)` : ''
  return new ApiError('invalid_request', {
    message: `${named.join('; ')}${more}`,
    details: { issues: listed, ...(count > listed.length && { issue_count: count }) },
  })
}

function truncate(text: string, characters: number): string {
  return text.length > characters ? `${text.slice(0, characters - 1).toWellFormed()}…` : text
}

export function notFound(message?: string): ApiError {
  return new ApiError('not_found', message === undefined ? {} : { message })
}

/** The body and headers of an error answer. */
export function errorResponse(error: ApiError): Response {
  const { status, code } = ERRORS[error.kind]
  return Response.json(
    { error: { code, message: error.message, details: error.details } },
    { status, headers: { 'Cache-Control': 'private, no-store', ...error.headers } },
  )
}
