import { ApiError } from '../http/errors.ts'
import { describeSeconds } from '../http/messages.ts'
import {
  COMPANY_LIMIT_MS,
  companyRestAt,
  DATABASE_LIMIT_MS,
  type DatabaseRest,
  databaseResetAt,
  isClosed,
  LIMIT,
  type Rest,
  secondsUntil,
  type Verdict,
  WINDOW_MS,
} from './window.ts'

const WINDOW_SECONDS = WINDOW_MS / 1_000

const timePolicy = (name: string, limitMs: number) => `"${name}";q=${limitMs};w=${WINDOW_SECONDS};qu="milliseconds"`

/** `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11. */
export const POLICY = [
  `"default";q=${LIMIT};w=${WINDOW_SECONDS}`,
  timePolicy('database', DATABASE_LIMIT_MS),
  timePolicy('company', COMPANY_LIMIT_MS),
].join(', ')

/** `RateLimit` of the same draft. */
export function describeLimits(rest: Rest, now: number): string {
  const describeTime = (name: string, each: DatabaseRest, limitMs: number) => {
    const milliseconds = Math.max(0, Math.floor(each.databaseMs))
    return `"${name}";r=${milliseconds};t=${secondsUntilTime(each, now, limitMs)}`
  }
  return [
    `"default";r=${rest.remaining};t=${secondsUntil(rest.resetAt, now)}`,
    describeTime('database', rest, DATABASE_LIMIT_MS),
    describeTime('company', companyRestAt(rest.company, now), COMPANY_LIMIT_MS),
  ].join(', ')
}

/** The 429 of a verdict that refuses: by the limit that does so for longest. */
export function refusalOf(verdict: Verdict, now: number): ApiError {
  const { company, remaining, resetAt, databaseMs } = verdict
  const refusals: [seconds: number, problem?: string][] = []
  if (databaseMs <= 0) {
    const problem = `The token may use ${DATABASE_LIMIT_MS / 1_000} seconds of database time a minute`
    refusals.push([secondsUntilTime(verdict, now, DATABASE_LIMIT_MS), problem])
  }
  if (company && isClosed(company, now, COMPANY_LIMIT_MS)) {
    const problem = `All tokens of the company may use ${COMPANY_LIMIT_MS / 1_000} seconds of database time a minute`
    refusals.push([secondsUntilTime(company, now, COMPANY_LIMIT_MS), problem])
  }
  if (remaining <= 0 || refusals.length === 0) refusals.push([secondsUntil(resetAt, now)])
  const longest = refusals.reduce((one, other) => (other[0] > one[0] ? other : one))
  return rateLimited(...longest)
}

/** @param seconds after which the same request succeeds */
export function rateLimited(seconds: number, problem = `The token may send ${LIMIT} requests a minute`): ApiError {
  return new ApiError('rate_limited', {
    message: `${problem}: retry after ${describeSeconds(seconds)}`,
    details: { retry_after: seconds },
    headers: { 'Retry-After': String(seconds) },
  })
}

function secondsUntilTime(rest: DatabaseRest, now: number, limitMs: number): number {
  const at = databaseResetAt(rest, limitMs)
  return secondsUntil(at, now, at - rest.resetAt + WINDOW_MS)
}
