import type { Env } from '../../env.ts'
import type { DatabaseUse } from '../db/client.ts'
import { isCurrent, verifySchema } from '../db/migrations.ts'
import { BUDGET_MS, withDeadline, withSilenceLimit } from '../http/deadline.ts'
import { log, nameOf } from '../http/log.ts'
import type { Admission, Admitted, RateLimiter, Report } from './limiter.ts'
import { merge, type Seen } from './read-after-write.ts'
import { findToken, LAST_USED_EVERY_MS, TOKEN_MS, type Token, usable } from './tokens.ts'
import { DATABASE_LIMIT_MS, type Decision, isOutOfTime, LIMIT, type Remaining, WINDOW_MS } from './window.ts'

/** As this isolate last saw it, for use until then; null for a token that has ended. */
type CachedToken = { token: Token | null; until: number }
type LimiterStub = DurableObjectStub<RateLimiter>
type Answer = Exclude<Admission, { kind: 'outdated' }>

const NO_USAGE = { databaseMs: 0, refused: 0, uncounted: 0 }

/** One token in this isolate: the last answer of its object, and what that is yet to be told. */
export class TokenState {
  cached: CachedToken | null = null
  /** Less the unreported usage. */
  remaining: Remaining = { remaining: LIMIT, resetAt: 0, databaseMs: DATABASE_LIMIT_MS }
  unreported = NO_USAGE
  unsent: Seen | undefined
  /** Requests whose calls are under way: the object may allow each. */
  pending = 0
  answeredAt = 0
  /** When an object that fails is called again. */
  retryAt: number | null = null
}

/** The parts of a request that its calls need. */
interface Caller {
  env: Env
  requestId: string
  use: DatabaseUse
  /** Where to make the object. */
  locationHint: DurableObjectLocationHint | undefined
  /** Lets work outlive an aborted request: other requests may wait for it. */
  waitUntil: (work: Promise<unknown>) => void
}

/** An object that failed is called again after this time, by one request. */
const RETRY_MS = 5_000
/** Database time waits for the next call; this much, or any when nearly all is used, causes a call of its own. */
const REPORT_MS = 50
const NEARLY_USED_MS = 500

/**
 * One request's way to its token's object, which decides. The isolate only repeats a refusal until its reset. While the
 * object fails or is silent, it allows the rest of the window, or else one whole allowance, which the next call counts.
 */
export class TokenClient {
  private readonly caller: Caller
  private readonly hash: string
  private readonly state: TokenState

  constructor(caller: Caller, hash: string, state: TokenState) {
    this.caller = caller
    this.hash = hash
    this.state = state
  }

  /** @throws ApiError where neither the object nor the directory responds */
  async admit(isWrite: boolean): Promise<Answer> {
    const now = Date.now()
    const { cached, retryAt } = this.state
    if (cached && now < cached.until && !usable(cached.token, now)) return { kind: 'ended', ageMs: 0 }
    const isRetry = retryAt !== null && now >= retryAt
    if (isRetry) this.state.retryAt = now + RETRY_MS
    const refused = isRetry ? null : this.refuse()
    if (refused) return refused
    const send = async (object: LimiterStub, report: Report) => {
      const answer = await object.admit(this.hash, { ...report, isWrite })
      this.learn(answer, now)
      return answer
    }
    const mayCall = isRetry || retryAt === null
    const answer = mayCall ? await this.call(send, 1, isRetry ? BUDGET_MS.limiter : BUDGET_MS.silence) : null
    if (answer?.kind === 'ended' || answer?.kind === 'unknown') return answer
    // During a deployment the isolate and the object may need different schemas.
    if (answer?.kind !== 'admitted' || !isCurrent(answer.applied)) return this.refuse() ?? this.admitAlone(now)
    verifySchema(answer.applied)
    return answer
  }

  /** Counts the further requests of an admitted request. */
  async take(requests: number, { resetAt }: Decision): Promise<Decision> {
    const send = async (object: LimiterStub, report: Report) => {
      const decision = await object.take({ ...report, requests, counted: { requests: 1, resetAt } })
      this.receive(decision)
      // A refusal returns the first request, too.
      this.state.remaining.remaining = decision.remaining
      return decision
    }
    const decision = this.state.retryAt === null ? await this.call(send, requests - 1) : null
    return decision ?? this.allow(requests - 1)
  }

  /**
   * Reports the version that a request has seen, and the database time where that deserves a call.
   *
   * @param waitMs the longest wait for a slow object, which gets the report all the same
   */
  async report(seen?: Seen, waitMs: number = 2 * BUDGET_MS.silence): Promise<void> {
    const { unsent, unreported, remaining } = this.state
    const { databaseMs } = unreported
    const isDue = databaseMs >= REPORT_MS || (databaseMs > 0 && remaining.databaseMs < NEARLY_USED_MS)
    if (!seen && !unsent && !isDue) return
    const isReported = await withDeadline(this.send(seen && { seen }), waitMs).catch(() => false)
    if (seen && !isReported) this.keep(seen)
  }

  /** @returns whether the object got it */
  async send(own: Pick<Report, 'seen' | 'begun'> = {}): Promise<boolean> {
    if (this.state.retryAt !== null) return false
    const send = async (object: LimiterStub, report: Report) => {
      const seen = own.seen ? merge(report.seen, own.seen) : report.seen
      const decision = await object.report({ ...report, ...own, ...(seen && { seen }) })
      this.receive(decision)
      return decision
    }
    return (await this.call(send)) !== null
  }

  /** Keeps a version for the next call, of which the object does not know. */
  keep(seen: Seen): void {
    this.state.unsent = merge(this.state.unsent, seen)
  }

