import type { MiddlewareHandler } from 'hono'
import type { AppEnv } from '../http/context.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError, errorResponse } from '../http/errors.ts'
import { log } from '../http/log.ts'
import { type Grant, LIMIT, secondsUntil, type Verdict, WINDOW_MS } from './window.ts'

/** What this isolate holds of a token's window. None here and none elsewhere: it refuses by itself until the reset. */
interface Held extends Grant {
  /** Requests that it let through. */
  used: number
}

const held = new Map<string, Held>()
const MAX_HELD = 10_000

const POLICY = `"default";q=${LIMIT};w=${WINDOW_MS / 1000}`

/**
 * Counts the request against what this isolate holds, or asks the token's Durable Object for more. The route runs
 * beside the check, and its answer is thrown away when the check refuses; a route that changes something waits for it
 * first. A limiter that fails or is slow lets the request through.
 */
export const rateLimit: MiddlewareHandler<AppEnv> = async (c, next) => {
  const { token, now } = c.get('context')
  const known = spend(token.hash, now)
  const pending = known ? Promise.resolve(known) : ask(c.env, token.hash, now, c.get('requestId'))
  c.set('limit', pending)

  if (known?.allowed !== false) await next()
  const verdict = await pending
  if (!verdict) return

  const seconds = secondsUntil(verdict.resetAt, Date.now())
  if (!verdict.allowed) {
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

/** The verdict that this isolate can give by itself. */
function spend(hash: string, now: number): Verdict | undefined {
  const mine = held.get(hash)
  if (!mine || now >= mine.resetAt || (mine.units === 0 && mine.remaining > 0)) return
  const allowed = mine.units > 0
  if (allowed) {
    mine.units--
    mine.used++
  }
  return { allowed, remaining: mine.units + mine.remaining, resetAt: mine.resetAt }
}

/**
 * Asks for as many as this isolate has used already, in this window or in the one that has just ended, so that it never
 * holds many that nobody brings it.
 */
async function ask(env: AppEnv['Bindings'], hash: string, now: number, requestId: string): Promise<Verdict | null> {
  try {
    const before = held.get(hash)
    const wanted = before && now < before.resetAt + WINDOW_MS ? Math.max(1, before.used) : 1
    const limiter = env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(hash))
    const grant = await withDeadline(limiter.take(wanted), BUDGET_MS.limiter)
    const mine = held.get(hash)
    if (mine?.resetAt === grant.resetAt) {
      // Other requests of this token may have asked meanwhile.
      mine.units += grant.units
      mine.remaining = Math.min(mine.remaining, grant.remaining)
    } else {
      if (held.size >= MAX_HELD) held.clear()
      held.set(hash, { ...grant, used: 0 })
    }
    return spend(hash, 0) ?? null
  } catch (error) {
    const reason = error instanceof Error ? error.name : 'unknown'
    log('limiter_failed', { request_id: requestId, reason })
    return null
  }
}
