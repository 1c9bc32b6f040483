import type { MiddlewareHandler } from 'hono'
import type { AppEnv } from '../http/context.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError, errorResponse } from '../http/errors.ts'
import { log } from '../http/log.ts'
import { LIMIT, secondsUntil, type Verdict, WINDOW_MS } from './window.ts'

/** Tokens that were refused, and until when: this isolate refuses them by itself, at no cost to the object. */
const refused = new Map<string, number>()

const POLICY = `"default";q=${LIMIT};w=${WINDOW_MS / 1000}`

/**
 * Counts the request at the token's Durable Object. The route runs beside the check, and its answer is thrown away when
 * the check refuses; a route that changes something waits for it first. A limiter that fails or is slow lets the request
 * through.
 */
export const rateLimit: MiddlewareHandler<AppEnv> = async (c, next) => {
  const { token, now } = c.get('context')
  const refusedUntil = refused.get(token.hash)
  if (refusedUntil !== undefined && now >= refusedUntil) refused.delete(token.hash)
  const known: Verdict | undefined =
    refusedUntil !== undefined && now < refusedUntil
      ? { allowed: false, remaining: 0, resetAt: refusedUntil }
      : undefined
  const pending = known ? Promise.resolve(known) : ask(c.env, token.hash, c.get('requestId'))
  c.set('limit', pending)

  if (!known) await next()
  const verdict = await pending
  if (!verdict) return

  const seconds = secondsUntil(verdict.resetAt, Date.now())
  if (!verdict.allowed) {
    if (refused.size > 10_000) refused.clear()
    refused.set(token.hash, verdict.resetAt)
    // Hono would put the headers of the answer that is thrown away onto the new one.
    c.res = undefined
    c.res = errorResponse(new ApiError('rate_limited', { headers: { 'Retry-After': String(seconds) } }))
  }
  c.res.headers.set('RateLimit-Policy', POLICY)
  c.res.headers.set('RateLimit', `"default";r=${verdict.remaining};t=${seconds}`)
}

/** The step of a route that changes something. */
export const waitForLimit: MiddlewareHandler<AppEnv> = async (c, next) => {
  const verdict = await c.get('limit')
  if (verdict?.allowed === false) throw new ApiError('rate_limited')
  await next()
}

async function ask(env: AppEnv['Bindings'], hash: string, requestId: string): Promise<Verdict | null> {
  try {
    const limiter = env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(hash))
    return await withDeadline(limiter.take(), BUDGET_MS.limiter)
  } catch (error) {
    const reason = error instanceof Error ? error.name : 'unknown'
    log('limiter_failed', { request_id: requestId, reason })
    return null
  }
}
