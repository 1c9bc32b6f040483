import type { MiddlewareHandler } from 'hono'
import type { Env } from '../../env.ts'
import type { BatchResult, Database, DatabaseUse, Meter } from '../db/client.ts'
import { databaseFor, parseBookmark } from '../db/placement.ts'
import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, pause, withDeadline } from '../http/deadline.ts'
import { ApiError, errorResponse } from '../http/errors.ts'
import { networkOf } from '../http/outbound.ts'
import { type BatchSemaphore, fairShare, type Permit, semaphoreOf } from './fair-share.ts'
import type { Admitted } from './limiter.ts'
import { crowded, describeLimits, isOutOfTime, POLICY, rateLimited, refusalOf, remainingAt } from './limits.ts'
import { tighten } from './read-after-write.ts'
import { type TokenContext, TokenState } from './token-state.ts'
import { blockNetwork, countFailure, delayLookup, hashToken, refuseToken, type Token } from './tokens.ts'

export interface GateEnv {
  Bindings: Env
  Variables: {
    requestId: string
    /** Milliseconds since the epoch. */
    receivedAt: number
    databaseUse: DatabaseUse
    usage: RequestUsage
  }
}

const BEARER = /^Bearer +([0-9a-f]{64})$/i

/** By the challenge of RFC 6750, section 3, which names an error where there was a token. */
const REFUSALS = {
  no_header: 'Send a token in the header Authorization: Bearer <API_TOKEN>',
  wrong_form: 'The header Authorization must be Bearer, a space and the token of 64 hexadecimal characters',
  invalid_token: 'The token is unknown, revoked or expired: create another one in the developer settings',
} as const

/** By the token itself, so that a known one is not hashed again. */
const states = new LruCache<string, TokenState>({ maxWeight: 10_000 })

/**
 * Refuses a request with 401, 429 or 403, or runs it: by one call to its token's Durable Object. The request's own use is
 * reported after the response.
 */
export const admit: MiddlewareHandler<GateEnv> = async (c, next) => {
  const now = c.get('receivedAt')
  const header = c.req.header('authorization')
  const secret = BEARER.exec(header ?? '')?.[1]
  if (!secret) throw unauthenticated(header ? 'wrong_form' : 'no_header')
  const state = states.get(secret) ?? new TokenState(hashToken(secret))
  const network = () => networkOf(c.req.header('cf-connecting-ip') ?? 'unknown')
  const delayMs = state.lastToken(now) ? 0 : delayLookup(network(), state.hash, now)
  if (delayMs > 0) throw tooManyUnknown(delayMs)

  states.set(secret, state)
  const isWrite = !['GET', 'HEAD'].includes(c.req.method)
  const admission = await state.admit(c, isWrite)
  if (admission.kind === 'unknown') {
    // Random tokens must not displace the others.
    states.delete(secret)
    if (await countFailure(c.env, network(), c.get('requestId'))) throw unauthenticated('invalid_token')
    throw tooManyUnknown(blockNetwork(network(), now))
  }
  if (admission.kind === 'ended') throw unauthenticated('invalid_token')
  const { token, decision } = admission
  const usage = new RequestUsage(c, state, admission, isWrite)
  c.set('usage', usage)
  const refusal = decision.allowed
    ? (refuseToken(token) ?? (await waitForTurn(token, c.req.raw)))
    : refusalOf(decision, Date.now())
  if (refusal) c.res = errorResponse(refusal, c.req.url)
  else await next()
  usage.end(c.res.status)
}

async function waitForTurn({ companyId }: Token, request: Request): Promise<ApiError | null> {
  // A body of unknown length counts once it is read.
  const length = Number(request.headers.get('content-length')) || 0
  const waitMs = fairShare.enter(companyId, length, performance.now())
  if (waitMs === null) return crowded()
  if (waitMs > 0) await pause(waitMs)
  return null
}

function tooManyUnknown(delayMs: number): ApiError {
  return rateLimited(Math.ceil(delayMs / 1000), 'Too many unknown tokens from this network')
}

function unauthenticated(refusal: keyof typeof REFUSALS): ApiError {
  const message = REFUSALS[refusal]
  const challenge =
    refusal === 'invalid_token' ? `Bearer error="invalid_token", error_description="${message}"` : 'Bearer'
  return new ApiError('unauthenticated', { message, headers: { 'WWW-Authenticate': challenge } })
}

/** A write admitted longer ago is announced again before its batch: after a minute its object takes it for lost. */
const ANNOUNCED_MS = 20_000
/** The most that a failed batch is charged: D1 does not report its time, and an outage must not use up an allowance. */
const FAILED_BATCH_MS = 1_000
/** The least network time from this isolate to the primary of each database, which a failed batch is not charged. */
const leastNetworkMs = new LruCache<string, number>({ maxWeight: 100 })

/** An admitted request's use of its token's limits and of its company's database. */
class RequestUsage implements Meter {
  readonly token: Token
  private readonly c: TokenContext
  private readonly state: TokenState
  /** Without a receipt for a write of which the object does not know. */
  private readonly admitted: Admitted
  private readonly isWrite: boolean
  private announcedAt = Date.now()
  private bookmark: () => string | null = () => null
  private hasEnded = false

