import { BUDGET_MS, pause } from './deadline.ts'
import { ApiError } from './errors.ts'

/** Bodies under this size need no lease. */
export const SMALL_BODY_BYTES = 262_144

/** What large bodies hold together, beside one that may go over it. */
const LIMIT_BYTES = 24_000_000

/** How often a waiting request looks for room. */
const POLL_MS = 20

/** A waiting request that has not looked for so long was canceled without notice, and so was one that holds memory. */
const LOST_WAITING_MS = 2_000
const LOST_MS = 60_000

/** Seconds after which a refused request may be sent again. */
const RETRY_AFTER_SECONDS = 10

/**
 * The memory that large bodies may hold at once in one isolate. A lease grows with what its request holds; where there
 * is no room, requests wait in the order in which they began. One lease at a time may go over the limit: it can always
 * finish, so leases that hold a part and wait for more never block each other for good.
 *
 * A waiting request looks for room by itself, on timers of its own: in workerd a promise that another request resolves
 * goes on in that request's context, where this one's streams and bindings fail.
 */
export class MemoryBudget {
  readonly #limitBytes: number
  readonly #holding = new Set<Lease>()
  /** When each looked last. */
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

  /** A lease of nothing yet. */
  open(): Lease {
    return new Lease(this, this.#nextTurn++)
  }

  /** Changes what a lease holds, where it is its turn and there is room. Called by leases only. */
  tryResize(lease: Lease, bytes: number): boolean {
    const now = Date.now()
    if (bytes > lease.bytes) {
      this.#dropLost(now)
      const mayGrow = this.#over === lease || (this.#isFirst(lease) && this.#hasRoom(lease, bytes))
      if (!mayGrow) {
        this.#waiting.set(lease, now)
        return false
      }
    }
    this.stopWaiting(lease)
    this.#set(lease, bytes)
    return true
  }

  /** Called by leases only. */
  stopWaiting(lease: Lease): void {
    this.#waiting.delete(lease)
  }

  #isFirst(lease: Lease): boolean {
    return this.#waiting.keys().every((other) => other.turn >= lease.turn)
  }

  #hasRoom(lease: Lease, bytes: number): boolean {
    return this.#over === null || this.#usedBytes + bytes - lease.bytes <= this.#limitBytes
  }

  #set(lease: Lease, bytes: number): void {
    const isGrowth = bytes > lease.bytes
    this.#usedBytes += bytes - lease.bytes
    lease.bytes = bytes
    if (bytes > 0) this.#holding.add(lease)
    else this.#holding.delete(lease)
    if (this.#usedBytes <= this.#limitBytes || (this.#over === lease && bytes === 0)) this.#over = null
    else if (isGrowth) this.#over = lease
  }

  #dropLost(now: number): void {
    for (const lease of this.#holding) if (now - lease.usedAt > LOST_MS) lease.release()
    for (const [lease, lookedAt] of this.#waiting) if (now - lookedAt > LOST_WAITING_MS) lease.release()
  }
}

/** What one request holds of a {@link MemoryBudget}. */
export class Lease {
  readonly #budget: MemoryBudget
  /** Requests that began earlier are served earlier. */
  readonly turn: number
  bytes = 0
  usedAt = Date.now()
  /** The response still needs it: whoever sends the response releases it. */
  isStreaming = false
  #isReleased = false
  #owned: Uint8Array[] = []

  constructor(budget: MemoryBudget, turn: number) {
    this.#budget = budget
    this.turn = turn
  }

  /**
   * Holds so many bytes from now on. To hold fewer never waits.
   *
   * @throws ApiError 503 when there is no room within `waitMs`, or the lease was released
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

  /** Takes bytes that are needed no longer than the lease: they are released with it. */
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
  return new ApiError('unavailable', { headers: { 'Retry-After': String(RETRY_AFTER_SECONDS) } })
}

/** Gives back the memory behind these bytes now, not when garbage is collected. They are empty from then on. */
export function releaseBytes({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}

/** All requests of this isolate share its memory. */
export const isolateMemory = new MemoryBudget(LIMIT_BYTES)
