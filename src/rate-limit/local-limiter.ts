import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, poll, withDeadline } from '../http/deadline.ts'
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

/** The way from one request to its token's Durable Object. */
export interface Remote {
  acquire(demand: Demand): Promise<Lease>
  /** Work that other requests may wait for: it must outlive this one. */
  keepAlive(work: Promise<unknown>): void
  failed(error: unknown): void
}

/** How long the local allowance applies before the object is called again. */
const RETRY_MS = 5_000

/**
 * Database time is reported with the next call. Only this much, or any when the allowance is nearly used, is worth a
 * call of its own: many isolates together then know less than a second too late, and cheap requests cost no call.
 */
const REPORT_MS = 50
const NEARLY_USED_MS = 500

const NONE: Lease = { permits: 0, remaining: 0, resetAt: 0, databaseMs: 0 }

/**
 * What this isolate knows of one token's limits: the permits that it leased, and the database time that it has not
 * reported yet. It makes one call at a time to the token's Durable Object; requests that come meanwhile share it.
 *
 * While the object fails or is slow, the isolate grants by itself what was left of the window when it last knew, or one
 * whole allowance; the object counts those requests when it is back.
 */
export class LocalLimiter {
  readonly gate = new DatabaseGate()
  private lease: Lease = NONE
  /** Requests let through in the window of the lease. */
  private used = 0
  /** Whether the lease was granted by the isolate itself, and until when it does not call the object again. */
  private isLocal = false
  private retryAt = 0
  /** Requests let through that the object has not counted. */
  private uncounted = 0
  private unreportedMs = 0
  private waiting = 0
  private call: Promise<void> | null = null

  /** The verdict that memory gives, or undefined where the object must be called. Takes a permit. */
  check(remote: Remote, now: number): Verdict | undefined {
    const verdict = this.decide(now)
    if (verdict && this.isLocal && now >= this.retryAt && !this.call) this.start(remote, now)
    return verdict
  }

  /** The verdict, for which the object is called where memory gives none. Never rejects. */
  async acquire(remote: Remote, now: number): Promise<Verdict> {
    this.waiting++
    try {
      for (let verdict = this.check(remote, now); ; verdict = this.decide()) {
        if (verdict) return verdict
        if (this.call) await this.join().catch(() => this.grantLocally())
        else await this.start(remote, Date.now())
      }
    } finally {
      this.waiting--
    }
  }

  /** Milliseconds of database time that are left, as far as this isolate knows; negative where more was used. */
  databaseLeft(): number {
    return this.lease.databaseMs - this.unreportedMs
  }

  /** Whether the allowance of database time is used up, as far as this isolate knows. */
  isDatabaseTimeUsedUp(): boolean {
    const databaseMs = this.databaseLeft()
    return databaseMs <= 0 && Date.now() < databaseResetAt({ resetAt: this.lease.resetAt, databaseMs })
  }

  /** A verdict that takes no permit. */
  refuse(): Verdict {
    return this.verdict(false)
  }

  charge(databaseMs: number): void {
    this.unreportedMs += databaseMs
  }

  /** Reports database time, where that is worth a call. Call it after the response. Never rejects. */
  async report(remote: Remote): Promise<void> {
    // A call that is under way began before the last of it was used.
    for (let calls = 0; calls < 2 && this.isReportDue(); calls++) {
      if (this.call) await this.join().catch(() => undefined)
      else await this.start(remote, Date.now())
    }
  }

  isReportDue(): boolean {
    if (this.isLocal && Date.now() < this.retryAt) return false
    return this.unreportedMs >= REPORT_MS || (this.unreportedMs > 0 && this.databaseLeft() < NEARLY_USED_MS)
  }

  /** @param now left out right behind a call: its lease is then used whatever the object's clock says */
  private decide(now = 0): Verdict | undefined {
    const { lease } = this
    if (now >= lease.resetAt) return
    if (lease.databaseMs <= 0) return this.refuse()
    if (this.databaseLeft() <= 0) return this.isLocal ? this.refuse() : undefined
    if (lease.permits === 0) return lease.remaining > 0 ? undefined : this.refuse()
    lease.permits--
    this.used++
    if (this.isLocal) this.uncounted++
    return this.verdict(true)
  }

  private verdict(allowed: boolean): Verdict {
    const { permits, remaining, resetAt } = this.lease
    return { allowed, remaining: permits + remaining, resetAt, databaseMs: this.databaseLeft() }
  }

  /** Waits for the end of another request's call. */
  private join(): Promise<void> {
    const { call } = this
    return poll(() => this.call !== call, BUDGET_MS.limiter)
  }

  /** Never rejects: a call that fails brings the local allowance. */
  private start(remote: Remote, now: number): Promise<void> {
    const isOver = now >= this.lease.resetAt
    if (isOver) this.uncounted = 0
    const waiting = this.waiting + this.uncounted
    // As many as it used in this window, or in the one just ended: it never holds many that nobody brings it.
    const ahead = now < this.lease.resetAt + WINDOW_MS && (isOver || this.lease.permits === 0) ? this.used : 0
    const databaseMs = this.unreportedMs
    const response = remote
      .acquire({ waiting, wanted: Math.max(waiting, ahead), databaseMs })
      .then((lease) => this.receive(lease, databaseMs))
    const call = withDeadline(response, BUDGET_MS.limiter)
      .catch((error: unknown) => {
        this.grantLocally()
        remote.failed(error)
      })
      .finally(() => {
        if (this.call === call) this.call = null
      })
    this.call = call
    remote.keepAlive(call)
    return call
  }

  private receive(lease: Lease, reportedMs: number): void {
    // What was let through meanwhile without being counted is paid from it.
    const permits = Math.max(0, lease.permits - this.uncounted)
    const uncounted = Math.max(0, this.uncounted - lease.permits)
    const isSameWindow = !this.isLocal && lease.resetAt === this.lease.resetAt
    if (isSameWindow) {
      this.lease = { ...lease, permits: this.lease.permits + permits }
    } else {
      this.lease = { ...lease, permits }
      this.used = this.uncounted
    }
    this.isLocal = false
    this.uncounted = uncounted
    this.unreportedMs = Math.max(0, this.unreportedMs - reportedMs)
  }

  /** The object did not respond: what is left is the isolate's, for this window or for one of its own. */
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

const MAX_TOKENS = 10_000
const limiters = new LruCache<string, LocalLimiter>({ maxWeight: MAX_TOKENS })

/** The limiter of a token in this isolate. */
export function limiterOf(tokenHash: string): LocalLimiter {
  const known = limiters.get(tokenHash)
  if (known) return known
  const limiter = new LocalLimiter()
  limiters.set(tokenHash, limiter)
  return limiter
}
