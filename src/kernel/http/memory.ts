import { BUDGET_MS, pause } from './deadline.ts'
import { ApiError } from './errors.ts'

/** Smaller bodies need no lease. */
export const SMALL_BODY_BYTES = 262_144

/** Limits the memory of all large bodies together; one lease may exceed it. */
const LIMIT_BYTES = 24_000_000

/** The interval in which a waiting request checks for free memory. */
const POLL_MS = 20

/** A request that has not used its lease for this long was canceled, while waiting or while holding memory. */
const LOST_WAITING_MS = 2_000
const LOST_MS = 60_000

/**
 * The memory of large bodies in one isolate. Requests wait in the order in which they began; one lease at a time may
 * exceed the limit, so waiting leases never deadlock. Requests poll: in workerd a promise that another request resolves
 * continues in that request's context, where this one's streams and bindings fail.
 */
export class MemoryBudget {
  readonly #limitBytes: number
  readonly #holding = new Set<Lease>()
  /** The time of each lease's last check. */
  readonly #waiting = new Map<Lease, number>()
  #usedBytes = 0
  #over: Lease | null = null
  #nextTurn = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  /** Opens an empty lease. */
  open(): Lease {
    return new Lease(this, this.#nextTurn++)
  }

  /** Resizes a lease if it is its turn and memory is free. Only leases call this. */
  tryResize(lease: Lease, bytes: number): boolean {
    const now = Date.now()
    if (bytes > lease.bytes) {
      this.#dropLost(now)
      const isFirst = this.#waiting.keys().every((other) => other.turn >= lease.turn)
      const hasRoom = this.#over === null || this.#usedBytes + bytes - lease.bytes <= this.#limitBytes
      if (this.#over !== lease && !(isFirst && hasRoom)) {
        this.#waiting.set(lease, now)
        return false
      }
    }
    this.stopWaiting(lease)
    this.#set(lease, bytes)
    return true
  }

  /** Only leases call this. */
  stopWaiting(lease: Lease): void {
    this.#waiting.delete(lease)
  }

  #set(lease: Lease, bytes: number): void {
    const isGrowth = bytes > lease.bytes
    this.#usedBytes += bytes - lease.bytes
    lease.bytes = bytes
    if (bytes > 0) this.#holding.add(lease)
    else this.#holding.delete(lease)
    // All leases but one fit within the limit, so releasing that one ends the excess.
    if (this.#usedBytes <= this.#limitBytes) this.#over = null
    else if (isGrowth) this.#over = lease
  }

  #dropLost(now: number): void {
    for (const lease of this.#holding) if (now - lease.usedAt > LOST_MS) lease.release()
    for (const [lease, lookedAt] of this.#waiting) if (now - lookedAt > LOST_WAITING_MS) lease.release()
  }
}

/** One request's share of a {@link MemoryBudget}. */
export class Lease {
  readonly #budget: MemoryBudget
  /** Requests that began earlier are served earlier. */
  readonly turn: number
  bytes = 0
  usedAt = Date.now()
  /** The response still needs the memory, which is released when it has been sent. */
  isStreaming = false
  #isReleased = false
  #owned: Uint8Array[] = []

  constructor(budget: MemoryBudget, turn: number) {
    this.#budget = budget
    this.turn = turn
  }

  /**
   * Acquires or releases memory to hold this many bytes. Shrinking never waits.
   *
   * @throws ApiError 503 when there is no memory within `waitMs`, or the lease was released
   */
  async resize(bytes: number, waitMs: number = BUDGET_MS.memory): Promise<void> {
    for (const endMs = Date.now() + waitMs; ; await pause(POLL_MS)) {
      if (this.#isReleased) throw busy()
      this.usedAt = Date.now()
      if (this.#budget.tryResize(this, bytes)) return
      if (this.usedAt < endMs) continue
      this.#budget.stopWaiting(this)
      throw busy()
    }
  }

  /** Ties these bytes to the lease: both are released together. */
  own(bytes: Uint8Array): void {
    this.#owned.push(bytes)
  }

  release(): void {
    this.#budget.tryResize(this, 0)
    this.#isReleased = true
    for (const bytes of this.#owned.splice(0)) releaseBytes(bytes)
  }
}

function busy(): ApiError {
  return new ApiError('unavailable', { headers: { 'Retry-After': '10' } })
}

/** Frees the memory of these bytes before the next garbage collection. They are empty afterwards. */
export function releaseBytes({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}

/** Shared by all requests of this isolate. */
export const isolateMemory = new MemoryBudget(LIMIT_BYTES)
