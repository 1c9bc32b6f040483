import { LruCache } from '../http/cache.ts'

/** What a request costs the isolate's thread, as measured: itself, and each MiB of its body; milliseconds. */
const REQUEST_MS = 3
const BODY_MS = 120
const LARGEST_BODY_BYTES = 8 * 2 ** 20
/** Beside others a company may use this share of the thread, and this much at once. */
const SHARE = 1 / 4
const BURST_MS = 250
/** A company is active for this long after its last request. */
const ACTIVE_MS = 2_000
/** A request that would wait longer is refused. */
export const LONGEST_WAIT_MS = 8_000

/**
 * Shares an isolate's one thread between companies: while others are active, the requests of each start at the pace of
 * its share, in their order. A company that is alone never waits. Workers cannot measure processor time, so requests
 * count by what they are known to cost. All times are milliseconds of a clock that is never set.
 */
export class FairShare {
  /** When the earlier requests of a company are paid off at its share. */
  private readonly paidAt = new LruCache<number, number>({ maxWeight: 1_000 })
  private latest = { companyId: 0, at: Number.NEGATIVE_INFINITY }
  /** The last request of a company other than the latest one. */
  private other = this.latest

  /**
   * Counts a request that is to start.
   *
   * @returns the milliseconds that it must wait; null for one that is refused and not counted
   */
  enter(companyId: number, bodyBytes: number, now: number): number | null {
    if (companyId !== this.latest.companyId) this.other = this.latest
    this.latest = { companyId, at: now }
    const isAlone = this.isAlone(now)
    const burstMs = BURST_MS / SHARE
    const startsAt = Math.max(now, this.paidAt.get(companyId) ?? now)
    const waitMs = isAlone ? 0 : Math.max(0, startsAt - now - burstMs)
    if (waitMs > LONGEST_WAIT_MS) return null
    const paidAt = startsAt + (REQUEST_MS + (BODY_MS * Math.min(bodyBytes, LARGEST_BODY_BYTES)) / 2 ** 20) / SHARE
    // What a company uses while it is alone does not count against it later.
    this.paidAt.set(companyId, isAlone ? Math.min(paidAt, now + burstMs) : paidAt)
    return waitMs
  }

  /** Whether the requests of the last seconds were all of one company. */
  isAlone(now: number): boolean {
    return now - this.other.at >= ACTIVE_MS
  }
}

/** Of this isolate. */
export const fairShare = new FairShare()
