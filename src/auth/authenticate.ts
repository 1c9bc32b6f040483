import type { Context, MiddlewareHandler } from 'hono'
import type { AppEnv } from '../context.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError } from '../http/errors.ts'
import { log, nameOf } from '../http/log.ts'
import { limiterOf } from '../rate-limit/local-limiter.ts'
import { RequestUsage, rateLimited } from '../rate-limit/middleware.ts'
import type { Demand } from '../rate-limit/window.ts'
import { blockNetwork, delayLookup, networkOf } from './failed-lookups.ts'
import { cachedToken, hashToken, loadToken, type Token, touchToken, wasValid } from './tokens.ts'

const BEARER = /^Bearer +([0-9a-f]{64})$/i

/** What is wrong with a token, with the challenge of RFC 6750, section 3: it has an error where there was a token. */
const REFUSALS = {
  no_header: 'Send a token in the header Authorization: Bearer <API_TOKEN>',
  wrong_form: 'The header Authorization must be Bearer, a space and the token of 64 hexadecimal characters',
  invalid_token: 'The token is unknown, revoked or expired: create another one in the developer settings',
} as const

/** Sets the request's token and its usage of the token's limits; the last use is written after the response. */
export const authenticate: MiddlewareHandler<AppEnv> = async (c, next) => {
  const { env } = c
  const now = c.get('receivedAt')
  const header = c.req.header('authorization')
  const secret = BEARER.exec(header ?? '')?.[1]
  if (!secret) throw unauthenticated(header ? 'wrong_form' : 'no_header')

  const hash = hashToken(secret)
  const address = c.req.header('cf-connecting-ip') ?? 'unknown'
  const requestId = c.get('requestId')
  const cached = cachedToken(hash, now)
  const token = cached === undefined ? await lookUp(c, hash, networkOf(address)) : cached
  if (!token) throw unauthenticated('invalid_token')

  const keepAlive = (work: Promise<unknown>) => c.executionCtx.waitUntil(work)
  const acquire = async (demand: Demand) => env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(hash)).acquire(demand)
  const usage = new RequestUsage(limiterOf(hash), { requestId, acquire, keepAlive })
  c.set('token', token)
  c.set('usage', usage)
  await next()

  const charged = touchToken(env.DB, token, now).then((databaseMs) => usage.charge(databaseMs))
  keepAlive(charged.catch(() => undefined))
}

/** Null where it has expired or was revoked. @throws ApiError 401 for an unknown token, 429 for too many of them */
async function lookUp(c: Context<AppEnv>, hash: string, network: string): Promise<Token | null> {
  const { env } = c
  const now = c.get('receivedAt')
  let delayMs = wasValid(hash, now) ? 0 : delayLookup(network, hash, now)
  if (delayMs === 0) {
    const token = await loadToken(env.DB, hash, now, c.get('databaseUse'))
    if (token !== undefined) return token
    if (await countFailure(env.AUTH_FAILURES, network, c.get('requestId'))) throw unauthenticated('invalid_token')
    delayMs = blockNetwork(network, now)
  }
  throw rateLimited(Math.ceil(delayMs / 1000), 'Too many unknown tokens from this network')
}

/** Whether the network stays within its limit of failures; true where the limiter itself fails. */
export async function countFailure(failures: RateLimit, network: string, requestId: string): Promise<boolean> {
  try {
    return (await withDeadline(failures.limit({ key: network }), BUDGET_MS.limiter)).success
  } catch (error) {
    log('auth_limiter_failed', { request_id: requestId, reason: nameOf(error) })
    return true
  }
}

function unauthenticated(refusal: keyof typeof REFUSALS): ApiError {
  const message = REFUSALS[refusal]
  const challenge =
    refusal === 'invalid_token' ? `Bearer error="invalid_token", error_description="${message}"` : 'Bearer'
  return new ApiError('unauthenticated', { message, headers: { 'WWW-Authenticate': challenge } })
}
