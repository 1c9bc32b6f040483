import type { ApiError } from './errors.ts'

const FIRST_BACKOFF_MS = 250
const MAX_BACKOFF_MS = 8_000
/** The API's rate-limit window is a minute; a longer `Retry-After` rejects, for the caller to decide. */
const MAX_RETRY_AFTER_SECONDS = 120
export const DEFAULT_MAX_RETRIES = 3

/** Decides how to treat a response. `statuses` has 0 for a response that did not arrive completely. */
interface RetryRule {
  statuses: readonly number[]
  /** Only with one of these in `details.reason`. */
  reasons?: readonly string[]
  /** Only with a `Retry-After` header. */
  needsRetryAfter?: boolean
  isRetried: boolean
  advice: string
}

/**
 * When to send a request again: the one source of what this client does, of its README and of the published
 * description. The first rule that fits a response decides; without one it is not retried. A rule may retry whatever the
 * client sends, because its POST, PATCH and DELETE have an `Idempotency-Key`.
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
    advice: 'As with 429.',
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
    statuses: [500, 502, 503, 504, 0],
    isRetried: true,
    advice: `The request may have been carried out. Send GET and PUT again, and POST, PATCH and DELETE with the \`Idempotency-Key\` that they were first sent with, after a random half to whole of ${FIRST_BACKOFF_MS} ms, which doubles with each retry up to ${MAX_BACKOFF_MS / 1000} s. Without a key, first read what was changed: a second POST creates a second object.`,
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

/**
 * Milliseconds to wait before the next attempt, or null for none.
 *
 * @param random the jitter, from 0 up to 1
 */
export function chooseDelayMs(error: ApiError, retries: number, random: number): number | null {
  const { status, reason, retryAfterSeconds } = error
  const rule = RETRY_RULES.find(
    ({ statuses, reasons, needsRetryAfter }) =>
      statuses.includes(status) &&
      (!reasons || (reason !== null && reasons.includes(reason))) &&
      (!needsRetryAfter || retryAfterSeconds !== null),
  )
  if (!rule?.isRetried) return null
  if (retryAfterSeconds === null) return Math.min(FIRST_BACKOFF_MS * 2 ** retries, MAX_BACKOFF_MS) * (0.5 + random / 2)
  return retryAfterSeconds > MAX_RETRY_AFTER_SECONDS ? null : retryAfterSeconds * 1000
}
