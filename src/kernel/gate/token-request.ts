import type { Context } from 'hono'
import type { Env } from '../../env.ts'
import type { DatabaseUse } from '../db/client.ts'
import { isCurrent, verifySchema } from '../db/migrations.ts'
import { BUDGET_MS, withSilenceLimit } from '../http/deadline.ts'
import { locationHint } from '../http/location-hint.ts'
import { log, nameOf } from '../http/log.ts'
import type { Admission, Admitted, RateLimiter, Report } from './limiter.ts'
import { merge, type Seen } from './read-after-write.ts'
import type { TokenState } from './token-state.ts'
import { findToken, LAST_USED_EVERY_MS, TOKEN_MS, type Token, usable } from './tokens.ts'
import type { Decision } from './window.ts'

type LimiterStub = DurableObjectStub<RateLimiter>
type TokenRequest = Pick<Context<TokenEnv>, 'env' | 'req' | 'get' | 'executionCtx'>
type Answer = Exclude<Admission, { kind: 'outdated' }>

/** Hono's types of what a call of the token's object reads. */
export interface TokenEnv {
  Bindings: Env
  Variables: {
    requestId: string
    databaseUse: DatabaseUse
  }
}

/** An object that failed is called again after this time, by one request. */
const RETRY_MS = 5_000

/** One request's calls of its token's object, which decides; while that fails or is silent, the isolate does. */
export class TokenClient {
  readonly state: TokenState
  private readonly c: TokenRequest

  constructor(c: TokenRequest, state: TokenState) {
    this.c = c
    this.state = state
  }

  /** @throws ApiError where neither the object nor the directory responds */
  async admit(isWrite: boolean): Promise<Answer> {
    const { state } = this
    const now = Date.now()
    const { cached, retryAt } = state
    if (cached && now < cached.until && !usable(cached.token, now)) return { kind: 'ended', ageMs: 0 }
    const isRetry = retryAt !== null && now >= retryAt
    if (isRetry) state.retryAt = now + RETRY_MS
    const refusal = isRetry ? null : this.refuse(now)
    if (refusal) return refusal
    const answer = await this.call(
      async (object, report) => object.admit(state.hash, { ...report, isWrite }),
      1,
      isRetry,
    )
    if (answer?.kind === 'ended' || answer?.kind === 'unknown') return answer
    // During a deployment the isolate and the object may need different schemas.
    if (answer?.kind !== 'admitted' || !isCurrent(answer.applied)) return this.refuse(Date.now()) ?? this.admitAlone()
    verifySchema(answer.applied)
    return answer
  }

  /** Counts the further requests of an admitted request. */
  async take(requests: number, { resetAt }: Decision): Promise<Decision> {
    const { state } = this
    const counted = { requests: 1, resetAt }
    const decision = await this.call(
      async (object, report) => object.take({ ...report, requests, counted }),
      requests - 1,
    )
    if (!decision) return state.allow(requests - 1, Date.now())
    // A refusal returns the first request, too.
    state.remaining.remaining = decision.remaining
    return decision
  }

  /** Reports a version, and the database time where that deserves a call, after the response. */
  reportLater(seen?: Seen): void {
    if (seen || this.state.unsent || this.state.isReportDue()) this.waitUntil(this.report(seen))
  }

  /** Reports a version. */
  async report(seen?: Seen): Promise<void> {
    const isReported = await this.send(seen && { seen })
    if (seen && !isReported) this.keep(seen)
  }

  /** Keeps for the next call a version of which the object does not know. */
  keep(seen: Seen): void {
    this.state.unsent = merge(this.state.unsent, seen)
  }

  /** @returns whether the object got it */
  async send(own: Pick<Report, 'seen' | 'begun'> = {}): Promise<boolean> {
    const answer = await this.call(async (object, report) => {
      const seen = own.seen ? merge(report.seen, own.seen) : report.seen
      return object.report({ ...report, ...own, ...(seen && { seen }) })
    })
    return answer !== null
  }

  /** The company has moved: the object looks the token up again. */
  forget(): void {
    this.waitUntil((async () => this.open().forget())().catch((error: unknown) => this.fail(error)))
  }

  /** Other requests may wait for the work: it outlives an aborted request. */
  waitUntil(work: Promise<unknown>): void {
    this.c.executionCtx.waitUntil(work)
  }

  /** A new stub for each call: one that has failed is of no further use. */
  private open(): LimiterStub {
    const { RATE_LIMITER } = this.c.env
    const { state } = this
    // The hint only matters for the call that creates the object.
    if (state.objectId) return RATE_LIMITER.get(state.objectId)
    const hint = locationHint(this.c.req.raw.cf)
    return RATE_LIMITER.get(RATE_LIMITER.idFromName(state.hash), hint && { locationHint: hint })
  }

  /** Null while the object fails or is silent. @param isRetry whether the call finds out if that has ended */
  private async call<T extends Admission | Decision>(
    send: (object: LimiterStub, report: Report) => Promise<T>,
    requests = 0,
    isRetry = false,
  ): Promise<T | null> {
    const { state } = this
    if (state.retryAt !== null && !isRetry) return null
    const { unsent } = state
    const usage = state.takeUsage()
    const askedAt = Date.now()
    state.pending += requests
    const sent = (async () => send(this.open(), { ...usage, ...(unsent && { seen: unsent }) }))().then((answer) => {
      if (state.unsent === unsent) state.unsent = undefined
      state.receive(answer, askedAt)
      state.objectId ??= this.c.env.RATE_LIMITER.idFromName(state.hash)
      return answer
    })
    const ended = withSilenceLimit(sent, () => state.answeredAt, isRetry ? BUDGET_MS.limiter : BUDGET_MS.silence)
      .catch((error: unknown) => {
        state.add(usage)
        this.fail(error)
        return null
      })
      .finally(() => {
        state.pending -= requests
      })
    this.waitUntil(ended)
    return ended
  }

  private fail(error: unknown): void {
    const now = Date.now()
    // Calls that fail together are one failure.
    const isFirst = now >= (this.state.retryAt ?? 0)
    if (isFirst) log('limiter_failed', { request_id: this.c.get('requestId'), reason: nameOf(error) })
    this.state.retryAt = now + RETRY_MS
  }

  private refuse(now: number): Admitted | null {
    const token = this.state.cached?.token
    const decision = token ? this.state.refuse(now) : null
    return token && decision ? admitted(token, decision) : null
  }

  /** Admits without the object, by the cached token or the directory. */
  private async admitAlone(): Promise<Answer> {
    const { state } = this
    const now = Date.now()
    let isTouchDue = false
    if (!state.cached || now >= state.cached.until) {
      const found = await findToken(this.c.env.DB, state.hash, this.c.get('databaseUse'))
      verifySchema(found.applied)
      isTouchDue = now - found.lastUsedAt >= LAST_USED_EVERY_MS
      state.cached = found.token === undefined ? null : { token: found.token, until: now + TOKEN_MS }
    }
    if (!state.cached) return { kind: 'unknown' }
    const token = state.lastToken(now)
    return token ? { ...admitted(token, state.allow(1, now)), isTouchDue } : { kind: 'ended', ageMs: 0 }
  }
}

function admitted(token: Token, decision: Decision): Admitted {
  return { kind: 'admitted', token, decision, ageMs: 0, applied: null, constraint: 'primary', isTouchDue: false }
}
