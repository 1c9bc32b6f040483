import type { MiddlewareHandler } from 'hono'
import type { AppEnv } from '../context.ts'
import { errorResponse } from '../http/errors.ts'
import { describeLimits, POLICY, refusalOf } from './headers.ts'

/**
 * Counts the request against what this isolate has leased, or asks the token's Durable Object for more. The route runs
 * beside the check, and its response is thrown away when the check refuses; a route that changes something waits for it
 * first, and so does every other one while the token's database time is used up.
 */
export const rateLimit: MiddlewareHandler<AppEnv> = async (c, next) => {
  const { now } = c.get('context')
  const usage = c.get('usage')
  const mustWait = usage.isDatabaseTimeUsedUp()
  const known = usage.check(now)
  const pending = known ? Promise.resolve(known) : usage.acquire(now)
  c.set('limit', pending)

  const early = mustWait ? await pending : known
  if (early?.allowed !== false) await next()
  const verdict = await pending
  if (!verdict.allowed) {
    // Hono would put the headers of the response that is thrown away onto the new one.
    c.res = undefined
    c.res = errorResponse(refusalOf(verdict, Date.now()))
  }
  c.res.headers.set('RateLimit-Policy', POLICY)
  c.res.headers.set('RateLimit', describeLimits(verdict, usage.databaseLeft(), Date.now()))
  usage.end()
}

/** The step of a route that changes something. */
export const waitForLimit: MiddlewareHandler<AppEnv> = async (c, next) => {
  const verdict = await c.get('limit')
  if (!verdict.allowed) throw refusalOf(verdict, Date.now())
  await next()
}
