import type { MiddlewareHandler } from 'hono'
import { wakeDelivery } from '../accounting/delivery.ts'
import { databaseFor } from '../db/client.ts'
import { deploymentStorage } from '../files/r2-storage.ts'
import type { AppEnv } from '../http/context.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError } from '../http/errors.ts'
import { log } from '../http/log.ts'
import { cachedToken, hashToken, hasSeenToken, loadToken, touchToken } from './tokens.ts'

const BEARER = /^Bearer +([0-9a-f]{64})$/i

/** The window of the `AUTH_FAILURES` binding. */
const FAILURE_WINDOW_MS = 60_000

/** Addresses that sent too many unknown tokens, and until when this isolate looks up no token of theirs that it has not seen. */
const guessers = new Map<string, number>()

/** Finds out whose request this is, and opens its way to the company's database. */
export const authenticate: MiddlewareHandler<AppEnv> = async (c, next) => {
  const now = Date.now()
  const secret = BEARER.exec(c.req.header('authorization') ?? '')?.[1]
  if (!secret) throw unauthenticated()

  const hash = hashToken(secret)
  const address = c.req.header('cf-connecting-ip') ?? 'unknown'
  const token = cachedToken(hash, now) ?? (await lookUp(c.env, hash, address, now, c.get('requestId')))

  const db = databaseFor(c.env.DB, token.companyId, c.req.header('x-bookmark'))
  c.set('token', token)
  c.set('context', {
    requestId: c.get('requestId'),
    now,
    token,
    companyId: token.companyId,
    db,
    deploymentStorage: deploymentStorage(c.env, c.req.url, now),
    cache: c.env.CACHE,
    credentialsKey: c.env.CREDENTIALS_KEY,
    ifNoneMatch: c.req.header('if-none-match') ?? null,
    wakeAccounting: () => c.executionCtx.waitUntil(wakeDelivery(c.env, token.companyId)),
    later: (work) => c.executionCtx.waitUntil(work),
  })
  await next()

  c.executionCtx.waitUntil(touchToken(c.env.DB, token, now).catch(() => undefined))
  const bookmark = db.bookmark()
  const { headers } = c.res
  if (bookmark) headers.set('X-Bookmark', bookmark)
  headers.set('Server-Timing', `db;dur=${db.waitedMs()}`)
}

async function lookUp(env: AppEnv['Bindings'], hash: string, address: string, now: number, requestId: string) {
  const blockedUntil = guessers.get(address) ?? 0
  if (now < blockedUntil && !hasSeenToken(hash)) throw tooManyGuesses(blockedUntil, now)
  const token = await loadToken(env.DB, hash, now)
  if (token) return token
  if (await mayGuess(env.AUTH_FAILURES, address, requestId)) throw unauthenticated()
  if (guessers.size > 1_000) guessers.clear()
  guessers.set(address, now + FAILURE_WINDOW_MS)
  throw tooManyGuesses(now + FAILURE_WINDOW_MS, now)
}

/** Whether the address may go on sending unknown tokens: also while nobody counts them. */
async function mayGuess(failures: RateLimit, address: string, requestId: string): Promise<boolean> {
  try {
    const { success } = await withDeadline(failures.limit({ key: address }), BUDGET_MS.limiter)
    return success
  } catch (error) {
    log('guess_limiter_failed', { request_id: requestId, reason: error instanceof Error ? error.name : typeof error })
    return true
  }
}

function unauthenticated(): ApiError {
  return new ApiError('unauthenticated', { headers: { 'WWW-Authenticate': 'Bearer' } })
}

function tooManyGuesses(until: number, now: number): ApiError {
  return new ApiError('rate_limited', {
    message: 'Too many unknown tokens from this address.',
    headers: { 'Retry-After': String(Math.ceil((until - now) / 1000)) },
  })
}
