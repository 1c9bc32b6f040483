import { ApiError } from '../http/errors.ts'
import { DATABASE_LIMIT_MS, databaseResetAt, LIMIT, secondsUntil, type Verdict, WINDOW_MS } from './window.ts'

const WINDOW_SECONDS = WINDOW_MS / 1_000

/** `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11. */
export const POLICY = `"default";q=${LIMIT};w=${WINDOW_SECONDS}, "database";q=${DATABASE_LIMIT_MS};w=${WINDOW_SECONDS};qu="milliseconds"`

/**
 * `RateLimit` of the same draft.
 *
 * @param databaseMs what is left now, which the request itself has made less since its verdict
 */
export function describeLimits(verdict: Verdict, databaseMs: number, now: number): string {
  const requestSeconds = secondsUntil(verdict.resetAt, now)
  const milliseconds = Math.max(0, Math.floor(databaseMs))
  const databaseSeconds = secondsUntilDatabaseTime({ ...verdict, databaseMs }, now)
  return `"default";r=${verdict.remaining};t=${requestSeconds}, "database";r=${milliseconds};t=${databaseSeconds}`
}

/** The 429 of a verdict that refuses. */
export function refusalOf(verdict: Verdict, now: number): ApiError {
  if (verdict.databaseMs > 0) return rateLimited(secondsUntil(verdict.resetAt, now))
  const message = `The token has used its ${DATABASE_LIMIT_MS / 1_000} seconds of database time a minute.`
  return rateLimited(secondsUntilDatabaseTime(verdict, now), message)
}

/** @param seconds after which the same request is served */
export function rateLimited(seconds: number, message?: string): ApiError {
  const headers = { 'Retry-After': String(seconds) }
  return new ApiError('rate_limited', message === undefined ? { headers } : { headers, message })
}

function secondsUntilDatabaseTime(verdict: Pick<Verdict, 'resetAt' | 'databaseMs'>, now: number): number {
  const at = databaseResetAt(verdict)
  return secondsUntil(at, now, at - verdict.resetAt + WINDOW_MS)
}
