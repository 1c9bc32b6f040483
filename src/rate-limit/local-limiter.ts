import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, poll, withDeadline } from '../http/deadline.ts'
import { log, nameOf } from '../http/log.ts'
import { DatabaseGate } from './database-gate.ts'
import type { Demand, Lease, Verdict } from './window.ts'
import { DATABASE_LIMIT_MS, databaseResetAt, LIMIT, WINDOW_MS } from './window.ts'

/** One request's connection to its token's Durable Object. */
export interface Remote {
  requestId: string
  acquire(demand: Demand): Promise<Lease>
  /** Extends the request's life until the work ends: other requests may wait for it. */
  keepAlive(work: Promise<unknown>): void
}

/** How long the local allowance applies before the object is called again. */
const RETRY_MS = 5_000
/** Database time is reported with the next call; it causes one only from this much, or when nearly all is used. */
const REPORT_MS = 50
const NEARLY_USED_MS = 500

/**
 * One token's limits in this isolate: the permits that it has leased and the database time that it has not reported.
 * All waiting requests share one call to the token's Durable Object. While that fails or is slow, the isolate grants
 * what its last lease left of the window, or else one whole allowance; the next successful call counts those requests.
 */
export class LocalLimiter {
  readonly gate = new DatabaseGate()
  private lease: Lease = { permits: 0, remaining: 0, resetAt: 0, databaseMs: 0 }
  /** Requests allowed in the window of the lease, and those of them that the object has not counted. */
  private used = 0
  private uncounted = 0
  /** Where the isolate granted the lease by itself: when it calls the object again. */
  private retryAt: number | null = null
  private unreportedMs = 0
  private refused = 0
  private waiting = 0
  private call: Promise<void> | null = null

  /**
   * Takes a permit of the lease, or as many as the request counts for, or none of them. Else calls the object, and then
   * returns a promise, which never rejects.
   */
  acquire(remote: Remote, count = 1): Verdict | Promise<Verdict> {
    const now = Date.now()
    const verdict = this.decide(now, count)
    if (!verdict) return this.acquireRemotely(remote, count)
    if (this.retryAt !== null && now >= this.retryAt && !this.call) this.start(remote)
    return verdict
  }

  /** Milliseconds of database time left, as far as this isolate knows; negative when overused. */
  databaseLeft(): number {
    return this.lease.databaseMs - this.unreportedMs
  }

  /** The refusal of every request while the database time is used up, as far as this isolate knows. */
  databaseRefusal(): Verdict | null {
    const verdict = this.verdict(false)
    return verdict.databaseMs <= 0 && Date.now() < databaseResetAt(verdict) ? verdict : null
  }

  charge(databaseMs: number): void {
    this.unreportedMs += databaseMs
  }

  /** Reports database time where that deserves a call. For use after the response. */
  async report(remote: Remote): Promise<void> {
    // A pending call was sent before the latest time was charged: a second one may be due.
    for (let calls = 0; calls < 2 && this.isReportDue(); calls++) await this.refresh(remote)
  }

  private isReportDue(): boolean {
    if (this.retryAt !== null && Date.now() < this.retryAt) return false
    return this.unreportedMs >= REPORT_MS || (this.unreportedMs > 0 && this.databaseLeft() < NEARLY_USED_MS)
  }

  private async acquireRemotely(remote: Remote, count: number): Promise<Verdict> {
    this.waiting += count
    try {
      for (;;) {
        await this.refresh(remote)
        const verdict = this.decide(0, count)
        if (verdict) return verdict
      }
    } finally {
      this.waiting -= count
    }
  }

  private verdict(allowed: boolean): Verdict {
    const { permits, remaining, resetAt } = this.lease
    return { allowed, remaining: permits + remaining, resetAt, databaseMs: this.databaseLeft() }
  }

  /** @param now 0 right after a call, whose lease applies whatever the object's clock says */
  private decide(now: number, count: number): Verdict | undefined {
    const verdict = this.tryPermits(now, count)
    if (verdict?.allowed === false) this.refused++
    return verdict
  }

  private tryPermits(now: number, count: number): Verdict | undefined {
    const { lease } = this
    const isLocal = this.retryAt !== null
    if (now >= lease.resetAt) return
    if (lease.databaseMs <= 0) return this.verdict(false)
    if (this.databaseLeft() <= 0) return isLocal ? this.verdict(false) : undefined
    if (lease.permits < count) return lease.permits + lease.remaining < count ? this.verdict(false) : undefined
    lease.permits -= count
    this.used += count
    if (isLocal) this.uncounted += count
    return this.verdict(true)
  }

  /** Calls the object, or waits for another request's call. Never rejects: a failure grants the local allowance. */
  private refresh(remote: Remote): Promise<void> {
    const { call } = this
    if (!call) return this.start(remote)
    return poll(() => this.call !== call, BUDGET_MS.limiter).catch(() => this.grantLocally())
  }

  private start(remote: Remote): Promise<void> {
    const now = Date.now()
    const isOver = now >= this.lease.resetAt
    if (isOver) this.uncounted = 0
    const waiting = this.waiting + this.uncounted
    // As many permits as it used in this window or the last one: an idle isolate must not hold many.
    const ahead = now < this.lease.resetAt + WINDOW_MS && (isOver || this.lease.permits === 0) ? this.used : 0
    const reported = { databaseMs: this.unreportedMs, ...(this.refused > 0 && { refused: this.refused }) }
    const response = remote.acquire({ waiting, wanted: Math.max(waiting, ahead), ...reported })
    const received = response.then((lease) => this.receive(lease, reported))
    const call = withDeadline(received, BUDGET_MS.limiter)
      .catch((error: unknown) => {
        this.grantLocally()
        log('limiter_failed', { request_id: remote.requestId, reason: nameOf(error) })
      })
      .finally(() => {
        if (this.call === call) this.call = null
      })
    this.call = call
    remote.keepAlive(call)
    return call
  }

  /** The uncounted requests are paid from the new permits. */
  private receive(lease: Lease, reported: Pick<Demand, 'databaseMs' | 'refused'>): void {
    const isSameWindow = this.retryAt === null && lease.resetAt === this.lease.resetAt
    const before = isSameWindow ? this.lease.permits : 0
    if (!isSameWindow) this.used = this.uncounted
    this.lease = { ...lease, permits: before + Math.max(0, lease.permits - this.uncounted) }
    this.uncounted = Math.max(0, this.uncounted - lease.permits)
    this.retryAt = null
    this.unreportedMs = Math.max(0, this.unreportedMs - reported.databaseMs)
    this.refused -= reported.refused ?? 0
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
      if (this.retryAt !== null) this.unreportedMs = Math.max(0, this.unreportedMs - DATABASE_LIMIT_MS)
    }
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
