import type { MiddlewareHandler } from 'hono'
import type { AppEnv } from '../context.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError } from '../http/errors.ts'
import { log } from '../http/log.ts'
import { limiterOf, type Remote } from '../rate-limit/local-limiter.ts'
import { RequestUsage } from '../rate-limit/usage.ts'
import { blockNetwork, lookUpDelay } from './guesses.ts'
import { networkOf } from './network.ts'
import { cachedToken, hashToken, loadToken, type Token, touchToken, wasValid } from './tokens.ts'

const BEARER = /^Bearer +([0-9a-f]{64})$/i

/** Finds the request's token and what it has used of its limits. */
export const authenticate: MiddlewareHandler<AppEnv> = async (c, next) => {
  const now = Date.now()
  const secret = BEARER.exec(c.req.header('authorization') ?? '')?.[1]
  if (!secret) throw unauthenticated()

  const hash = hashToken(secret)
  const address = c.req.header('cf-connecting-ip') ?? 'unknown'
  const requestId = c.get('requestId')
  const cached = cachedToken(hash, now)
  const token = cached === undefined ? await lookUp(c.env, hash, networkOf(address), now, requestId) : cached
  if (!token) throw unauthenticated()

  const waitUntil = (work: Promise<unknown>) => c.executionCtx.waitUntil(work)
  const usage = new RequestUsage(limiterOf(hash), remoteLimiter(c.env, hash, requestId, waitUntil))
  c.set('token', token)
  c.set('usage', usage)
  await next()

  waitUntil(
    touchToken(c.env.DB, token, now)
      .then((databaseMs) => usage.charge(databaseMs))
      .catch(() => undefined),
  )
}

/** @throws ApiError 401 for an unknown token; 429 where its network has sent too many of them */
async function lookUp(
  env: AppEnv['Bindings'],
  hash: string,
  network: string,
  now: number,
  requestId: string,
): Promise<Token | null> {
  const delay = wasValid(hash, now) ? 0 : lookUpDelay(network, hash, now)
  if (delay > 0) throw tooManyGuesses(delay)
  const token = await loadToken(env.DB, hash, now)
  if (token !== undefined) return token
  if (await mayGuess(env.AUTH_FAILURES, network, requestId)) throw unauthenticated()
  throw tooManyGuesses(blockNetwork(network, now))
}

/** The way to the token's Durable Object. */
function remoteLimiter(
  env: AppEnv['Bindings'],
  hash: string,
  requestId: string,
  keepAlive: (work: Promise<unknown>) => void,
): Remote {
  return {
    acquire: async (demand) => env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(hash)).acquire(demand),
    keepAlive,
    failed: (error) =>
      log('limiter_failed', { request_id: requestId, reason: error instanceof Error ? error.name : typeof error }),
  }
}

/** Whether the network may go on sending unknown tokens: also while nobody counts them. */
async function mayGuess(failures: RateLimit, network: string, requestId: string): Promise<boolean> {
  try {
    const { success } = await withDeadline(failures.limit({ key: network }), BUDGET_MS.limiter)
    return success
  } catch (error) {
    log('guess_limiter_failed', { request_id: requestId, reason: error instanceof Error ? error.name : typeof error })
    return true
  }
}

function unauthenticated(): ApiError {
  return new ApiError('unauthenticated', { headers: { 'WWW-Authenticate': 'Bearer' } })
}

function tooManyGuesses(delayMs: number): ApiError {
  return new ApiError('rate_limited', {
    message: 'Too many unknown tokens from this address.',
    headers: { 'Retry-After': String(Math.ceil(delayMs / 1000)) },
  })
}
