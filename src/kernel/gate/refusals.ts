import { ApiError } from '../http/errors.ts'
import type { Permission } from './permissions.ts'
import type { Token } from './tokens.ts'
import {
  COMPANY_LIMIT_MS,
  DATABASE_LIMIT_MS,
  databaseResetAt,
  LIMIT,
  type Remaining,
  type RemainingTime,
  remainingAt,
  secondsUntil,
  WINDOW_MS,
} from './window.ts'

/** `Retry-After` of a request that waited in vain for the company's earlier ones. */
const CROWDED_SECONDS = 5

const WINDOW_SECONDS = WINDOW_MS / 1_000

const timePolicy = (name: string, limitMs: number) => `"${name}";q=${limitMs};w=${WINDOW_SECONDS};qu="milliseconds"`

/** `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11. */
export const POLICY = [
  `"default";q=${LIMIT};w=${WINDOW_SECONDS}`,
  timePolicy('database', DATABASE_LIMIT_MS),
  timePolicy('company', COMPANY_LIMIT_MS),
].join(', ')

/** Each limit: what is left, and the seconds until there is more. */
function limitsOf({ remaining, company, ...time }: Remaining, now: number) {
  const ofTime = (name: string, { databaseMs, resetAt }: RemainingTime, limitMs: number, whose: string) => {
    const at = databaseResetAt({ databaseMs, resetAt }, limitMs)
    const problem = `${whose} may use ${limitMs / 1_000} seconds of database time a minute`
    return { name, left: databaseMs, seconds: secondsUntil(at, now, at - resetAt + WINDOW_MS), problem }
  }
  const requests = { name: 'default', left: remaining, seconds: secondsUntil(time.resetAt, now), problem: undefined }
  return [
    requests,
    ofTime('database', time, DATABASE_LIMIT_MS, 'The token'),
    ofTime('company', remainingAt(company, now, COMPANY_LIMIT_MS), COMPANY_LIMIT_MS, 'All tokens of the company'),
  ] as const
}

/** `RateLimit` of the same draft. */
export function describeLimits(limits: Remaining, now: number): string {
  const describe = ({ name, left, seconds }: ReturnType<typeof limitsOf>[number]) =>
    `"${name}";r=${Math.max(0, Math.floor(left))};t=${seconds}`
  return limitsOf(limits, now).map(describe).join(', ')
}

/** The 429 of a refusal, by the limit that refuses for longest. */
export function refusalOf(limits: Remaining, now: number): ApiError {
  const [requests, ...times] = limitsOf(limits, now)
  const refusing = [requests, ...times].filter(({ left }) => left <= 0)
  // A request that counts as several may be refused although some are left.
  const { seconds, problem } = refusing.sort((a, b) => a.seconds - b.seconds).at(-1) ?? requests
  return rateLimited(seconds, problem)
}

export function rateLimited(seconds: number, problem = `The token may send ${LIMIT} requests a minute`): ApiError {
  return new ApiError('rate_limited', {
    message: `${problem}: retry after ${seconds} second${seconds === 1 ? '' : 's'}`,
    details: { retry_after: seconds },
    headers: { 'Retry-After': String(seconds) },
  })
}

export function crowded(): ApiError {
  return rateLimited(CROWDED_SECONDS, 'Too many concurrent requests of this company')
}

/** The 403 of a token that may not send a request, whatever else is wrong with that. */
export function refuseToken({ suspended, permissions }: Token, required?: Permission): ApiError | null {
  if (suspended) return new ApiError('forbidden', { message: 'The company is suspended: ask the operator of this API' })
  if (required === undefined || permissions.has(required)) return null
  return new ApiError('forbidden', { message: `The token lacks the permission \`${required}\`: use one that has it` })
}
