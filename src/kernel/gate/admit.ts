import type { MiddlewareHandler } from 'hono'
import type { Env } from '../../env.ts'
import type { BatchResult, Database, DatabaseUse } from '../db/client.ts'
import { DIRECTORY, databaseFor, parseBookmark } from '../db/placement.ts'
import { ApiError, errorResponse, unauthenticated } from '../http/errors.ts'
import { BUDGET_MS, LruCache, pause, withDeadline } from '../http/isolate.ts'
import { networkOf } from '../http/outbound.ts'
import type { Admitted } from './limiter.ts'
import { crowded, describeLimits, fairShare, POLICY, rateLimited, refusalOf, semaphoreOf } from './limits.ts'
import { tighten } from './read-after-write.ts'
import { type TokenContext, TokenState } from './token-state.ts'
import { blockNetwork, delayLookup, hashToken, isWithinLimit, type Token } from './tokens.ts'

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

const NO_HEADER = 'Send a token in the header Authorization: Bearer <API_TOKEN>'
const WRONG_FORM = 'The header Authorization must be Bearer, a space and the token of 64 hexadecimal characters'
const INVALID_TOKEN = 'The token is unknown, revoked or expired: create another one in the developer settings'
const SUSPENDED = 'The company is suspended: ask the operator of this API'

/** By the token itself, so that a known one is not hashed again. */
const states = new LruCache<string, TokenState>({ maxWeight: 10_000 })

/**
 * Refuses a request with 401, 429 or 403, or runs it: by one call to its token's Durable Object. The request's own use is
 * reported after the response.
 */
export const admit: MiddlewareHandler<GateEnv> = async (c, next) => {
  // The router finds it twice for the path `/*`.
  if (c.get('usage')) return next()
  const now = c.get('receivedAt')
  const header = c.req.header('authorization')
  const secret = BEARER.exec(header ?? '')?.[1]?.toLowerCase()
  if (!secret) throw unauthenticated(header ? WRONG_FORM : NO_HEADER)
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
    const failures = c.env.AUTH_FAILURES
    const isWithin = await isWithinLimit(failures, network(), c.get('requestId'), 'auth_limiter_failed')
    if (isWithin) throw unauthenticated(INVALID_TOKEN, true)
    throw tooManyUnknown(blockNetwork(network(), now))
  }
  if (admission.kind === 'ended') throw unauthenticated(INVALID_TOKEN, true)
  const usage = openUsage(c, state, admission, isWrite)
  c.set('usage', usage)
  const refusal = await refuseOrWait(admission, c.req.raw)
  if (refusal) c.res = errorResponse(refusal, c.req.url)
  else await next()
  usage.end(c.res.status)
}

/** Waits for the request's turn among those of its company, unless it is refused whatever else is wrong with it. */
async function refuseOrWait({ token, decision }: Admitted, request: Request): Promise<ApiError | null> {
  if (!decision.allowed) return refusalOf(decision, Date.now())
  if (token.suspended) return new ApiError('forbidden', { message: SUSPENDED })
  // A body of unknown length counts once it is read.
  const length = Number(request.headers.get('content-length')) || 0
  const waitMs = fairShare.enter(token.companyId, length, performance.now())
  if (waitMs === null) return crowded()
  if (waitMs > 0) await pause(waitMs)
  return null
}

function tooManyUnknown(delayMs: number): ApiError {
  return rateLimited(Math.ceil(delayMs / 1000), 'Too many unknown tokens from this network')
}

/** A write admitted longer ago is announced again before its batch: after a minute its object takes it for lost. */
const ANNOUNCED_MS = 20_000
/** The most that a failed batch is charged: D1 does not report its time, and an outage must not use up an allowance. */
const FAILED_BATCH_MS = 1_000
/** The least network time from this isolate to the primary of each database, which a failed batch is not charged. */
const leastNetworkMs = new LruCache<string, number>({ maxWeight: 100 })

