import type { MiddlewareHandler } from 'hono'
import { wakeDelivery } from '../accounting/delivery.ts'
import { databaseFor } from '../db/client.ts'
import { deploymentStorage } from '../files/r2-storage.ts'
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

/** Finds out whose request this is, and opens its way to the company's database. */
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

  const later = (work: Promise<unknown>) => c.executionCtx.waitUntil(work)
  const usage = new RequestUsage(limiterOf(hash), remoteLimiter(c.env, hash, requestId, later))
  const db = databaseFor(c.env.DB, token.companyId, { bookmark: c.req.header('x-bookmark'), meter: usage })
  c.set('token', token)
  c.set('usage', usage)
  c.set('context', {
    requestId,
    now,
    token,
    companyId: token.companyId,
    db,
    deploymentStorage: deploymentStorage(c.env, c.req.url, now),
    cache: c.env.CACHE,
    credentialsKey: c.env.CREDENTIALS_KEY,
    ifNoneMatch: c.req.header('if-none-match') ?? null,
    wakeAccounting: () => later(wakeDelivery(c.env, token.companyId)),
    later,
  })
  await next()

  later(
    touchToken(c.env.DB, token, now)
      .then((databaseMs) => usage.charge(databaseMs))
      .catch(() => undefined),
  )
  const bookmark = db.bookmark()
  const { headers } = c.res
  if (bookmark) headers.set('X-Bookmark', bookmark)
  headers.set('Server-Timing', `db;dur=${db.waitedMs()}`)
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
