import { poll } from '../http/deadline.ts'

/** The database time that the batches of one token may be expected to take at any moment, from one isolate. */
const IN_FLIGHT_MS = 250

/** What a batch is expected to take while none is known, and at least: 8 batches in flight at first, 50 at most. */
const FIRST_ESTIMATE_MS = 30
const LEAST_ESTIMATE_MS = 5

/** How much a cheaper batch lowers the estimate; a more expensive one raises it at once. */
const ADAPTATION = 0.2

/**
 * A token bucket of database time: so much may be used at once, and from then on a third of the time. The database is
 * then idle for most of the requests of others, also while one token uses its whole allowance.
 */
const BURST_MS = 1_000
const SHARE = 1 / 3

/** How long a batch waits for the earlier ones of its token. */
const QUEUE_MS = 5_000

/** A batch that has not ended by then was lost with its request. */
const LOST_MS = 20_000

/** Whether another batch may go to the database beside those in flight: always one. */
export function mayEnter(inFlight: number, estimateMs: number): boolean {
  return inFlight === 0 || (inFlight + 1) * estimateMs <= IN_FLIGHT_MS
}

/** The estimate after a batch: that of a token whose batches differ is near its most expensive one. */
export function updateEstimate(estimateMs: number, durationMs: number): number {
  const average = estimateMs + (durationMs - estimateMs) * ADAPTATION
  return Math.max(LEAST_ESTIMATE_MS, average, durationMs)
}

/** The place of one batch that is in flight. */
export interface Pass {
  enteredAt: number
}

interface Waiter {
  pass: Pass | null
}

/**
 * Lets batches of one token go to the database in their order, as many at once as their expected time permits: many
 * that come together cannot fill the database's queue before the first of them is counted.
 */
export class DatabaseGate {
  private estimateMs = FIRST_ESTIMATE_MS
  private bucketMs = BURST_MS
  private filledAt = 0
  private readonly inFlight = new Set<Pass>()
  private readonly queue: Waiter[] = []

  /** A place in flight, or null where the batch must wait. */
  tryEnter(): Pass | null {
    const now = Date.now()
    for (const pass of this.inFlight) if (now - pass.enteredAt >= LOST_MS) this.inFlight.delete(pass)
    this.admitNext()
    return this.queue.length === 0 && this.hasRoom() ? this.admit() : null
  }

  /** @throws DeadlineError when the earlier batches take too long */
  async wait(): Promise<Pass> {
    const waiter: Waiter = { pass: null }
    this.queue.push(waiter)
    const isAdmitted = () => {
      this.admitNext()
      return waiter.pass !== null
    }
    await poll(isAdmitted, QUEUE_MS).catch((error: unknown) => {
      this.queue.splice(this.queue.indexOf(waiter), 1)
      throw error
    })
    return waiter.pass ?? this.admit()
  }

  /** @param durationMs what the batch took; left out when it did not run */
  leave(pass: Pass, durationMs?: number): void {
    if (!this.inFlight.delete(pass)) return
    if (durationMs !== undefined) {
      this.estimateMs = updateEstimate(this.estimateMs, durationMs)
      this.bucketMs = this.fill() - durationMs
    }
    this.admitNext()
  }

  /** How long the batches in flight and those that wait are expected to take. */
  expectedMs(): number {
    const work = (this.inFlight.size + this.queue.length) * this.estimateMs
    const available = this.fill()
    return work <= available ? work : (work - available) / SHARE
  }

  private fill(): number {
    const now = Date.now()
    this.bucketMs = Math.min(BURST_MS, this.bucketMs + Math.max(0, now - this.filledAt) * SHARE)
    this.filledAt = now
    return this.bucketMs
  }

  private admitNext(): void {
    while (this.hasRoom()) {
      const waiter = this.queue.shift()
      if (!waiter) return
      waiter.pass = this.admit()
    }
  }

  private hasRoom(): boolean {
    return mayEnter(this.inFlight.size, this.estimateMs) && this.fill() > 0
  }

  private admit(): Pass {
    const pass = { enteredAt: Date.now() }
    this.inFlight.add(pass)
    return pass
  }
}
