import type { MiddlewareHandler } from 'hono'
import type { BatchResult, Meter } from '../db/client.ts'
import { parseBookmark, type Version } from '../db/placement.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError, errorResponse } from '../http/errors.ts'
import { type DatabaseGate, gateOfCompany, type Pass } from './database-gate.ts'
import { recordDistance } from './distances.ts'
import type { Mark } from './freshness.ts'
import type { Permission } from './permissions.ts'
import type { Admission, Remote } from './protocol.ts'
import { describeLimits, POLICY, rateLimited, refusalOf } from './refusals.ts'
import type { TokenGate } from './token-gate.ts'
import type { Token } from './tokens.ts'
import type { Verdict } from './window.ts'

/**
 * Refuses the request, or runs it. A read that runs beside the call of the token's object ({@link RequestUsage.token}) is
 * discarded when that call refuses it.
 */
export const rateLimit: MiddlewareHandler<{
  Variables: { usage: RequestUsage; required?: Permission }
}> = async (c, next) => {
  const usage = c.get('usage')
  const refusal = usage.refusal()
  if (!refusal) await next()
  const late = refusal ?? (await usage.check(c.get('required')))
  if (late) {
    // Without this Hono would copy the headers of the discarded response.
    c.res = undefined
    c.res = errorResponse(late)
  }
  usage.setHeaders(c.res.headers)
  usage.end(c.res.status)
}

/** A write that was announced longer ago is announced again before its batch: after a minute its object takes it for lost. */
const ANNOUNCED_MS = 20_000

/** The most that a failed batch is charged: D1 does not report its time, and an outage must not use up an allowance. */
const FAILED_BATCH_MS = 1_000

/**
 * Where a batch may run: {@link Mark}, with what the client sent where that is newer. Of another database it tells that
 * the company was moved: then only the primary is certain to know.
 */
function markOf(mark: Mark, database: string, sent: Version | null): Mark {
  if (mark === 'primary' || sent === null) return mark
  if (sent.database !== database) return 'primary'
  return mark === null || sent.bookmark > mark ? sent.bookmark : mark
}

/** One request's use of its token's limits: what it may do, and the database time of its batches. */
export class RequestUsage implements Meter {
  /** Of the company, as far as is known: see {@link RequestUsage.admitted}. */
  token: Token
  private readonly gate: TokenGate
  private readonly remote: Remote
  /** The token with which the request began before its call was answered. */
  private readonly assumed: Token | null
  private admission: Admission | null = null
  /** When the object was last told of the request's write. */
  private announcedAt = 0
  private readonly admitting: Promise<Admission>
  private verdict: Verdict | null = null
  /** How fresh what the request has read or written is. */
  private seen: () => string | null = () => null
  private mark: Mark = 'primary'
  private hasEnded = false

  /** @param entered what the request may do; a promise where it begins with a token that is assumed */
  constructor(gate: TokenGate, remote: Remote, entered: Admission | { assumed: Token; admitting: Promise<Admission> }) {
    this.gate = gate
    this.remote = remote
    this.assumed = 'assumed' in entered ? entered.assumed : null
    if ('assumed' in entered) {
      this.token = entered.assumed
      this.admitting = entered.admitting.then((admission) => this.receive(admission))
      // Also for an aborted request the call must end.
      remote.keepAlive(this.admitting.catch(() => undefined))
    } else {
      this.token = entered.token
      this.admitting = Promise.resolve(this.receive(entered))
    }
  }

  private receive(admission: Admission): Admission {
    this.admission = admission
    this.announcedAt = Date.now()
    this.token = admission.token
    this.verdict = admission.verdict
    return admission
  }

  /** Whether the request runs with a token that is assumed, beside the call that may refuse it. */
  get isAssumed(): boolean {
    return this.admission === null
  }

  /**
   * The token as it is, behind the call of its object.
   *
   * @throws ApiError 401 or 429 where the request is refused
   */
  async admitted(): Promise<Token> {
    const { token } = await this.admitting
    const refusal = this.refusal()
    if (refusal) throw refusal
    return token
  }

  /** Whether the token's last use is to be written. */
  get isTouchDue(): boolean {
    return this.admission?.isTouchDue ?? false
  }

  /** Whether the request is admitted, for a response that streams. */
  isAdmitted(): Promise<boolean> {
    return this.admitted().then(
      () => true,
      () => false,
    )
  }

  /** The 429 of a request that may not run; null where that is not known yet. */
  refusal(): ApiError | null {
    return this.verdict && !this.verdict.allowed ? refusalOf(this.verdict, Date.now()) : null
  }

  /** Takes the requests as which the one counts. @throws ApiError 429 where there are not enough */
  async take(requests: number): Promise<void> {
    const { verdict } = await this.admitting
    if (requests <= 1) return
    this.verdict = await this.gate.take(this.remote, requests, verdict)
    const refusal = this.refusal()
    if (refusal) throw refusal
  }

  /** Waits for the call. @returns the error of a request that it refuses, or that its token may not send any more */
  async check(required: Permission | undefined): Promise<ApiError | null> {
    const { assumed } = this
    try {
      const token = await this.admitted()
      return assumed ? (refuseToken(token, required) ?? refuseOther(assumed, token)) : null
    } catch (error) {
      if (error instanceof ApiError) return error
      throw error
    }
  }

