import { DurableObject } from 'cloudflare:workers'
import { LIMIT, take, type Verdict, type Window } from './window.ts'

/** Requests that are booked in storage ahead of being made. */
const LEASE = 30

/** How long after the last request the exact count is written. Well under the 10 s after which an idle object is evicted. */
const SETTLE_MS = 1_000

/**
 * Counts the requests of one token, for the whole world: the object's name is the token's hash.
 *
 * Storage always holds at least the true count: it is raised by a lease before the count gets there, and set to the
 * exact count when requests pause. So an eviction, a crash or a deploy never gives a second allowance (it may cost up
 * to a lease), while a busy token costs one write in thirty requests instead of one each.
 */
export class RateLimiter extends DurableObject {
  private window: Window | undefined = this.ctx.storage.kv.get<Window>('window')
  private booked = this.window?.count ?? 0
  private settling = false

  take(): Verdict {
    const before = this.window
    const { window, verdict } = take(before, Date.now())
    this.window = window
    if (window.startedAt !== before?.startedAt) this.booked = 0
    if (window.count > this.booked) this.book(Math.min(window.count - 1 + LEASE, LIMIT))
    this.settleSoon()
    return verdict
  }

  private book(count: number): void {
    if (!this.window || count === this.booked) return
    this.booked = count
    this.ctx.storage.kv.put('window', { startedAt: this.window.startedAt, count })
  }

  private settleSoon(): void {
    if (this.settling) return
    this.settling = true
    setTimeout(() => {
      this.settling = false
      this.book(this.window?.count ?? 0)
    }, SETTLE_MS)
  }
}
