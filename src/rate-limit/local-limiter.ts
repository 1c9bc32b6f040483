import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, poll, withDeadline } from '../http/deadline.ts'
import { log } from '../http/log.ts'
import { DatabaseGate } from './database-gate.ts'
import {
  DATABASE_LIMIT_MS,
  type Demand,
  databaseResetAt,
  type Lease,
  LIMIT,
  type Verdict,
  WINDOW_MS,
} from './window.ts'

/** One request's connection to its token's Durable Object. */
export interface Remote {
  requestId: string
  acquire(demand: Demand): Promise<Lease>
  /** Extends the request's life until the work ends: other requests may wait for it. */
  keepAlive(work: Promise<unknown>): void
}

/** How long the local allowance applies before the object is called again. */
const RETRY_MS = 5_000

/**
 * Database time is reported with the next call. A call of its own is made only for this much, or for any when the
 * allowance is nearly used up: the count is less than a second late, and cheap requests cost no call.
 */
const REPORT_MS = 50
const NEARLY_USED_MS = 500

/**
 * One token's limits in this isolate: the permits that it has leased and the database time that it has not reported. It
 * makes one call at a time to the token's Durable Object, which all waiting requests share.
 *
 * While the object fails or is slow, the isolate grants what was left of the window by its last lease, or else one
 * whole allowance; the next successful call counts those requests.
 */
export class LocalLimiter {
  readonly gate = new DatabaseGate()
  private lease: Lease = { permits: 0, remaining: 0, resetAt: 0, databaseMs: 0 }
  /** Requests allowed in the window of the lease. */
  private used = 0
  /** Whether the isolate granted the lease by itself; it then calls the object again at `retryAt`. */
  private isLocal = false
  private retryAt = 0
  /** Requests allowed that the object has not counted. */
  private uncounted = 0
  private unreportedMs = 0
  private waiting = 0
  private call: Promise<void> | null = null

  /** Takes a permit of the lease, or else calls the object, and then returns a promise, which never rejects. */
  acquire(remote: Remote): Verdict | Promise<Verdict> {
    const now = Date.now()
    const verdict = this.decide(now)
    if (!verdict) return this.acquireRemotely(remote)
    if (this.isLocal && now >= this.retryAt && !this.call) this.start(remote)
    return verdict
  }

  /** Milliseconds of database time that are left, as far as this isolate knows; negative when overused. */
  databaseLeft(): number {
    return this.lease.databaseMs - this.unreportedMs
  }

  /** Whether the allowance of database time is used up, as far as this isolate knows. */
  isDatabaseTimeUsedUp(): boolean {
    const databaseMs = this.databaseLeft()
    return databaseMs <= 0 && Date.now() < databaseResetAt({ resetAt: this.lease.resetAt, databaseMs })
  }

  verdict(allowed: boolean): Verdict {
    const { permits, remaining, resetAt } = this.lease
    return { allowed, remaining: permits + remaining, resetAt, databaseMs: this.databaseLeft() }
  }

  charge(databaseMs: number): void {
    this.unreportedMs += databaseMs
  }

  /** Reports database time where that deserves a call. For use after the response. */
  report(remote: Remote): void {
    if (this.isReportDue()) remote.keepAlive(this.sendReport(remote))
  }

  private async acquireRemotely(remote: Remote): Promise<Verdict> {
    this.waiting++
    try {
      for (;;) {
        if (this.call) await this.join().catch(() => this.grantLocally())
        else await this.start(remote)
        const verdict = this.decide()
        if (verdict) return verdict
      }
    } finally {
      this.waiting--
    }
  }

  private async sendReport(remote: Remote): Promise<void> {
    // A pending call was sent before the latest time was charged.
    for (let calls = 0; calls < 2 && this.isReportDue(); calls++) {
      if (this.call) await this.join().catch(() => undefined)
      else await this.start(remote)
    }
  }

  private isReportDue(): boolean {
    if (this.isLocal && Date.now() < this.retryAt) return false
    return this.unreportedMs >= REPORT_MS || (this.unreportedMs > 0 && this.databaseLeft() < NEARLY_USED_MS)
  }

  /** @param now omitted right after a call, whose lease applies whatever the object's clock says */
  private decide(now = 0): Verdict | undefined {
    const { lease } = this
    if (now >= lease.resetAt) return
    if (lease.databaseMs <= 0) return this.verdict(false)
    if (this.databaseLeft() <= 0) return this.isLocal ? this.verdict(false) : undefined
    if (lease.permits === 0) return lease.remaining > 0 ? undefined : this.verdict(false)
    lease.permits--
    this.used++
    if (this.isLocal) this.uncounted++
    return this.verdict(true)
  }

  /** Waits for another request's call. */
  private join(): Promise<void> {
    const { call } = this
    return poll(() => this.call !== call, BUDGET_MS.limiter)
  }

  /** Calls the object. Never rejects: a failure grants the local allowance. */
  private start(remote: Remote): Promise<void> {
    const now = Date.now()
    const isOver = now >= this.lease.resetAt
    if (isOver) this.uncounted = 0
    const waiting = this.waiting + this.uncounted
    // As many permits as it used in this window or the last one: an idle isolate must not hold many.
    const ahead = now < this.lease.resetAt + WINDOW_MS && (isOver || this.lease.permits === 0) ? this.used : 0
    const databaseMs = this.unreportedMs
    const response = remote
      .acquire({ waiting, wanted: Math.max(waiting, ahead), databaseMs })
      .then((lease) => this.receive(lease, databaseMs))
    const call = withDeadline(response, BUDGET_MS.limiter)
      .catch((error: unknown) => {
        this.grantLocally()
        const reason = error instanceof Error ? error.name : typeof error
        log('limiter_failed', { request_id: remote.requestId, reason })
      })
      .finally(() => {
        if (this.call === call) this.call = null
      })
    this.call = call
    remote.keepAlive(call)
    return call
  }

  private receive(lease: Lease, reportedMs: number): void {
    // The uncounted requests are paid from the new permits.
    const permits = Math.max(0, lease.permits - this.uncounted)
    const uncounted = Math.max(0, this.uncounted - lease.permits)
    if (!this.isLocal && lease.resetAt === this.lease.resetAt) {
      this.lease = { ...lease, permits: this.lease.permits + permits }
    } else {
      this.lease = { ...lease, permits }
      this.used = this.uncounted
    }
    this.isLocal = false
    this.uncounted = uncounted
    this.unreportedMs = Math.max(0, this.unreportedMs - reportedMs)
  }

  /** Grants what is left of the window, or a whole allowance when it is over. */
  private grantLocally(): void {
    const now = Date.now()
    const { lease } = this
    if (now < lease.resetAt) {
      this.lease = { ...lease, permits: lease.permits + lease.remaining, remaining: 0 }
    } else {
      this.lease = { permits: LIMIT, remaining: 0, resetAt: now + WINDOW_MS, databaseMs: DATABASE_LIMIT_MS }
      this.used = 0
      this.uncounted = 0
      if (this.isLocal) this.unreportedMs = Math.max(0, this.unreportedMs - DATABASE_LIMIT_MS)
    }
    this.isLocal = true
    this.retryAt = now + RETRY_MS
    this.call = null
  }
}

const limiters = new LruCache<string, LocalLimiter>({ maxWeight: 10_000 })

/** The limiter of a token in this isolate. */
export function limiterOf(tokenHash: string): LocalLimiter {
  const limiter = limiters.get(tokenHash) ?? new LocalLimiter()
  limiters.set(tokenHash, limiter)
  return limiter
}
