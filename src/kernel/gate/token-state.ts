import type { Admission } from './limiter.ts'
import type { Seen } from './read-after-write.ts'
import { TOKEN_MS, type Token, usable } from './tokens.ts'
import { DATABASE_LIMIT_MS, type Decision, isOutOfTime, LIMIT, type Remaining, WINDOW_MS } from './window.ts'

/** A token for use until then; null for one that has ended. */
type CachedToken = { token: Token | null; until: number }

const NO_USAGE = { databaseMs: 0, refused: 0, uncounted: 0 }

/** Database time waits for the next call; this much, or any when nearly all is used, deserves a call of its own. */
const REPORT_MS = 50
const NEARLY_USED_MS = 500

/** One token in this isolate: a refusal until its reset, the allowance while its object fails, and unreported usage. */
export class TokenState {
  /** SHA-256 of the token, lower-case hex: the name of its object. */
  readonly hash: string
  /** The id of its object, once that has responded. */
  objectId: DurableObjectId | undefined
  cached: CachedToken | null = null
  /** By the last answer, less the unreported usage. */
  remaining: Remaining = { remaining: LIMIT, resetAt: 0, databaseMs: DATABASE_LIMIT_MS }
  unreported = NO_USAGE
  unsent: Seen | undefined
  /** Requests whose calls are under way: the object may allow each. */
  pending = 0
  answeredAt = 0
  /** When an object that fails is called again. */
  retryAt: number | null = null

  constructor(hash: string) {
    this.hash = hash
  }

  /** The token if it was valid when this isolate last saw it. */
  lastToken(now: number): Token | null {
    return this.cached && usable(this.cached.token, now)
  }

  /** The refusal of every request until the reset; null while something is left. */
  refuse(now: number): Decision | null {
    const { remaining } = this
    const isRefused = isOutOfTime(remaining, now) || (remaining.remaining <= 0 && now < remaining.resetAt)
    if (isRefused) this.add({ ...NO_USAGE, refused: 1 })
    return isRefused ? { ...remaining, allowed: false } : null
  }

  /** Allows requests without the object: the rest of its window, or else one whole allowance. */
  allow(requests: number, now: number): Decision {
    if (now >= this.remaining.resetAt) {
      const whole = { remaining: LIMIT, resetAt: now + WINDOW_MS, databaseMs: DATABASE_LIMIT_MS }
      this.remaining = { ...this.remaining, ...whole }
      this.unreported = NO_USAGE
    }
    const { remaining } = this
    const allowed = !isOutOfTime(remaining, now) && requests <= remaining.remaining - this.pending
    if (allowed) {
      remaining.remaining -= requests
      this.add({ ...NO_USAGE, uncounted: requests })
    }
    return { ...remaining, allowed }
  }

  charge(databaseMs: number): void {
    this.add({ ...NO_USAGE, databaseMs })
    this.remaining.databaseMs -= databaseMs
  }

  isReportDue(): boolean {
    const { databaseMs } = this.unreported
    return databaseMs >= REPORT_MS || (databaseMs > 0 && this.remaining.databaseMs < NEARLY_USED_MS)
  }

  /** The usage for one call, which {@link TokenState.add} returns when the call fails. */
  takeUsage(): typeof NO_USAGE {
    const usage = this.unreported
    this.unreported = NO_USAGE
    return usage
  }

  add(usage: typeof NO_USAGE): void {
    const { databaseMs, refused, uncounted } = this.unreported
    this.unreported = {
      databaseMs: databaseMs + usage.databaseMs,
      refused: refused + usage.refused,
      uncounted: uncounted + usage.uncounted,
    }
  }

  /** Takes an answer, which may arrive in another order than its call was sent. */
  receive(answer: Admission | Decision, askedAt: number): void {
    this.answeredAt = Date.now()
    if ('allowed' in answer) this.update(answer)
    else if (answer.kind === 'admitted') this.update(answer.decision)
    this.retryAt = null
    if ('allowed' in answer || answer.kind === 'outdated') return
    const token = answer.kind === 'admitted' ? answer.token : null
    this.cached = answer.kind === 'unknown' ? null : { token, until: askedAt + TOKEN_MS - answer.ageMs }
  }

  private update(answer: Remaining): void {
    const { remaining: known, unreported, retryAt } = this
    const { resetAt, company = known.company } = answer
    const remaining = answer.remaining - unreported.uncounted
    const databaseMs = answer.databaseMs - unreported.databaseMs
    if (resetAt === known.resetAt) {
      known.remaining = Math.min(known.remaining, remaining)
      known.databaseMs = Math.min(known.databaseMs, databaseMs)
    } else if (resetAt > known.resetAt || (retryAt !== null && resetAt > Date.now())) {
      // While the object failed, the known window may be this isolate's own.
      this.remaining = { remaining, databaseMs, resetAt }
    }
    if (company) this.remaining.company = company
  }
}
