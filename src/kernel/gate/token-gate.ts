import { isCurrent, verifySchema } from '../db/migrations.ts'
import { BUDGET_MS, DeadlineError, poll, withDeadline, withFairDeadline } from '../http/deadline.ts'
import { log, nameOf } from '../http/log.ts'
import { Allowance } from './allowance.ts'
import { isPrimaryNear, updateMean } from './distances.ts'
import { merge, type Seen } from './freshness.ts'
import type { Admission, Remote } from './protocol.ts'
import { TOKEN_MS, type Token, usable } from './tokens.ts'
import { isOutOfTime, type Rest, type Use, type Verdict } from './window.ts'

/** A token that this isolate may use without another look-up, until then; null for one that has ended. */
type Known = { token: Token | null; until: number }

/** A call under way, since then, with the requests that the object may allow by it. */
type Turn = { at: number; requests: number }

/** How long an isolate goes on without an object that failed. */
const RETRY_MS = 5_000
/** Database time is reported with the next call; it causes one only from this much, or when nearly all is used. */
const REPORT_MS = 50
const NEARLY_USED_MS = 500
/** Calls of one token's requests at once; the others wait for one of them to end. */
const MAX_CALLS = 16
/** An object that is slow gets as many calls at once as it has left to allow, from the requests that waited so long. */
const PATIENCE_MS = 1_000
/** After so long a call is given up, and one that was lost with its request frees its turn. */
const LOST_MS = 2 * BUDGET_MS.silence

/**
 * One token in this isolate: what it knows of the token's object, and what it has not reported to it. After a refusal it
 * refuses by itself until the reset. Requests wait for an object that is slow. While it fails, or after a long silence,
 * they are allowed what the last answer left of the window, or else one whole allowance; the next successful call counts
 * them.
 */
export class TokenGate {
  private readonly allowance = new Allowance()
  private known: Known | null = null
  /** Round trip to the object. */
  private callMs: number | undefined
  /** While the object fails: when it is called again. */
  private retryAt: number | null = null
  private loggedAt = 0
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
    const mayBegin = token && this.retryAt === null && !this.allowance.refusal(now)
    return mayBegin && isPrimaryNear(token.database, this.callMs) ? token : null
  }

  /** The refusal that every request gets without a call, for its headers with the token that was last seen. */
  refuse(remote: Remote, now: number): Admission | null {
    const verdict = this.allowance.refusal(now)
    const token = this.known?.token
    if (!verdict || !token) return null
    this.probe(remote)
    this.allowance.refuse()
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
      this.allowance.replace(rest)
      return { ...rest, allowed }
    }
    const verdict = this.retryAt === null ? await this.call(remote, send, this.takeTurn(requests - 1)) : null
    return verdict ?? this.allowLocally(requests - 1)
  }

  /** What is left as far as this isolate knows. */
  left(): Rest {
    return this.allowance.left()
  }

  /** The refusal of every request while the database time is used up, as far as this isolate knows. */
  databaseRefusal(): Verdict | null {
    const now = Date.now()
    const verdict = this.allowance.refusal(now)
    return verdict && isOutOfTime(verdict, now) ? verdict : null
  }

  charge(databaseMs: number): void {
    this.allowance.charge(databaseMs)
  }

  /**
   * Reports what a write or a read of the primary has shown, and the database time where that deserves a call.
   *
   * @param waitMs how long it waits for an object that is slow, which gets the report all the same
   */
  async report(remote: Remote, read?: Seen, waitMs: number = LOST_MS): Promise<void> {
    const dueMs = this.allowance.dueMs()
    const isDue = dueMs >= REPORT_MS || (dueMs > 0 && this.left().databaseMs < NEARLY_USED_MS)
    if (!read && !this.lost && !isDue) return
    const call = this.retryAt === null ? this.call(remote, (use) => this.sendReport(remote, use, read)) : null
    if (call && (await withDeadline(call, waitMs).catch(() => null))) return
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
    await withDeadline(remote.forget(), BUDGET_MS.limiter).catch((error: unknown) => {
      if (!(error instanceof DeadlineError)) this.fail(remote, error)
    })
  }

  /** A place among the calls; null while the object fails, and once a refusal has come. */
  private async waitForTurn(remote: Remote, isWrite: boolean): Promise<Turn | null> {
    const beganAt = Date.now()
    const isRefused = () => this.allowance.refusal(Date.now()) !== null
    // The object must know of a write: once it may be called again, a write does that itself.
    if (isWrite && this.retryAt !== null && beganAt >= this.retryAt && !isRefused()) {
      this.retryAt = beganAt + RETRY_MS
      return this.takeTurn(1)
    }
    const hasTurn = () => {
      const now = Date.now()
      for (const turn of this.calls) if (now > turn.at + LOST_MS) this.calls.delete(turn)
      const most = now < beganAt + PATIENCE_MS ? MAX_CALLS : Math.max(MAX_CALLS, this.allowance.requestsLeft(now))
      return this.calls.size < most || this.retryAt !== null || isRefused()
    }
    // Calls that are not answered fail before. A turn may be taken between the poll and this request.
    while (!hasTurn()) await poll(hasTurn, LOST_MS).catch((error: unknown) => this.fail(remote, error))
    return this.retryAt !== null || isRefused() ? null : this.takeTurn(1)
  }

  private takeTurn(requests = 0): Turn {
    const turn = { at: Date.now(), requests }
    this.calls.add(turn)
    return turn
  }

  /** Null where the object fails or is silent, with which it is no longer called for a while. */
  private call<T>(remote: Remote, send: (use: Use) => Promise<T>, turn = this.takeTurn()): Promise<T | null> {
    const { allowance } = this
    const use = allowance.begin()
    turn.at = Date.now()
    let hasFailed = false
    const sent = send(use).then((result) => {
      this.answeredAt = Date.now()
      // Counted after all: it must not be reported again.
      if (hasFailed) allowance.succeedLate(use)
      return result
    })
    const outcome = this.untilSilent(sent, turn.at)
      .then((result) => {
        allowance.end(use)
        return result
      })
      .catch((error: unknown) => {
        hasFailed = true
        allowance.fail(use)
        this.fail(remote, error)
        return null
      })
      .finally(() => this.calls.delete(turn))
    remote.keepAlive(outcome)
    return outcome
  }

  /** Settles as the call does, or rejects when the object has answered none for a long time. */
  private async untilSilent<T>(sent: Promise<T>, sentAt: number): Promise<T> {
    const endsAt = () => Math.min(Math.max(sentAt, this.answeredAt) + BUDGET_MS.silence, sentAt + LOST_MS)
    for (;;) {
      try {
        return await withFairDeadline(sent, endsAt() - Date.now())
      } catch (error) {
        if (!(error instanceof DeadlineError) || Date.now() >= endsAt()) throw error
      }
    }
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

  private receive(rest: Rest): void {
    this.allowance.receive(rest, this.retryAt !== null)
    this.retryAt = null
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

  private allowLocally(requests: number): Verdict {
    const pending = this.calls.values().reduce((sum, turn) => sum + turn.requests, 0)
    return this.allowance.allow(requests, pending)
  }
}
