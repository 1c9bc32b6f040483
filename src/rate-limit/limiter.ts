import { DurableObject } from 'cloudflare:workers'
import { LIMIT, take, type Verdict, type Window } from './window.ts'

/** Requests that are booked in storage ahead of being made. */
const LEASE = 10

/** How long after the last request the exact count is written: well under the 10 s after which an idle object goes. */
const SETTLE_MS = 4_000

/**
 * Counts the requests of one token, for the whole world: the object's name is the token's hash.
 *
 * Storage always holds at least the true count: it is raised by a lease before the count gets there, and set to the
 * exact count when requests pause. So an eviction, a crash or a deploy never gives a second allowance (it may cost up
 * to a lease), while a busy token costs one write in ten requests instead of one each.
 */
export class RateLimiter extends DurableObject {
  private window: Window | undefined = this.ctx.storage.kv.get<Window>('window')
  private booked = this.window?.count ?? 0
  private lastTakenAt = 0
  private isSettling = false

  take(): Verdict {
    const now = Date.now()
    const before = this.window
    const { window, verdict } = take(before, now)
    this.window = window
    this.lastTakenAt = now
    if (window.startedAt !== before?.startedAt) this.booked = 0
    if (window.count > this.booked) this.book(Math.min(window.count - 1 + LEASE, LIMIT))
    if (!this.isSettling) this.settleAfter(SETTLE_MS)
    return verdict
  }

  private book(count: number): void {
    if (!this.window || count === this.booked) return
    this.booked = count
    this.ctx.storage.kv.put('window', { startedAt: this.window.startedAt, count })
  }

  /** One timer at a time, moved on while requests come: a timer for each would cost more than the count itself. */
  private settleAfter(ms: number): void {
    this.isSettling = true
    setTimeout(() => {
      const left = this.lastTakenAt + SETTLE_MS - Date.now()
      if (left > 0) return this.settleAfter(left)
      this.isSettling = false
      this.book(this.window?.count ?? 0)
    }, ms)
  }
}
