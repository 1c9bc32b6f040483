import { LruCache } from '../http/cache.ts'
import { poll } from '../http/deadline.ts'
import { COMPANY_LIMIT_MS, WINDOW_MS } from './limits.ts'

/** The measured cost of a request for the isolate's thread, and of each MiB of its body, in milliseconds. */
const REQUEST_MS = 3
const BODY_MS = 120
const LARGEST_BODY_BYTES = 8 * 2 ** 20
/** Beside others a company may use this share of the thread, and this much at once. */
const SHARE = 1 / 4
const BURST_MS = 250
/** A company is active for this long after its last request. */
const ACTIVE_MS = 2_000
export const LONGEST_WAIT_MS = 8_000

/** Use that a share of the time pays off. All times are milliseconds of a clock that is never set. */
class Debt {
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

  /** @returns the milliseconds that the request must wait; null for one that is refused and not counted */
  enter(companyId: number, bodyBytes: number, now: number): number | null {
    if (companyId !== this.latest.companyId) this.other = this.latest
    this.latest = { companyId, at: now }
    const debt = this.debts.getOrMake(companyId, () => new Debt())
    const waitMs = this.isAlone(now) ? 0 : Math.max(0, debt.left(SHARE, now) - BURST_MS) / SHARE
    if (waitMs > LONGEST_WAIT_MS) return null
    this.charge(companyId, bodyBytes, now, REQUEST_MS)
    return waitMs
  }

  /** Counts a body whose length became known when it was read. */
  addBody(companyId: number, bodyBytes: number, now: number): void {
    this.charge(companyId, bodyBytes, now)
  }

  private charge(companyId: number, bodyBytes: number, now: number, requestMs = 0): void {
    const costMs = requestMs + (BODY_MS * Math.min(bodyBytes, LARGEST_BODY_BYTES)) / 2 ** 20
    // Use while the company is alone does not count against it later.
    this.debts.get(companyId)?.add(costMs, SHARE, now, this.isAlone(now) ? BURST_MS : undefined)
  }

  /** Whether the requests of the last seconds were all of one company. */
  isAlone(now: number): boolean {
    return now - this.other.at >= ACTIVE_MS
  }
}

export const fairShare = new FairShare()

/** Batches of one company that run at once in an isolate. */
export const IN_FLIGHT = 6
/**
 * A company gets this share of the database's time, and this much at once: alone as much as its limit allows in a minute.
 * Beside others its batches run one by one from a lower use on: several heavy ones would be a long queue.
 */
const ALONE = { share: COMPANY_LIMIT_MS / WINDOW_MS, burstMs: 1_000, oneByOneMs: 1_000 }
const BESIDE_OTHERS = { share: 1 / 6, burstMs: 250, oneByOneMs: 50 }
/** Less than the deadline of a batch, which runs while it waits. */
const QUEUE_MS = 8_000
/** A batch in flight for longer was lost with its request. */
const LOST_MS = 20_000

/** A batch, queued or in flight; `startedAt` is 0 while it is queued. */
export type Permit = { startedAt: number }

/**
 * Runs a company's batches in order, a few at once and a share of the time, so that a crowd of its requests cannot fill
 * the database's queue: with equal numbers in flight, another company would get one batch for each slow one.
 */
export class BatchSemaphore {
  private readonly inFlight = new Set<Permit>()
  private queue = new Set<Permit>()
  private readonly debt = new Debt()

  /** @param isBegun of a request that has written: it goes first, since its other half would be refused */
  enter(isBegun = false): Permit {
    const permit = { startedAt: 0 }
    this.queue.add(permit)
    if (isBegun) this.queue = new Set([permit, ...this.queue])
    this.startQueued()
    return permit
  }

  /** Waits until a queued batch starts. @returns whether it did: otherwise the earlier ones took too long */
  async wait(permit: Permit): Promise<boolean> {
    const isStarted = () => {
      this.startQueued()
      return permit.startedAt > 0
    }
    await poll(isStarted, QUEUE_MS).catch(() => this.release(permit, 0))
    return permit.startedAt > 0
  }

  /** Ends a batch, or its wait. @param databaseMs of the batch; 0 for one that did not run */
  release(permit: Permit, databaseMs: number): void {
    const now = performance.now()
    this.debt.add(databaseMs, limitsAt(now).share, now)
    this.queue.delete(permit)
    if (this.inFlight.delete(permit)) this.startQueued()
  }

  private startQueued(): void {
    const now = Date.now()
    for (const permit of this.inFlight) if (now - permit.startedAt >= LOST_MS) this.inFlight.delete(permit)
    const paidTo = performance.now()
    const { share, burstMs, oneByOneMs } = limitsAt(paidTo)
    const unpaidMs = this.debt.left(share, paidTo)
    if (unpaidMs > burstMs) return
    const most = unpaidMs > oneByOneMs ? 1 : IN_FLIGHT
    for (const permit of this.queue) {
      if (this.inFlight.size >= most) return
      this.queue.delete(permit)
      permit.startedAt = now
      this.inFlight.add(permit)
    }
  }
}

function limitsAt(now: number) {
  return fairShare.isAlone(now) ? ALONE : BESIDE_OTHERS
}

/** By company. */
export const semaphores = new LruCache<number, BatchSemaphore>({ maxWeight: 1_000 })
