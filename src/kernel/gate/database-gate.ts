import { LruCache } from '../http/cache.ts'
import { poll } from '../http/deadline.ts'

/** The expected database time of a company's batches in flight: 8 with the first estimate, 50 with the least. */
const IN_FLIGHT_MS = 250
const FIRST_ESTIMATE_MS = 30
const LEAST_ESTIMATE_MS = 5

/** How much a cheaper batch lowers the estimate; a more expensive one raises it at once. */
const ADAPTATION = 0.2

/** A token bucket of database time: a burst, then a third of the time. The rest is for other companies. */
const BURST_MS = 1_000
const FILL_RATE = 1 / 3

/** How long a batch waits for the earlier ones of its company, and after which one in flight was lost with its request. */
const QUEUE_MS = 5_000
const LOST_MS = 20_000

/** Whether another batch may run beside those in flight: one always may. */
export function mayEnter(inFlight: number, estimateMs: number): boolean {
  return inFlight === 0 || (inFlight + 1) * estimateMs <= IN_FLIGHT_MS
}

/** The estimate after a batch. For a company with different batches it is near the most expensive one. */
export function updateEstimate(estimateMs: number, durationMs: number): number {
  return Math.max(LEAST_ESTIMATE_MS, estimateMs + (durationMs - estimateMs) * ADAPTATION, durationMs)
}

/** The place of one batch, in the queue or in flight; `enteredAt` is 0 while it is queued. */
export type Pass = { enteredAt: number }

/** Admits a company's batches in their order: a crowd cannot fill the database's queue before the first is charged. */
export class DatabaseGate {
  private estimateMs = FIRST_ESTIMATE_MS
  private bucketMs = BURST_MS
  private filledAt = 0
  private readonly inFlight = new Set<Pass>()
  private readonly queue = new Set<Pass>()

  /** A place in flight, or null where the batch must {@link wait}. */
  tryEnter(): Pass | null {
    const now = Date.now()
    for (const pass of this.inFlight) if (now - pass.enteredAt >= LOST_MS) this.inFlight.delete(pass)
    const pass = this.enqueue()
    if (pass.enteredAt > 0) return pass
    this.queue.delete(pass)
    return null
  }

  /** @throws DeadlineError when the earlier batches take too long */
  async wait(): Promise<Pass> {
    const pass = this.enqueue()
    const isAdmitted = () => {
      this.admitQueued()
      return pass.enteredAt > 0
    }
    await poll(isAdmitted, QUEUE_MS).catch((error: unknown) => {
      this.queue.delete(pass)
      this.leave(pass)
      throw error
    })
    return pass
  }

  /** @param durationMs what the batch took; omitted when it did not run */
  leave(pass: Pass, durationMs?: number): void {
    if (!this.inFlight.delete(pass)) return
    if (durationMs !== undefined) {
      this.estimateMs = updateEstimate(this.estimateMs, durationMs)
      this.bucketMs = this.fill() - durationMs
    }
    this.admitQueued()
  }

  /** How long the batches in flight and in the queue are expected to take. */
  expectedMs(): number {
    const work = (this.inFlight.size + this.queue.size) * this.estimateMs
    const available = this.fill()
    return work <= available ? work : (work - available) / FILL_RATE
  }

  private enqueue(): Pass {
    const pass = { enteredAt: 0 }
    this.queue.add(pass)
    this.admitQueued()
    return pass
  }

  private admitQueued(): void {
    for (const pass of this.queue) {
      if (!mayEnter(this.inFlight.size, this.estimateMs) || this.fill() <= 0) return
      this.queue.delete(pass)
      pass.enteredAt = Date.now()
      this.inFlight.add(pass)
    }
  }

  private fill(): number {
    const now = Date.now()
    this.bucketMs = Math.min(BURST_MS, this.bucketMs + Math.max(0, now - this.filledAt) * FILL_RATE)
    this.filledAt = now
    return this.bucketMs
  }
}

const gates = new LruCache<number, DatabaseGate>({ maxWeight: 1_000 })

/** The gate that all tokens of a company share in this isolate. */
export function gateOfCompany(companyId: number): DatabaseGate {
  const gate = gates.get(companyId) ?? new DatabaseGate()
  gates.set(companyId, gate)
  return gate
}
