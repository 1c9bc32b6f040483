import type { Context } from 'hono'
import type { Env } from '../../env.ts'
import type { DatabaseUse } from '../db/client.ts'
import { acceptsSchema, verifySchema } from '../db/refusals.ts'
import { BUDGET_MS, log, nameOf, withDeadline } from '../http/isolate.ts'
import { type Admission, type Admitted, type RateLimiter, type Report, unlessExpired } from './limiter.ts'
import { advance, type Decision, isOutOfTime, LIMIT, type Limits, resetAt, type Window } from './limits.ts'
import { findToken, TOKEN_MS, type Token } from './tokens.ts'

export type TokenContext = Pick<
  Context<{ Bindings: Env; Variables: { requestId: string; databaseUse: DatabaseUse } }>,
  'env' | 'req' | 'get' | 'executionCtx'
>

/** An object that failed is called again after this time, by one request. */
const RETRY_MS = 5_000
/** Database time waits for the next call; this much deserves a call of its own. */
const REPORT_MS = 50

type CurrentAdmission = Exclude<Admission, { kind: 'outdated' }>
type Send<T> = (object: DurableObjectStub<RateLimiter>, report: Report) => Promise<T>

const noUsage = () => ({ databaseMs: 0, refused: 0, uncounted: 0 })
const ENDED: CurrentAdmission = { kind: 'ended', ageMs: 0 }

/**
 * One token in this isolate, whose object decides. The isolate keeps a refusal until its reset, the allowance for an
 * object that fails or is silent, and what the next call reports.
 */
export class TokenState implements Limits {
  /** SHA-256 of the token, lower-case hex: the name of its object. */
  readonly hash: string
  /** By the last response, with the unreported usage. */
  window: Window = { startedAt: 0, count: 0, databaseMs: 0 }
  company: Window | undefined
  /** For use until then; a null token has ended. */
  private cached: { token: Token | null; until: number } | null = null
  private unreported = noUsage()
  /** The newest write that the object does not know: every call reports it until one succeeds. */
  private unknownWrite: symbol | null = null
  /** Requests whose calls are under way: the object may allow each. */
  private pending = 0
  /** When an object that fails is called again; 0 for one that works. */
  private retryAt = 0

  constructor(hash: string) {
    this.hash = hash
  }

  /** The token if it was valid when this isolate last saw it. */
  lastToken(now: number): Token | null {
    return this.cached && unlessExpired(this.cached.token, now)
  }

  /** @throws ApiError where neither the object nor the directory responds */
  async admit(c: TokenContext, isWrite: boolean): Promise<CurrentAdmission> {
    const now = Date.now()
    if (this.cached && now < this.cached.until && !this.lastToken(now)) return ENDED
    const isRetry = this.retryAt > 0 && now >= this.retryAt
    const refusal = isRetry ? null : this.refuseAlone(now)
    if (refusal) return refusal
    const admission = await this.call(c, async (object, report) => object.admit(this.hash, { ...report, isWrite }), 1)
    if (admission?.kind === 'ended' || admission?.kind === 'unknown') return admission
    // During a deployment the isolate and the object may need different schemas.
    if (admission?.kind === 'admitted' && acceptsSchema(admission.applied)) return admission
    return this.refuseAlone(Date.now()) ?? this.admitAlone(c)
  }

  async take(c: TokenContext, requests: number): Promise<Decision> {
    return (await this.report(c, { requests })) ?? this.countAlone(requests, Date.now())
  }

  /** Reports what the isolate has kept, and the request's own part. @returns null where the object did not get it */
  report(c: TokenContext, request: Pick<Report, 'seen' | 'requests'> = {}): Promise<Decision | null> {
    return this.call(c, async (object, report) => object.report({ ...report, ...request }), request.requests)
  }

  isReportDue(): boolean {
    return this.unknownWrite !== null || this.unreported.databaseMs >= REPORT_MS
  }

  charge(databaseMs: number): void {
    this.unreported.databaseMs += databaseMs
    this.window.databaseMs += databaseMs
  }

  /** With the next call the object learns of a write that it does not know. */
  noteUnknownWrite(): void {
    this.unknownWrite = Symbol()
  }

  /** The company has moved: the object looks the token up again. */
  forget(c: TokenContext): void {
    const sent = (async () => this.open(c).forget())()
    c.executionCtx.waitUntil(sent.catch((error: unknown) => this.fail(c, error)))
  }

