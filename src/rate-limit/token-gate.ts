import { TOKEN_MS, type Token, usable } from '../auth/tokens.ts'
import { isCurrent, verifySchema } from '../db/migrations.ts'
import { BUDGET_MS, poll, withDeadline, withFairDeadline } from '../http/deadline.ts'
import { log, nameOf } from '../http/log.ts'
import { DatabaseGate } from './database-gate.ts'
import { isPrimaryNear, updateMean } from './distances.ts'
import { merge, type Seen } from './freshness.ts'
import type { Admission, Remote } from './protocol.ts'
import type { Rest, Use, Verdict } from './window.ts'
import { DATABASE_LIMIT_MS, databaseResetAt, LIMIT, WINDOW_MS } from './window.ts'

/** A token that this isolate may use without another look-up, until then; null for one that has ended. */
type Known = { token: Token | null; until: number }

/** A call under way, since then. */
type Turn = { at: number }

/** How long an isolate goes on without an object that failed. */
const RETRY_MS = 5_000
/** Database time is reported with the next call; it causes one only from this much, or when nearly all is used. */
const REPORT_MS = 50
const NEARLY_USED_MS = 500
/** Calls of one token's requests at once; the others wait for one of them to end. */
const MAX_CALLS = 16

/**
 * One token in this isolate: what it knows of the token's object, and what it has not reported to it. After a refusal it
 * refuses by itself until the reset. While the object fails or is slow, it allows what the last answer left of the window,
 * or else one whole allowance; the next successful call counts those requests.
 */
export class TokenGate {
  readonly batches = new DatabaseGate()
  private rest: Rest = { remaining: LIMIT, resetAt: 0, databaseMs: DATABASE_LIMIT_MS }
  private known: Known | null = null
  /** Round trip to the object. */
  private callMs: number | undefined
  private uncounted = 0
  /** While the object fails: when it is called again. */
  private retryAt: number | null = null
  private loggedAt = 0
  private unreportedMs = 0
  /** Of the calls under way. */
  private reportingMs = 0
  private refused = 0
  /** What could not be reported of writes. */
  private lost: Seen | undefined
  private readonly calls = new Set<Turn>()
  private answeredAt = 0

  /** Whether the token was valid when this isolate last saw it, which may be out of date. */
  wasValid(now: number): boolean {
    return this.known !== null && usable(this.known.token, now) !== null
  }

  /** Null for a token that has ended, undefined where the object must be asked. */
  knownToken(now: number): Token | null | undefined {
    return this.known && now < this.known.until ? usable(this.known.token, now) : undefined
  }

  /** The token with which a read may begin at the primary beside the call; null where it must wait for the call. */
  assume(now: number): Token | null {
    const token = this.knownToken(now)
    const mayBegin = token && this.retryAt === null && !this.refusal(now)
    return mayBegin && isPrimaryNear(token.database, this.callMs) ? token : null
  }

  /** The refusal that every request gets without a call, for its headers with the token that was last seen. */
  refuse(remote: Remote, now: number): Admission | null {
    const verdict = this.refusal(now)
    const token = this.known?.token
    if (!verdict || !token) return null
    this.probe(remote)
    this.refused++
    return { token, verdict, mark: 'primary', isTouchDue: false }
  }

  /** @throws ApiError where neither the object nor the directory answers */
  async enter(remote: Remote, isWrite: boolean): Promise<Admission | 'ended' | 'unknown'> {
    const send = (use: Use) => this.enterRemotely(remote, use, isWrite)
    const turn = await this.waitForTurn(remote, isWrite)
    const entered = turn && (await this.call(remote, send, turn))
    if (entered !== null && entered !== 'outdated') return entered
    this.probe(remote)
    return this.refuse(remote, Date.now()) ?? this.enterLocally(remote, isWrite)
  }

  /** Counts the further requests of a request that has entered. */
  async take(remote: Remote, requests: number, entered: Verdict): Promise<Verdict> {
    const counted = { requests: 1, resetAt: entered.resetAt }
    const send = async (use: Use) => {
      const { allowed, ...rest } = await remote.take({ ...use, requests, counted })
      // Where they are refused, the first one is not counted any more either.
      this.rest = rest
      return { ...rest, allowed }
    }
    const verdict = this.retryAt === null ? await this.call(remote, send) : null
    return verdict ?? this.allowLocally(requests - 1)
  }

