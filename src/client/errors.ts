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
 * The cursor is older than the changes that the API keeps, so that some were missed: copy the lists again, and follow the
 * changes from a cursor taken before that copy.
 */
export class CursorExpiredError extends ApiError {
  override readonly name = 'CursorExpiredError'
}

/** Reads an unsuccessful response: its parsed body, undefined where it is not JSON, such as a proxy's HTML. */
export function readApiError({ status: shownStatus, headers }: Response, body: unknown): ApiError {
  // A browser shows the status of a redirect as 0.
  const status = shownStatus || 302
  const { code, message, details } = isRecord(body) && isRecord(body.error) ? body.error : {}
  const isExpired = status === 410 && isRecord(details) && details.reason === 'cursor_expired'
  const unexpected =
    status >= 300 && status < 400 && status !== 304
      ? 'The address of the API redirects to another address: use that one as `baseUrl`'
      : `The API responded with ${status} and an unexpected body`
  return new (isExpired ? CursorExpiredError : ApiError)({
    status,
    code: typeof code === 'string' ? code : 'unexpected_answer',
    message: typeof message === 'string' ? message : unexpected,
    details,
    requestId: headers.get('x-request-id'),
    retryAfterSeconds: readRetryAfter(headers.get('retry-after')),
  })
}

/** The error of a 200 whose body is not the API's. */
export function unexpectedAnswer(message: string): ApiError {
  return new ApiError({ status: 200, code: 'unexpected_answer', message })
}

export function nullIfNotFound(error: unknown): null {
  if (error instanceof ApiError && error.code === 'not_found') return null
  throw error
}

/** The storage's XML error has a code; the rest of it repeats the signed URL and is dropped. */
export function readUploadError({ status, headers }: Response, text: string): ApiError {
  const storageCode = /<Code>(\w{1,100})<\/Code>/.exec(text)?.[1]
  return new ApiError({
    status,
    code: 'upload_failed',
    message: `The storage responded with ${status}${storageCode ? ` (${storageCode})` : ''}`,
    details: storageCode ? { storage_code: storageCode } : null,
    retryAfterSeconds: readRetryAfter(headers.get('retry-after')),
  })
}

/** Seconds of a `Retry-After` header; null when absent, or a date, which this API does not send. */
export function readRetryAfter(header: string | null): number | null {
  return header !== null && /^\d+$/.test(header.trim()) ? Number(header) : null
}

function isIssue(value: unknown): value is Issue {
  return isRecord(value) && typeof value.path === 'string' && typeof value.message === 'string'
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Lone surrogates, which neither a URL nor the API takes, become U+FFFD. */
export const toWellFormed = (text: string) => text.replace(/\p{Cs}/gu, '\ufffd')

const FIRST_BACKOFF_MS = 250
const MAX_BACKOFF_MS = 8_000
/** The API's rate-limit window is a minute; a longer `Retry-After` rejects, for the caller to decide. */
const MAX_RETRY_AFTER_SECONDS = 120

/** Decides how to treat a response. `statuses` has 0 for one that did not arrive completely, `5xx` for what proxies send. */
interface RetryRule {
  statuses: readonly (number | '5xx')[]
  /** Only with one of these in `details.reason`. */
  reasons?: readonly string[]
  /** Only with a `Retry-After` header. */
  needsRetryAfter?: boolean
  isRetried: boolean
  /** A PUT with `If-Match` or `If-None-Match` is not retried: it would meet its own write with 412. */
  exceptConditionalPut?: boolean
  advice: string
}

/**
 * When to send a request again: the one source of what this client does, of its README and of the published
 * description. The first rule that fits a response decides; without one it is not retried. The client's POST, PATCH and
 * DELETE may be retried because they have an `Idempotency-Key`.
 */
export const RETRY_RULES: readonly RetryRule[] = [
  {
    statuses: [429],
    isRetried: true,
    advice: 'Nothing was changed. Send the same request again after `Retry-After` seconds, whatever its method.',
  },
  {
    statuses: [503],
    needsRetryAfter: true,
    isRetried: true,
    advice: 'As with 429, but an unconditional PUT may have been done.',
  },
  {
    statuses: [409],
    reasons: ['idempotency_key_in_use'],
    isRetried: true,
    advice:
      'The first request with this `Idempotency-Key` is still running. Send the same request with the same key again after `Retry-After` seconds.',
  },
  {
    statuses: [502],
    reasons: ['supplier_rejected_credentials'],
    isRetried: false,
    advice: 'Do not retry: the company must first correct its settings.',
  },
  {
    statuses: [408, '5xx', 0],
    isRetried: true,
    exceptConditionalPut: true,
    advice: `The request may have been carried out. Send GET and PUT again, and POST, PATCH and DELETE with the \`Idempotency-Key\` that they were first sent with, after a random half to whole of ${FIRST_BACKOFF_MS} ms, which doubles with each retry up to ${MAX_BACKOFF_MS / 1000} s. Without a key, or for a PUT with \`If-Match\` or \`If-None-Match\`, first read what was changed: a second POST creates a second object, and a second such PUT returns 412 although the first was carried out.`,
  },
]

/** The rules as a list in Markdown. */
export function describeRetryRules(): string {
  const lines = RETRY_RULES.map(({ advice, ...rule }) => `- ${describeResponse(rule)}: ${advice}`)
  const rest = 'Do not retry: it stays the same until the request, the token or the settings of the company change.'
  return ['The first rule that fits decides.', '', ...lines, `- **Any other error**: ${rest}`].join('\n')
}

function describeResponse({ statuses, reasons, needsRetryAfter }: Omit<RetryRule, 'advice'>): string {
  const responses = statuses.map((status) => (status === 0 ? '**no complete response**' : `**${status}**`))
  const last = responses.pop()
  const all = responses.length > 0 ? `${responses.join(', ')} or ${last}` : last
  const named = reasons ? ` with \`details.reason\` ${reasons.map((reason) => `\`${reason}\``).join(' or ')}` : ''
  return `${all}${named}${needsRetryAfter ? ' with `Retry-After`' : ''}`
}

/** The properties of a call that decide, with its response, whether it is retried. */
export type RetriedCall = { isUnrepeatable?: boolean; isEndless?: boolean }

/** Milliseconds to wait before the next attempt, or null for none. @param random the jitter, from 0 up to 1 */
export function chooseDelayMs(error: ApiError, retries: number, random: number, call: RetriedCall = {}): number | null {
  const { reason, retryAfterSeconds } = error
  // To a call without an end, a 2xx that is not the API's, such as a proxy's page, is an outage too.
  const status = call.isEndless && error.status < 300 ? 0 : error.status
  const rule = RETRY_RULES.find(
    ({ statuses, reasons, needsRetryAfter }) =>
      (statuses.includes(status) || (status >= 500 && statuses.includes('5xx'))) &&
      (!reasons || (reason !== null && reasons.includes(reason))) &&
      (!needsRetryAfter || retryAfterSeconds !== null),
  )
  if (!rule?.isRetried || (rule.exceptConditionalPut && call.isUnrepeatable)) return null
  if (!retryAfterSeconds)
    return Math.round(Math.min(FIRST_BACKOFF_MS * 2 ** retries, MAX_BACKOFF_MS) * (0.5 + random / 2))
  // A call without an end asks again sooner, since an outage may end sooner than it was said to.
  if (retryAfterSeconds > MAX_RETRY_AFTER_SECONDS && !call.isEndless) return null
  return Math.min(retryAfterSeconds, MAX_RETRY_AFTER_SECONDS) * 1000
}