  /** A new stub for each call: one that has failed is of no further use. The first call creates the object near it. */
  private open({ env }: TokenContext): DurableObjectStub<RateLimiter> {
    return env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(this.hash))
  }

  /** Null while the object fails or is silent. @param requests that it may allow */
  private call<T extends Admission | Decision>(c: TokenContext, send: Send<T>, requests = 0): Promise<T | null> {
    const askedAt = Date.now()
    if (askedAt < this.retryAt) return Promise.resolve(null)
    const isRetry = this.retryAt > 0
    if (isRetry) this.retryAt = askedAt + RETRY_MS
    const { unreported: usage, unknownWrite } = this
    const report = { ...usage, mayCommit: unknownWrite !== null }
    this.unreported = noUsage()
    this.pending += requests
    const work = async () => {
      try {
        const response = await withDeadline(send(this.open(c), report), isRetry ? BUDGET_MS.limiter : BUDGET_MS.silence)
        this.receive(response, askedAt)
        if (this.unknownWrite === unknownWrite) this.unknownWrite = null
        return response
      } catch (error) {
        this.unreported.databaseMs += usage.databaseMs
        this.unreported.refused += usage.refused
        this.unreported.uncounted += usage.uncounted
        this.fail(c, error)
        return null
      } finally {
        this.pending -= requests
      }
    }
    const ended = work()
    // It outlives an aborted request.
    c.executionCtx.waitUntil(ended)
    return ended
  }

  private fail(c: TokenContext, error: unknown): void {
    const now = Date.now()
    // Calls that fail together are one failure.
    if (now >= this.retryAt) log('limiter_failed', { request_id: c.get('requestId'), reason: nameOf(error) })
    this.retryAt = now + RETRY_MS
  }

  /** Takes a response, which may arrive in another order than its call was sent. */
  private receive(response: Admission | Decision, askedAt: number): void {
    if ('allowed' in response) this.update(response)
    else if (response.kind === 'admitted' || response.kind === 'ended') {
      if (response.kind === 'admitted') this.update(response.decision)
      const token = response.kind === 'admitted' ? response.token : null
      this.cached = { token, until: askedAt + TOKEN_MS - response.ageMs }
    }
    this.retryAt = 0
  }

  private update({ window, company }: Limits): void {
    const { window: known, unreported } = this
    const { startedAt } = window
    const count = window.count + unreported.uncounted
    const databaseMs = window.databaseMs + unreported.databaseMs
    if (startedAt === known.startedAt) {
      known.count = Math.max(known.count, count)
      known.databaseMs = Math.max(known.databaseMs, databaseMs)
    } else if (startedAt > known.startedAt || (this.retryAt > 0 && resetAt(window) > Date.now())) {
      // While the object failed, the known window may be this isolate's own.
      this.window = { startedAt, count, databaseMs }
    }
    this.company = company ?? this.company
  }

  /** The refusal of every request until the reset; null while something is left. */
  private refuseAlone(now: number): Admitted | null {
    const token = this.cached?.token
    const isUsedUp = advance(this.window, now).count >= LIMIT
    if (!token || !(isUsedUp || isOutOfTime(this, now))) return null
    this.unreported.refused++
    return admitted(token, this.decision(false))
  }

  /** Allows requests without the object: the rest of its window, or else one whole allowance. */
  private countAlone(requests: number, now: number): Decision {
    if (now >= resetAt(this.window)) this.unreported = noUsage()
    this.window = advance(this.window, now)
    if (isOutOfTime(this, now) || this.window.count + requests + this.pending > LIMIT) return this.decision(false)
    this.window.count += requests
    this.unreported.uncounted += requests
    return this.decision(true)
  }

  private decision(allowed: boolean): Decision {
    return { window: this.window, company: this.company, allowed }
  }

  /** Admits without the object, by the cached token or the directory. */
  private async admitAlone(c: TokenContext): Promise<CurrentAdmission> {
    const now = Date.now()
    if (!this.cached || now >= this.cached.until) {
      const { token, applied } = await findToken(c.env.DB, this.hash, c.get('databaseUse'))
      verifySchema(applied)
      this.cached = token === undefined ? null : { token, until: now + TOKEN_MS }
    }
    if (!this.cached) return { kind: 'unknown' }
    const token = this.lastToken(now)
    return token ? admitted(token, this.countAlone(1, now)) : ENDED
  }
}

function admitted(token: Token, decision: Decision): Admitted {
  return { kind: 'admitted', token, decision, ageMs: 0, applied: null, constraint: 'primary', receipt: undefined }
}