  /** Milliseconds of database time left, as far as this isolate knows; negative when overused. */
  databaseLeft(): number {
    return this.rest.databaseMs - this.unreportedMs - this.reportingMs
  }

  /** The refusal of every request while the database time is used up, as far as this isolate knows. */
  databaseRefusal(): Verdict | null {
    const verdict = this.refusal(Date.now())
    return verdict && verdict.databaseMs <= 0 ? verdict : null
  }

  charge(databaseMs: number): void {
    this.unreportedMs += databaseMs
  }

  /** Reports what a write or a read of the primary has shown, and the database time where that deserves a call. */
  async report(remote: Remote, read?: Seen, budgetMs: number = BUDGET_MS.afterwards): Promise<void> {
    const isDue = this.unreportedMs >= REPORT_MS || (this.unreportedMs > 0 && this.databaseLeft() < NEARLY_USED_MS)
    if (!read && !this.lost && !isDue) return
    const send = (use: Use) => this.sendReport(remote, use, read)
    const done = this.retryAt === null ? await this.call(remote, send, this.takeTurn(), budgetMs) : null
    if (done) return
    if (read) this.lose(read)
    this.probe(remote)
  }

  /** Sends a report with the next call: of a write that the object does not know of. */
  lose(read: Seen): void {
    this.lost = merge(this.lost, read)
  }

  /** Lets the object know that a write begins long after it has entered. @returns whether it knows */
  async renew(remote: Remote, database: string, write: number): Promise<boolean> {
    const send = (use: Use) => this.sendReport(remote, use, { database, bookmark: null, renewed: write })
    return this.retryAt === null && (await this.call(remote, send)) !== null
  }

  /** Lets this isolate and the object look the token up again. */
  async forget(remote: Remote): Promise<void> {
    this.known = null
    await withDeadline(remote.forget(), BUDGET_MS.limiter).catch((error: unknown) => this.fail(remote, error))
  }

  /** Why every request is refused until the reset, as far as this isolate knows. */
  private refusal(now: number): Verdict | null {
    const verdict = { ...this.rest, databaseMs: this.databaseLeft(), allowed: false }
    if (verdict.databaseMs <= 0) return now < databaseResetAt(verdict) ? verdict : null
    return verdict.remaining <= 0 && now < verdict.resetAt ? verdict : null
  }

  /** A place among the calls; null while the object fails, and once a refusal has come. */
  private async waitForTurn(remote: Remote, isWrite: boolean): Promise<Turn | null> {
    // The object must know of a write: once it may be called again, a write does that itself.
    if (isWrite && this.retryAt !== null && Date.now() >= this.retryAt && !this.refusal(Date.now())) {
      this.retryAt = Date.now() + RETRY_MS
      return this.takeTurn()
    }
    const hasTurn = () => {
      // Calls that were lost with their requests.
      for (const turn of this.calls) if (Date.now() > turn.at + 2 * BUDGET_MS.limiter) this.calls.delete(turn)
      return this.calls.size < MAX_CALLS || this.retryAt !== null || this.refusal(Date.now()) !== null
    }
    const beganAt = Date.now()
    while (!hasTurn()) {
      // As long as calls end, waiting for them is no failure of the object.
      const failsAt = Math.max(beganAt, this.answeredAt) + BUDGET_MS.limiter
      await poll(hasTurn, Math.max(1, failsAt - Date.now())).catch((error: unknown) => {
        if (this.answeredAt + BUDGET_MS.limiter <= Date.now()) this.fail(remote, error)
      })
    }
    if (this.retryAt !== null || this.refusal(Date.now())) return null
    return this.takeTurn()
  }

  private takeTurn(): Turn {
    const turn = { at: Date.now() }
    this.calls.add(turn)
    return turn
  }

  /** Null where the object fails or is slow, with which it is no longer called for a while. */
  private call<T>(
    remote: Remote,
    send: (use: Use) => Promise<T>,
    turn = this.takeTurn(),
    budgetMs: number = BUDGET_MS.limiter,
  ): Promise<T | null> {
    const use: Required<Use> = { databaseMs: this.unreportedMs, refused: this.refused, uncounted: this.uncounted }
    turn.at = Date.now()
    this.add(use, -1)
    this.reportingMs += use.databaseMs
    let hasFailed = false
    const sent = send(use).then((result) => {
      this.answeredAt = Date.now()
      // Counted after all: it must not be reported again.
      if (hasFailed) this.add(use, -1)
      return result
    })
    const outcome = withFairDeadline(sent, budgetMs)
      .catch((error: unknown) => {
        hasFailed = true
        this.add(use, 1)
        this.fail(remote, error)
        return null
      })
      .finally(() => {
        this.reportingMs -= use.databaseMs
        this.calls.delete(turn)
      })
    remote.keepAlive(outcome)
    return outcome
  }

