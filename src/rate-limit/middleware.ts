import type { MiddlewareHandler, Next } from 'hono'
import type { Meter } from '../db/client.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError, errorResponse } from '../http/errors.ts'
import { describeSeconds } from '../http/messages.ts'
import type { Pass } from './database-gate.ts'
import type { LocalLimiter, Remote } from './local-limiter.ts'
import { DATABASE_LIMIT_MS, databaseResetAt, LIMIT, secondsUntil, type Verdict, WINDOW_MS } from './window.ts'

/**
 * Counts the request. Where the token's Durable Object must be called, the route runs beside that call and its response
 * is discarded when the request is refused; a route that writes waits first ({@link waitForLimit}), and every route
 * does while the token's database time is used up.
 */
export const rateLimit: MiddlewareHandler<{
  Variables: { usage: RequestUsage }
}> = async (c, next) => {
  const usage = c.get('usage')
  const { limiter } = usage
  const mustWait = limiter.databaseRefusal() !== null
  const acquired = COUNTED_BY_ROUTE.test(c.req.path) ? null : usage.permit()
  const runsBeside = acquired === null || (acquired instanceof Promise && !mustWait)
  if (runsBeside || (await acquired).allowed) await next()
  const verdict = await usage.permit()
  if (!verdict.allowed) {
    // Without this Hono would copy the headers of the discarded response.
    c.res = undefined
    c.res = errorResponse(refusalOf(verdict, Date.now()))
  }
  c.res.headers.set('RateLimit-Policy', POLICY)
  c.res.headers.set('RateLimit', describeLimits({ ...verdict, databaseMs: limiter.databaseLeft() }, Date.now()))
  usage.end()
}

/** Only the body says how many requests these count as: their route takes the permits. */
const COUNTED_BY_ROUTE = /\/batch\/?$/

/** Runs before a route that writes. @param count of requests that this one counts as */
export async function waitForLimit(c: { get(name: 'usage'): RequestUsage }, next: Next, count = 1): Promise<void> {
  const verdict = await c.get('usage').permit(count)
  if (!verdict.allowed) throw refusalOf(verdict, Date.now())
  await next()
}

/** The most that a failed batch is charged: D1 does not report its time, and an outage must not use up an allowance. */
const FAILED_BATCH_MS = 1_000

/** One request's use of its token's limits: its permit and the database time of its batches. */
export class RequestUsage implements Meter {
  readonly limiter: LocalLimiter
  private readonly remote: Remote
  private refusal: Verdict | null = null
  private permitted: Verdict | Promise<Verdict> | null = null
  private hasEnded = false

  constructor(limiter: LocalLimiter, remote: Remote) {
    this.limiter = limiter
    this.remote = remote
  }

  /**
   * Takes the request's permits, as many as the first call says; a promise, which never rejects, where the token's
   * Durable Object must be called.
   */
  permit(count = 1): Verdict | Promise<Verdict> {
    this.permitted ??= this.acquire(count)
    return this.permitted
  }

  private acquire(count: number): Verdict | Promise<Verdict> {
    const acquired = this.limiter.acquire(this.remote, count)
    const remember = (verdict: Verdict) => {
      if (!verdict.allowed) this.refusal = verdict
    }
    // Also for an aborted request the wait must end, or the limiter would count it as waiting forever.
    if (acquired instanceof Promise) this.remote.keepAlive(acquired.then(remember))
    return acquired
  }

  /**
   * Runs a batch as soon as the token's earlier ones leave room for it, and charges its time.
   *
   * @throws ApiError 429 without running it, where the wait was too long or the allowance was used up meanwhile
   */
  async run<T extends { durationMs: number }>(batch: () => Promise<T>): Promise<T> {
    const { gate } = this.limiter
    const pass = gate.tryEnter() ?? (await this.waitForPass())
    const startedAt = Date.now()
    const work = batch()
    const settle = (durationMs: number) => {
      gate.leave(pass, durationMs)
      this.charge(durationMs)
    }
    const settled = withDeadline(work, BUDGET_MS.database).then(
      ({ durationMs }) => settle(durationMs),
      () => settle(Math.min(Date.now() - startedAt, FAILED_BATCH_MS)),
    )
    // The batch of an aborted request is charged and leaves the gate, too.
    this.remote.keepAlive(settled)
    await settled
    return work
  }

  charge(databaseMs: number): void {
    this.limiter.charge(databaseMs)
    if (this.hasEnded) this.remote.keepAlive(this.limiter.report(this.remote))
  }

  /** Reports the database time, when the response is ready; later charges are reported at once. */
  end(): void {
    this.hasEnded = true
    this.charge(0)
  }

  private async waitForPass(): Promise<Pass> {
    const { gate } = this.limiter
    const waited = gate.wait()
    this.remote.keepAlive(waited.catch(() => undefined))
    const pass = await waited.catch(() => {
      throw rateLimited(Math.max(1, Math.ceil(gate.expectedMs() / 1_000)), 'Too many concurrent requests of this token')
    })
    const refusal = this.refusal ?? this.limiter.databaseRefusal()
    if (!refusal) return pass
    gate.leave(pass)
    throw refusalOf(refusal, Date.now())
  }
}

const WINDOW_SECONDS = WINDOW_MS / 1_000

/** `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11. */
export const POLICY = `"default";q=${LIMIT};w=${WINDOW_SECONDS}, "database";q=${DATABASE_LIMIT_MS};w=${WINDOW_SECONDS};qu="milliseconds"`

/** `RateLimit` of the same draft. */
function describeLimits(verdict: Verdict, now: number): string {
  const requestSeconds = secondsUntil(verdict.resetAt, now)
  const milliseconds = Math.max(0, Math.floor(verdict.databaseMs))
  const databaseSeconds = secondsUntilDatabaseTime(verdict, now)
  return `"default";r=${verdict.remaining};t=${requestSeconds}, "database";r=${milliseconds};t=${databaseSeconds}`
}

/** The 429 of a verdict that refuses. */
function refusalOf(verdict: Verdict, now: number): ApiError {
  if (verdict.databaseMs > 0) return rateLimited(secondsUntil(verdict.resetAt, now))
  const message = `The token may use ${DATABASE_LIMIT_MS / 1_000} seconds of database time a minute`
  return rateLimited(secondsUntilDatabaseTime(verdict, now), message)
}

/** @param seconds after which the same request succeeds */
export function rateLimited(seconds: number, problem = `The token may send ${LIMIT} requests a minute`): ApiError {
  return new ApiError('rate_limited', {
    message: `${problem}: retry after ${describeSeconds(seconds)}`,
    details: { retry_after: seconds },
    headers: { 'Retry-After': String(seconds) },
  })
}

function secondsUntilDatabaseTime(verdict: Verdict, now: number): number {
  const at = databaseResetAt(verdict)
  return secondsUntil(at, now, at - verdict.resetAt + WINDOW_MS)
}
