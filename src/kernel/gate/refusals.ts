import { ApiError } from '../http/errors.ts'
import { describeSeconds } from '../http/messages.ts'
import type { Permission } from './permissions.ts'
import type { Token } from './tokens.ts'
import {
  COMPANY_LIMIT_MS,
  companyRemainingAt,
  DATABASE_LIMIT_MS,
  type Decision,
  databaseResetAt,
  isClosed,
  LIMIT,
  type Remaining,
  type RemainingTime,
  secondsUntil,
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
export function describeLimits(limits: Remaining, now: number): string {
  const describeTime = (name: string, each: RemainingTime, limitMs: number) => {
    const milliseconds = Math.max(0, Math.floor(each.databaseMs))
    return `"${name}";r=${milliseconds};t=${secondsUntilTime(each, now, limitMs)}`
  }
  return [
    `"default";r=${limits.remaining};t=${secondsUntil(limits.resetAt, now)}`,
    describeTime('database', limits, DATABASE_LIMIT_MS),
    describeTime('company', companyRemainingAt(limits.company, now), COMPANY_LIMIT_MS),
  ].join(', ')
}

/** The 429 of a refusal, by the limit that refuses for longest. */
export function refusalOf(decision: Decision, now: number): ApiError {
  const { company, remaining, resetAt, databaseMs } = decision
  const refusals: [seconds: number, problem?: string][] = []
  if (databaseMs <= 0) {
    const problem = `The token may use ${DATABASE_LIMIT_MS / 1_000} seconds of database time a minute`
    refusals.push([secondsUntilTime(decision, now, DATABASE_LIMIT_MS), problem])
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

function secondsUntilTime(time: RemainingTime, now: number, limitMs: number): number {
  const at = databaseResetAt(time, limitMs)
  return secondsUntil(at, now, at - time.resetAt + WINDOW_MS)
}

/** The 403 of a token that may not send a request, whatever else is wrong with that. */
export function refuseToken({ suspended, permissions }: Token, required?: Permission): ApiError | null {
  if (suspended) return new ApiError('forbidden', { message: 'The company is suspended: ask the operator of this API' })
  if (required === undefined || permissions.has(required)) return null
  return new ApiError('forbidden', { message: `The token lacks the permission \`${required}\`: use one that has it` })
}