  constructor(c: TokenContext, state: TokenState, admitted: Admitted, isWrite: boolean) {
    this.c = c
    this.state = state
    this.token = admitted.token
    this.admitted = admitted
    this.isWrite = isWrite
  }

  /** Takes the requests as which this one counts. @throws ApiError 429 where not all are left */
  async take(requests: number): Promise<void> {
    if (requests <= 1) return
    const decision = await this.state.take(this.c, requests - 1)
    this.admitted.decision = decision
    if (!decision.allowed) throw refusalOf(decision, Date.now())
  }

  addBody(bytes: number): void {
    fairShare.addBody(this.token.companyId, bytes, performance.now())
  }

  /** The company's database, whose reads contain the writes of the token and the version that the caller sent. */
  openDatabase(): Database {
    const { c, token, admitted } = this
    const { companyId, database, companySlot: slot } = token
    const constraint = tighten(admitted.constraint, database, parseBookmark(c.req.header('x-bookmark')))
    admitted.constraint = constraint
    const bookmark = constraint === 'primary' ? undefined : constraint
    const onMoved = () => this.state.forget(c)
    const options = { bookmark, meter: this, use: c.get('databaseUse'), onMoved }
    const db = databaseFor(c.env, { companyId, database, slot }, options)
    this.bookmark = db.bookmark
    return db
  }

  /** Runs a batch once the company's earlier ones leave room for it, and charges its time. @throws ApiError 429 */
  async run<T extends BatchResult>(batch: () => Promise<T>): Promise<T> {
    if (this.isWrite && Date.now() >= this.announcedAt + ANNOUNCED_MS) {
      this.announcedAt = Date.now()
      this.state.keepWrite()
      await this.state.report(this.c)
    }
    const { companyId, database } = this.token
    const batches = semaphoreOf(companyId)
    const permit = batches.enter()
    if (permit.startedAt === 0) await this.waitForStart(batches, permit)
    const startedAt = Date.now()
    const work = batch()
    const end = (durationMs: number) => {
      batches.release(permit, durationMs)
      this.state.charge(durationMs)
      if (this.hasEnded && this.state.isReportDue()) this.c.executionCtx.waitUntil(this.state.report(this.c))
    }
    const ended = work.then(
      ({ durationMs, isPrimary }) => {
        const ms = Math.max(0, Date.now() - startedAt - durationMs)
        if (isPrimary !== false) leastNetworkMs.set(database, Math.min(ms, leastNetworkMs.get(database) ?? ms))
        end(durationMs)
      },
      () => end(Math.min(Math.max(0, Date.now() - startedAt - (leastNetworkMs.get(database) ?? 0)), FAILED_BATCH_MS)),
    )
    // Past its deadline, the batch still counts when it ends. The platform waits 30 s.
    this.c.executionCtx.waitUntil(ended)
    await ended
    return work
  }

  private async waitForStart(batches: BatchSemaphore, permit: Permit): Promise<void> {
    const started = batches.wait(permit)
    this.c.executionCtx.waitUntil(started)
    if (!(await started)) throw crowded()
    // The earlier batches may have used up the time.
    const { remaining } = this.state
    if (!isOutOfTime(remaining, Date.now())) return
    batches.release(permit, 0)
    throw refusalOf(remaining, Date.now())
  }

  /** Makes later reads of the token at least as fresh as this one: the response names what its caller reads next. */
  async remember(): Promise<void> {
    const version = parseBookmark(this.bookmark())
    if (!version || version.bookmark === this.admitted.constraint) return
    const isKnown = withDeadline(this.state.report(this.c, { seen: version }), BUDGET_MS.limiter)
    if (!(await isKnown.catch(() => false))) this.state.keepWrite()
  }

  /** The headers of the limits: after a long poll, those of the present window. */
  headers(): Record<string, string> {
    const now = Date.now()
    const { allowed, remaining, resetAt } = this.admitted.decision
    const hasPassed = allowed && now >= resetAt
    const requests = hasPassed ? remainingAt(this.state.remaining, now) : { remaining, resetAt }
    const limits = describeLimits({ ...this.state.remaining, ...requests }, now)
    return { 'RateLimit-Policy': POLICY, RateLimit: limits }
  }

  /** Reports the write and the usage of a request with this status; later charges are reported at once. */
  end(status: number): void {
    this.hasEnded = true
    const { admitted, isWrite, state, c } = this
    const { receipt } = admitted
    const isFailed = status >= 500
    const version = parseBookmark(this.bookmark())
    if (isWrite && !receipt && (version || isFailed)) state.keepWrite()
    // A write that failed may still commit: it stays unsettled.
    const isSettled = receipt && !isFailed && (isWrite || version)
    const seen = isSettled ? { database: this.token.database, bookmark: null, ...version, ...receipt } : undefined
    if (seen || state.isReportDue()) c.executionCtx.waitUntil(state.report(c, seen && { seen }))
  }
}
