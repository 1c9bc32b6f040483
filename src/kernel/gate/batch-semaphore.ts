import { LruCache } from '../http/cache.ts'
import { poll } from '../http/deadline.ts'
import { Debt, fairShare } from './fair-share.ts'
import { COMPANY_LIMIT_MS, WINDOW_MS } from './window.ts'

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
  private readonly queue = new Set<Permit>()
  /** Database time of ended batches. */
  private readonly debt = new Debt()

  /** Starts a batch or queues it: see {@link BatchSemaphore.wait}. */
  enter(): Permit {
    const permit = { startedAt: 0 }
    this.queue.add(permit)
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

const semaphores = new LruCache<number, BatchSemaphore>({ maxWeight: 1_000 })

/** The semaphore that all tokens of a company share in this isolate. */
export function semaphoreOf(companyId: number): BatchSemaphore {
  const semaphore = semaphores.get(companyId) ?? new BatchSemaphore()
  semaphores.set(companyId, semaphore)
  return semaphore
}
