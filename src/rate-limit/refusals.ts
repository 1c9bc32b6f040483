import { ApiError } from '../http/errors.ts'
import { describeSeconds } from '../http/messages.ts'
import {
  DATABASE_LIMIT_MS,
  databaseResetAt,
  LIMIT,
  type Rest,
  secondsUntil,
  type Verdict,
  WINDOW_MS,
} from './window.ts'

const WINDOW_SECONDS = WINDOW_MS / 1_000

/** `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11. */
export const POLICY = `"default";q=${LIMIT};w=${WINDOW_SECONDS}, "database";q=${DATABASE_LIMIT_MS};w=${WINDOW_SECONDS};qu="milliseconds"`

/** `RateLimit` of the same draft. */
export function describeLimits(verdict: Rest, now: number): string {
  const requestSeconds = secondsUntil(verdict.resetAt, now)
  const milliseconds = Math.max(0, Math.floor(verdict.databaseMs))
  const databaseSeconds = secondsUntilDatabaseTime(verdict, now)
  return `"default";r=${verdict.remaining};t=${requestSeconds}, "database";r=${milliseconds};t=${databaseSeconds}`
}

/** The 429 of a verdict that refuses. */
export function refusalOf(verdict: Verdict, now: number): ApiError {
  if (verdict.databaseMs > 0) return rateLimited(secondsUntil(verdict.resetAt, now))
  const message = `The token may use ${DATABASE_LIMIT_MS / 1_000} seconds of database time a minute`
  return rateLimited(secondsUntilDatabaseTime(verdict, now), message)
}

/** @param seconds after which the same request succeeds */
export function rateLimited(seconds: number, problem = `The token may send ${LIMIT} requests a minute`): ApiError {
  return new ApiError('rate_limited', {
    message: `${problem}: retry after ${describeSeconds(seconds)}`,
    details: { retry_after: seconds },
    headers: { 'Retry-After': String(seconds) },
  })
}

function secondsUntilDatabaseTime(verdict: Rest, now: number): number {
  const at = databaseResetAt(verdict)
  return secondsUntil(at, now, at - verdict.resetAt + WINDOW_MS)
}
