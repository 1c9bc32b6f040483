import { LruCache } from '../http/cache.ts'

/** The measured cost of a request for the isolate's thread, and of each MiB of its body, in milliseconds. */
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

/** Use that a share of the time pays off. All times are milliseconds of a clock that is never set. */
export class Debt {
  private usedMs = 0
  private usedAt = 0

  left(share: number, now: number): number {
    return Math.max(0, this.usedMs - (now - this.usedAt) * share)
  }

  /** @param mostMs after which nothing more is owed */
  add(ms: number, share: number, now: number, mostMs = Number.POSITIVE_INFINITY): void {
    this.usedMs = Math.min(this.left(share, now) + ms, mostMs)
    this.usedAt = now
  }
}

/**
 * Shares an isolate's one thread between companies: while others are active, the requests of each start at the pace of
 * its share, in their order. A company that is alone never waits. Workers cannot measure processor time, so requests
 * count by their known cost.
 */
export class FairShare {
  private readonly debts = new LruCache<number, Debt>({ maxWeight: 1_000 })
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
    const debt = this.debts.get(companyId) ?? new Debt()
    const waitMs = this.isAlone(now) ? 0 : Math.max(0, debt.left(SHARE, now) - BURST_MS) / SHARE
    if (waitMs > LONGEST_WAIT_MS) return null
    this.debts.set(companyId, debt)
    this.charge(companyId, REQUEST_MS + bodyMs(bodyBytes), now)
    return waitMs
  }

  /** Counts a body whose length became known when it was read. */
  addBody(companyId: number, bodyBytes: number, now: number): void {
    this.charge(companyId, bodyMs(bodyBytes), now)
  }

  private charge(companyId: number, costMs: number, now: number): void {
    // Use while the company is alone does not count against it later.
    this.debts.get(companyId)?.add(costMs, SHARE, now, this.isAlone(now) ? BURST_MS : undefined)
  }

  /** Whether the requests of the last seconds were all of one company. */
  isAlone(now: number): boolean {
    return now - this.other.at >= ACTIVE_MS
  }
}

function bodyMs(bytes: number): number {
  return (BODY_MS * Math.min(bytes, LARGEST_BODY_BYTES)) / 2 ** 20
}

/** Of this isolate. */
export const fairShare = new FairShare()