/** Runs the batches of an admitted request in their company's turn, and charges their time to its token. */
function openMeter(c: TokenContext, state: TokenState, { companyId, database }: Token, isWrite: boolean) {
  const waitUntil = (work: Promise<unknown>) => c.executionCtx.waitUntil(work)
  const meter = { run, hasResponded: false }
  let announcedAt = Date.now()

  /** Runs a batch once the company's earlier ones leave room for it. @throws ApiError 429 */
  async function run<T extends BatchResult>(batch: () => Promise<T>): Promise<T> {
    if (isWrite && Date.now() >= announcedAt + ANNOUNCED_MS) {
      announcedAt = Date.now()
      state.noteUnknownWrite()
      await withDeadline(state.report(c), BUDGET_MS.limiter).catch(() => null)
    }
    const work = runInTurn(batch)
    // Past its deadline, the batch still counts when it ends. The platform waits 30 s.
    waitUntil(work.catch(() => undefined))
    return work
  }

  async function runInTurn<T extends BatchResult>(batch: () => Promise<T>): Promise<T> {
    const batches = semaphoreOf(companyId)
    const permit = batches.enter(c.get('databaseUse').rowsWritten > 0)
    // Most batches start at once, before whatever the request does beside them.
    if (permit.startedAt === 0) await batches.wait(permit)
    const startedAt = Date.now()
    const charge = (databaseMs: number) => {
      batches.release(permit, databaseMs)
      state.charge(databaseMs)
      if (meter.hasResponded && state.isReportDue()) waitUntil(state.report(c))
    }
    try {
      const result = await batch()
      const networkMs = Math.max(0, Date.now() - startedAt - result.durationMs)
      const leastMs = Math.min(networkMs, leastNetworkMs.get(database) ?? networkMs)
      if (result.isPrimary !== false) leastNetworkMs.set(database, leastMs)
      charge(result.durationMs)
      return result
    } catch (error) {
      const workMs = Date.now() - startedAt - (leastNetworkMs.get(database) ?? 0)
      charge(Math.min(Math.max(0, workMs), FAILED_BATCH_MS))
      throw error
    }
  }

  return meter
}

export type RequestUsage = ReturnType<typeof openUsage>

/** An admitted request's use of its token's limits and of its company's database. */
function openUsage(c: TokenContext, state: TokenState, admitted: Admitted, isWrite: boolean) {
  const { token } = admitted
  const { companyId, database } = token
  const meter = openMeter(c, state, token, isWrite)
  let bookmark: () => string | null = () => null

  return {
    token,

    /** Takes the requests as which this one counts. @throws ApiError 429 where not all are left */
    async take(requests: number): Promise<void> {
      if (requests <= 1) return
      const decision = await state.take(c, requests - 1)
      if (!decision.allowed) throw refusalOf(decision, Date.now())
    },

    addBody: (bytes: number) => fairShare.charge(companyId, bytes, performance.now()),

    /** The company's database, whose reads contain the writes of the token and the version that the caller sent. */
    openDatabase(): Database {
      const constraint = tighten(admitted.constraint, database, parseBookmark(c.req.header('x-bookmark')))
      admitted.constraint = constraint
      const db = databaseFor(c.env, token, {
        slot: token.companySlot,
        bookmark: constraint === 'primary' ? undefined : constraint,
        meter,
        use: c.get('databaseUse'),
        onMoved: () => state.forget(c),
        mustExist: database !== DIRECTORY,
      })
      bookmark = db.bookmark
      return db
    },

    /** Makes later reads of the token at least as fresh as this one: the response names what its caller reads next. */
    async remember(): Promise<void> {
      const version = parseBookmark(bookmark())
      if (!version || version.bookmark === admitted.constraint) return
      const known = withDeadline(state.report(c, { seen: version }), BUDGET_MS.limiter)
      if (!(await known.catch(() => null))) state.noteUnknownWrite()
    },

    /** The headers of the limits, as the isolate knows them by now. */
    headers(): Record<string, string> {
      return { 'RateLimit-Policy': POLICY, RateLimit: describeLimits(state, Date.now()) }
    },

    /** Reports the write and the usage of a request with this status; later charges are reported at once. */
    end(status: number): void {
      meter.hasResponded = true
      const { receipt } = admitted
      const isFailed = status >= 500
      const version = parseBookmark(bookmark())
      // There is no receipt for a write of which the object does not know.
      if (isWrite && !receipt && (version || isFailed)) state.noteUnknownWrite()
      // A write that failed may still commit: it stays unsettled.
      const isSettled = receipt && !isFailed && (isWrite || version)
      const seen = isSettled ? { database, bookmark: null, ...version, ...receipt } : undefined
      if (seen || state.isReportDue()) c.executionCtx.waitUntil(state.report(c, seen && { seen }))
    },
  }
}