  private add(use: Required<Use>, sign: 1 | -1): void {
    this.unreportedMs = Math.max(0, this.unreportedMs + sign * use.databaseMs)
    this.refused = Math.max(0, this.refused + sign * use.refused)
    this.uncounted = Math.max(0, this.uncounted + sign * use.uncounted)
  }

  private async enterRemotely(remote: Remote, use: Use, isWrite: boolean) {
    const sentAt = Date.now()
    const { lost } = this
    const result = await remote.enter({ ...use, requests: 1, isWrite, ...(lost && { lost }) })
    if (result.kind === 'outdated') return result.kind
    if (result.kind !== 'entered') this.retryAt = null
    const token = result.kind === 'entered' ? result.token : null
    this.known = result.kind === 'unknown' ? null : { token, until: sentAt + TOKEN_MS - result.ageMs }
    if (result.kind !== 'entered') return result.kind
    if (this.lost === lost) this.lost = undefined
    this.callMs = updateMean(this.callMs, Date.now() - sentAt - result.lookUpMs)
    this.receive(result.verdict)
    if (!isCurrent(result.applied)) return 'outdated'
    verifySchema(result.applied)
    return result
  }

  private async sendReport(remote: Remote, use: Use, read?: Seen): Promise<true> {
    const { lost } = this
    this.receive(await remote.report({ ...use, ...(read && { read }), ...(lost && { lost }) }))
    if (this.lost === lost) this.lost = undefined
    return true
  }

  /** What the object answers may arrive in another order than it was sent. */
  private receive<T extends Rest>(rest: T): T {
    const { resetAt, databaseMs } = rest
    const isSame = resetAt === this.rest.resetAt && this.retryAt === null
    const remaining = isSame ? Math.min(rest.remaining, this.rest.remaining) : rest.remaining
    if (resetAt >= this.rest.resetAt || this.retryAt !== null) this.rest = { remaining, resetAt, databaseMs }
    this.retryAt = null
    return rest
  }

  private fail(remote: Remote, error: unknown): void {
    const now = Date.now()
    this.retryAt = now + RETRY_MS
    // Calls that fail together are one failure.
    if (now < this.loggedAt + RETRY_MS) return
    this.loggedAt = now
    log('limiter_failed', { request_id: remote.requestId, reason: nameOf(error) })
  }

  /** Calls an object again that has failed, behind a request that does not wait for it. */
  private probe(remote: Remote): void {
    if (this.retryAt === null || Date.now() < this.retryAt) return
    this.retryAt = Date.now() + RETRY_MS
    remote.keepAlive(this.call(remote, (use) => this.sendReport(remote, use)))
  }

  private async enterLocally(remote: Remote, isWrite: boolean): Promise<Admission | 'ended' | 'unknown'> {
    const now = Date.now()
    let token = this.knownToken(now)
    let isTouchDue = false
    if (token === undefined) {
      const found = await remote.lookUp()
      this.known = found.token === undefined ? null : { token: found.token, until: now + TOKEN_MS }
      if (found.token === undefined) return 'unknown'
      token = usable(found.token, now)
      isTouchDue = found.isTouchDue
    }
    if (!token) return 'ended'
    return { token, verdict: this.allowLocally(1), mark: 'primary', isTouchDue, ...(isWrite && { write: null }) }
  }

  /** Allows what is left of the window, or of a whole allowance when it is over. */
  private allowLocally(requests: number): Verdict {
    const now = Date.now()
    if (now >= this.rest.resetAt) {
      this.rest = { remaining: LIMIT, resetAt: now + WINDOW_MS, databaseMs: DATABASE_LIMIT_MS }
      this.uncounted = 0
      this.unreportedMs = Math.max(0, this.unreportedMs - DATABASE_LIMIT_MS)
    }
    const allowed = this.databaseLeft() > 0 && requests <= this.rest.remaining
    if (allowed) {
      this.rest = { ...this.rest, remaining: this.rest.remaining - requests }
      this.uncounted += requests
    }
    return { ...this.rest, databaseMs: this.databaseLeft(), allowed }
  }
}
