import { DATABASE_LIMIT_MS, isOutOfTime, LIMIT, type Rest, type Use, type Verdict, WINDOW_MS } from './window.ts'

const nothing = (): Required<Use> => ({ databaseMs: 0, refused: 0, uncounted: 0 })

/** What is left of a token's limits as far as one isolate knows, and the use that it has not reported to the object. */
export class Allowance {
  private rest: Rest = { remaining: LIMIT, resetAt: 0, databaseMs: DATABASE_LIMIT_MS }
  private readonly unreported = nothing()
  /** Use in the calls under way. */
  private readonly reporting = nothing()

  /** What is left when the unreported use is counted: `databaseMs` is negative when overused. */
  left(): Rest {
    const uncounted = this.unreported.uncounted + this.reporting.uncounted
    const remaining = Math.max(0, this.rest.remaining - uncounted)
    return { ...this.rest, remaining, databaseMs: this.rest.databaseMs - this.unreportedMs() }
  }

  /** Database time that no call has reported yet, or only one under way. */
  unreportedMs(): number {
    return this.unreported.databaseMs + this.reporting.databaseMs
  }

  /** Database time that the next call reports. */
  dueMs(): number {
    return this.unreported.databaseMs
  }

  /** Requests that may be sent to the object at once without a refusal of any. */
  requestsLeft(now: number): number {
    return now < this.rest.resetAt ? this.left().remaining : LIMIT
  }

  /** The refusal of every request until the reset; null while there is something left. */
  refusal(now: number): Verdict | null {
    const left = this.left()
    const isRefused = isOutOfTime(left, now) || (left.remaining <= 0 && now < left.resetAt)
    return isRefused ? { ...left, allowed: false } : null
  }

  charge(databaseMs: number): void {
    this.unreported.databaseMs += databaseMs
  }

  /** Counts a request that was refused without a call. */
  refuse(): void {
    this.unreported.refused++
  }

  /**
   * Allows what is left of the window, or of a whole allowance when it is over.
   *
   * @param pending requests whose calls are under way: the object may allow each of them
   */
  allow(requests: number, pending: number): Verdict {
    const now = Date.now()
    const { unreported } = this
    if (now >= this.rest.resetAt) {
      this.rest = { ...this.rest, remaining: LIMIT, resetAt: now + WINDOW_MS, databaseMs: DATABASE_LIMIT_MS }
      unreported.uncounted = 0
      unreported.databaseMs = Math.max(0, unreported.databaseMs - DATABASE_LIMIT_MS)
    }
    const left = this.left()
    const allowed = !isOutOfTime(left, now) && requests <= left.remaining - pending
    if (allowed) unreported.uncounted += requests
    return { ...this.left(), allowed }
  }

  /** The use that a call reports, which {@link end} or {@link fail} ends. */
  begin(): Required<Use> {
    const use = { ...this.unreported }
    add(this.unreported, use, -1)
    add(this.reporting, use, 1)
    return use
  }

  end(use: Required<Use>): void {
    add(this.reporting, use, -1)
  }

  fail(use: Required<Use>): void {
    this.end(use)
    add(this.unreported, use, 1)
  }

  /** A call that had failed has counted its use after all. */
  succeedLate(use: Required<Use>): void {
    add(this.unreported, use, -1)
  }

  /**
   * Takes what the object answers, which may arrive in another order than it was sent.
   *
   * @param hasFailed whether the window may be this isolate's own, which any present one of the object replaces
   */
  receive({ remaining, company, ...answered }: Rest, hasFailed: boolean): void {
    const { rest } = this
    if (company) rest.company = company
    const isLater = answered.resetAt >= rest.resetAt || (hasFailed && answered.resetAt > Date.now())
    if (!isLater) return
    const isSame = answered.resetAt === rest.resetAt
    this.rest = { ...rest, ...answered, remaining: isSame ? Math.min(remaining, rest.remaining) : remaining }
  }

  /** Takes an answer that may have more left than an earlier one: a refusal that releases what was counted. */
  replace(rest: Rest): void {
    this.rest = rest
  }
}

function add(sum: Required<Use>, use: Required<Use>, sign: 1 | -1): void {
  for (const name of ['databaseMs', 'refused', 'uncounted'] as const) {
    sum[name] = Math.max(0, sum[name] + sign * use[name])
  }
}