  /** How fresh the request's reads must be. */
  freshness(sent: string | undefined): Mark {
    const { admission, token } = this
    this.mark = admission ? markOf(admission.mark, token.database, parseBookmark(sent)) : 'primary'
    return this.mark
  }

  /** @param seen the bookmark of the request's session, which is reported where the token wrote in it */
  open(seen: () => string | null): void {
    this.seen = seen
  }

  /** The company was moved since the token was looked up: the next request looks it up again. */
  forget(): void {
    this.remote.keepAlive(this.gate.forget(this.remote))
  }

  /**
   * Runs a batch as soon as the company's earlier ones leave room for it, and charges its time.
   *
   * @throws ApiError 429 without running it, where the wait was too long or the allowance was used up meanwhile
   */
  async run<T extends BatchResult>(batch: () => Promise<T>): Promise<T> {
    const batches = gateOfCompany(this.token.companyId)
    await this.announceLate()
    const pass = batches.tryEnter() ?? (await this.waitForPass(batches))
    const startedAt = Date.now()
    const work = batch()
    const settle = (durationMs: number) => {
      batches.leave(pass, durationMs)
      this.charge(durationMs)
    }
    const settled = withDeadline(work, BUDGET_MS.database).then(
      ({ durationMs, place }) => {
        const networkMs = Math.max(0, Date.now() - startedAt - durationMs)
        recordDistance(this.token.database, place, this.mark !== 'primary', networkMs)
        settle(durationMs)
      },
      () => settle(Math.min(Date.now() - startedAt, FAILED_BATCH_MS)),
    )
    // The batch of an aborted request is charged and leaves the gate, too.
    this.remote.keepAlive(settled)
    await settled
    return work
  }

  charge(databaseMs: number): void {
    this.gate.charge(databaseMs)
    if (this.hasEnded) this.remote.keepAlive(this.gate.report(this.remote))
  }

  setHeaders(headers: Headers): void {
    const { verdict } = this
    if (!verdict) return
    headers.set('RateLimit-Policy', POLICY)
    const { remaining, resetAt } = verdict
    headers.set('RateLimit', describeLimits({ ...this.gate.left(), remaining, resetAt }, Date.now()))
  }

  /**
   * Makes later reads of the token at least as fresh as those of this request: for a response that sends its caller to
   * read something else.
   */
  async remember(): Promise<void> {
    const seen = parseBookmark(this.seen())
    if (seen === null || seen.bookmark === this.mark) return
    await this.gate.report(this.remote, seen, BUDGET_MS.limiter)
  }

  /** Reports what the request wrote and used, when the response is ready; later charges are reported at once. */
  end(status: number): void {
    this.hasEnded = true
    const { admission } = this
    const { write, settledAt } = admission ?? {}
    const hasFailed = status >= 500
    const seen = parseBookmark(this.seen()) ?? { database: this.token.database, bookmark: null }
    const which = { ...(write != null && { write }), ...(settledAt !== undefined && { settledAt }) }
    // A write that failed may happen still: then it counts as lost.
    const report = !hasFailed && Object.keys(which).length > 0 ? { ...seen, ...which } : undefined
    if (write === null && (hasFailed || seen.bookmark !== null)) this.gate.lose({ ...seen, isUnknown: hasFailed })
    this.remote.keepAlive(this.gate.report(this.remote, report))
  }

  /** Announces a write once more whose body took so long that the object would soon take it for lost. */
  private async announceLate(): Promise<void> {
    const { admission } = this
    if (admission?.write == null || Date.now() < this.announcedAt + ANNOUNCED_MS) return
    this.announcedAt = Date.now()
    const isKnown = await this.gate.renew(this.remote, this.token.database, admission.write)
    if (!isKnown) this.admission = { ...admission, write: null }
  }

  private async waitForPass(batches: DatabaseGate): Promise<Pass> {
    const waited = batches.wait()
    this.remote.keepAlive(waited.catch(() => undefined))
    const pass = await waited.catch(() => {
      const seconds = Math.max(1, Math.ceil(batches.expectedMs() / 1_000))
      throw rateLimited(seconds, 'Too many concurrent requests of this company')
    })
    const refusal = this.refusal() ?? this.gate.databaseRefusal()
    if (!refusal) return pass
    batches.leave(pass)
    throw refusal instanceof ApiError ? refusal : refusalOf(refusal, Date.now())
  }
}

/** The response that was made for other permissions than the token has, in the half minute after they were changed. */
function refuseOther(assumed: Token, { permissions }: Token): ApiError | null {
  if (assumed.permissions.symmetricDifference(permissions).size === 0) return null
  const message = 'The token was changed a moment ago: retry after 1 second'
  return new ApiError('unavailable', { message, headers: { 'Retry-After': '1' } })
}

/** What a token may not send, whatever the rest of its request is. */
export function refuseToken({ suspended, permissions }: Token, required: Permission | undefined): ApiError | null {
  if (suspended) return new ApiError('forbidden', { message: 'The company is suspended: ask the operator of this API' })
  if (required === undefined || permissions.has(required)) return null
  return new ApiError('forbidden', { message: `The token lacks the permission \`${required}\`: use one that has it` })
}