  charge(databaseMs: number): void {
    this.add({ ...NO_USAGE, databaseMs })
    this.state.remaining.databaseMs -= databaseMs
  }

  /** The company has moved: the object looks the token up again. */
  forget(): void {
    this.waitUntil((async () => this.open().forget())().catch((error: unknown) => this.fail(error)))
  }

  /** As far as this isolate knows. */
  remaining(): Remaining {
    return this.state.remaining
  }

  waitUntil(work: Promise<unknown>): void {
    this.caller.waitUntil(work)
  }

  /** A new stub for each call: one that has failed is of no further use. */
  private open(): LimiterStub {
    const { env, locationHint } = this.caller
    return env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(this.hash), locationHint && { locationHint })
  }

  /** Null where the object fails or is silent. */
  private call<T>(
    send: (object: LimiterStub, report: Report) => Promise<T>,
    requests = 0,
    silenceMs: number = BUDGET_MS.silence,
  ): Promise<T | null> {
    const { state } = this
    const { unreported, unsent } = state
    state.unreported = NO_USAGE
    state.pending += requests
    const sent = (async () => send(this.open(), { ...unreported, ...(unsent && { seen: unsent }) }))().then(
      (answer) => {
        state.answeredAt = Date.now()
        if (state.unsent === unsent) state.unsent = undefined
        return answer
      },
    )
    const outcome = withSilenceLimit(sent, () => state.answeredAt, silenceMs).catch((error: unknown) => {
      this.add(unreported)
      this.fail(error)
      return null
    })
    const ended = outcome.finally(() => {
      state.pending -= requests
    })
    this.waitUntil(ended)
    return ended
  }

  private learn(answer: Admission, askedAt: number): void {
    if (answer.kind === 'outdated') return
    const token = answer.kind === 'admitted' ? answer.token : null
    this.state.cached = answer.kind === 'unknown' ? null : { token, until: askedAt + TOKEN_MS - answer.ageMs }
    if (answer.kind === 'admitted') this.receive(answer.decision)
    else this.state.retryAt = null
  }

  /** Takes an answer, which may arrive in another order than its call was sent. */
  private receive({ remaining, resetAt, databaseMs, company }: Remaining): void {
    const { remaining: known, retryAt, unreported } = this.state
    const left = { remaining: remaining - unreported.uncounted, databaseMs: databaseMs - unreported.databaseMs }
    if (resetAt === known.resetAt) {
      known.remaining = Math.min(known.remaining, left.remaining)
      known.databaseMs = Math.min(known.databaseMs, left.databaseMs)
    } else if (resetAt > known.resetAt || (retryAt !== null && resetAt > Date.now())) {
      // While the object failed, the known window may be this isolate's own.
      this.state.remaining = { ...known, ...left, resetAt }
    }
    if (company) this.state.remaining.company = company
    this.state.retryAt = null
  }

  private fail(error: unknown): void {
    const now = Date.now()
    // Calls that fail together are one failure.
    const isFirst = now >= (this.state.retryAt ?? 0)
    if (isFirst) log('limiter_failed', { request_id: this.caller.requestId, reason: nameOf(error) })
    this.state.retryAt = now + RETRY_MS
  }

  /** The refusal of every request until the reset; null while something is left. */
  private refuse(): Admitted | null {
    const { remaining, cached } = this.state
    const now = Date.now()
    const isRefused = isOutOfTime(remaining, now) || (remaining.remaining <= 0 && now < remaining.resetAt)
    if (!isRefused || !cached?.token) return null
    this.add({ ...NO_USAGE, refused: 1 })
    return admitted(cached.token, { ...remaining, allowed: false })
  }

  /** Admits without the object, by the cached token or the directory. */
  private async admitAlone(now: number): Promise<Answer> {
    const { state } = this
    let isTouchDue = false
    if (!state.cached || now >= state.cached.until) {
      const found = await findToken(this.caller.env.DB, this.hash, this.caller.use)
      verifySchema(found.applied)
      isTouchDue = now - found.lastUsedAt >= LAST_USED_EVERY_MS
      state.cached = found.token === undefined ? null : { token: found.token, until: now + TOKEN_MS }
    }
    if (!state.cached) return { kind: 'unknown' }
    const token = usable(state.cached.token, now)
    return token ? { ...admitted(token, this.allow(1)), isTouchDue } : { kind: 'ended', ageMs: 0 }
  }

  private allow(requests: number): Decision {
    const { state } = this
    const now = Date.now()
    if (now >= state.remaining.resetAt) {
      const whole = { remaining: LIMIT, resetAt: now + WINDOW_MS, databaseMs: DATABASE_LIMIT_MS }
      state.remaining = { ...state.remaining, ...whole }
      state.unreported = NO_USAGE
    }
    const { remaining } = state
    const allowed = !isOutOfTime(remaining, now) && requests <= remaining.remaining - state.pending
    if (allowed) {
      remaining.remaining -= requests
      this.add({ ...NO_USAGE, uncounted: requests })
    }
    return { ...remaining, allowed }
  }

  private add(usage: typeof NO_USAGE): void {
    const { databaseMs, refused, uncounted } = this.state.unreported
    this.state.unreported = {
      databaseMs: databaseMs + usage.databaseMs,
      refused: refused + usage.refused,
      uncounted: uncounted + usage.uncounted,
    }
  }
}

function admitted(token: Token, decision: Decision): Admitted {
  return { kind: 'admitted', token, decision, ageMs: 0, applied: null, constraint: 'primary', isTouchDue: false }
}
