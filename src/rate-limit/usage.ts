import type { Meter } from '../db/client.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import type { Pass } from './database-gate.ts'
import { rateLimited, refusalOf } from './headers.ts'
import type { LocalLimiter, Remote } from './local-limiter.ts'
import type { Verdict } from './window.ts'

/** Charged at most for a batch that failed: D1 does not say how long it took, and an outage must not use up a minute. */
const FAILED_BATCH_MS = 1_000

/** One request's use of its token's limits: its permit, and the database time of its batches. */
export class RequestUsage implements Meter {
  private readonly limiter: LocalLimiter
  private readonly remote: Remote
  private refusal: Verdict | null = null
  private hasEnded = false

  constructor(limiter: LocalLimiter, remote: Remote) {
    this.limiter = limiter
    this.remote = remote
  }

  /** The verdict that memory gives, or undefined. Takes a permit. */
  check(now: number): Verdict | undefined {
    return this.limiter.check(this.remote, now)
  }

  /** The verdict, for which the token's Durable Object is called where memory gives none. Never rejects. */
  async acquire(now: number): Promise<Verdict> {
    const acquired = this.limiter.acquire(this.remote, now)
    // An aborted request must stop waiting, or a permit would be asked for it for ever.
    this.remote.keepAlive(acquired)
    const verdict = await acquired
    if (!verdict.allowed) this.refusal = verdict
    return verdict
  }

  databaseLeft(): number {
    return this.limiter.databaseLeft()
  }

  /** Whether the verdict must be known before anything is read. */
  isDatabaseTimeUsedUp(): boolean {
    return this.limiter.isDatabaseTimeUsedUp()
  }

  /**
   * Runs a batch as soon as the token's earlier ones leave room for it, and charges what it took.
   *
   * @throws ApiError 429 instead of running it, when it had to wait for too long or until the allowance was used up
   */
  async run<T extends { durationMs: number }>(batch: () => Promise<T>): Promise<T> {
    const pass = this.limiter.gate.tryEnter() ?? (await this.wait())
    const startedAt = Date.now()
    const work = batch()
    const settled = this.settle(work, pass, startedAt)
    // What an aborted request has begun is charged, too, and makes room for the next.
    this.remote.keepAlive(settled)
    await settled
    return work
  }

  charge(databaseMs: number): void {
    this.limiter.charge(databaseMs)
    if (this.hasEnded) this.report()
  }

  /** Call it when the response is ready. */
  end(): void {
    this.hasEnded = true
    this.report()
  }

  private async wait(): Promise<Pass> {
    const { gate } = this.limiter
    const waited = gate.wait()
    this.remote.keepAlive(waited.catch(() => undefined))
    const pass = await waited.catch(() => {
      throw rateLimited(Math.max(1, Math.ceil(gate.expectedMs() / 1_000)), 'Too many requests of this token at once.')
    })
    const refusal = this.refusal ?? (this.limiter.isDatabaseTimeUsedUp() ? this.limiter.refuse() : null)
    if (!refusal) return pass
    gate.leave(pass)
    throw refusalOf(refusal, Date.now())
  }

  private async settle(work: Promise<{ durationMs: number }>, pass: Pass, startedAt: number): Promise<void> {
    const durationMs = await withDeadline(work, BUDGET_MS.database).then(
      (result) => result.durationMs,
      () => Math.min(Date.now() - startedAt, FAILED_BATCH_MS),
    )
    this.limiter.gate.leave(pass, durationMs)
    this.charge(durationMs)
  }

  private report(): void {
    if (this.limiter.isReportDue()) this.remote.keepAlive(this.limiter.report(this.remote))
  }
}
