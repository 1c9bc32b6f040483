import { unavailable } from './errors.ts'

// Requests share one isolate and its log. Waits, caches and memory are bounded: by deadlines, weights and leases.

/**
 * Logs one line of JSON, which the platform indexes by field; `npm run dev` prints lines of the error level. Callers
 * pass no secret, no body and no query text.
 */
export function log(event: string, fields: Record<string, unknown>, level: 'log' | 'error' = 'log'): void {
  console[level](JSON.stringify({ event, ...fields }))
}

/** Only the name of an error may be logged, since its message may contain values. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error
}

/** Calls of bindings may hang, so every wait has a deadline. Those of suppliers are in the contract: see `products/`. */
export const BUDGET_MS = {
  /** One batch, with its retry. */
  database: 10_000,
  /** After it the request continues without the limiter. */
  limiter: 2_000,
  /** A token's object: half of the time that callers commonly wait. */
  silence: 15_000,
  /** After it the request continues without the cache. */
  cache: 1_000,
  storage: 10_000,
  listing: 25_000,
  /** The published description. */
  assets: 5_000,
  /** A body of no bytes: see {@link bodyBudgetMs}. */
  body: 10_000,
  /** The wait of a large body for memory. */
  memory: 10_000,
  handler: 30_000,
  /** Each step of the work after the response. */
  afterwards: 10_000,
} as const

/** The minimum rate is 128 KB a second: a link of 1 Mbit/s. */
const MIN_BYTES_PER_MS = 128

/** The deadline of a body or response with this many bytes: 10 s and the time at the minimum rate. */
export function bodyBudgetMs(bytes: number): number {
  return BUDGET_MS.body + bytes / MIN_BYTES_PER_MS
}

/** A passed deadline. The message contains nothing of the request. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError'

  constructor(ms: number) {
    super(`No response within ${ms} ms.`)
  }
}

/** Rejects with a {@link DeadlineError} after `ms`. The work itself continues: calls of bindings cannot be canceled. */
export function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const timer = setTimeout(() => reject(new DeadlineError(ms)), ms)
  work.then(resolve, reject)
  // Continuations of `work` run in the request that started it, which must not clear another request's timer.
  return promise.finally(() => clearTimeout(timer))
}

const LONGEST_POLL_MS = 16

/**
 * Polls for another request's work: a promise resolved by another request may continue in that request's context, or
 * never if that request is aborted. @throws DeadlineError after `ms`
 */
export async function poll(isDone: () => boolean, ms: number): Promise<void> {
  const endMs = Date.now() + ms
  for (let nextMs = 1; !isDone(); nextMs = Math.min(nextMs * 2, LONGEST_POLL_MS)) {
    if (Date.now() >= endMs) throw new DeadlineError(ms)
    await pause(nextMs)
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** `maxWeight` is by default a number of entries. A value that is heavier by itself is not cached. */
type Options<V> = { maxWeight: number; weigh?: (value: V) => number; ttlMs?: number }

/** Bounded by the total weight of its entries. The least recently used are evicted first. */
export class LruCache<K, V> {
  /** Entries in order of use, least recently used first. */
  private readonly entries = new Map<K, { value: V; weight: number; expiresAt: number }>()
  private totalWeight = 0
  private readonly options: Options<V>

  constructor(options: Options<V>) {
    this.options = options
  }

  get(key: K, now = Date.now()): V | undefined {
    const entry = this.entries.get(key)
    if (!entry) return
    if (now >= entry.expiresAt) {
      this.delete(key)
      return
    }
    this.entries.delete(key)
    this.entries.set(key, entry)
    return entry.value
  }

  set(key: K, value: V, now = Date.now()): void {
    const { maxWeight, weigh, ttlMs = Number.POSITIVE_INFINITY } = this.options
    this.delete(key)
    const weight = weigh?.(value) ?? 1
    if (weight > maxWeight) return
    this.entries.set(key, { value, weight, expiresAt: now + ttlMs })
    this.totalWeight += weight
    for (const oldest of this.entries.keys()) {
      if (this.totalWeight <= maxWeight) break
      this.delete(oldest)
    }
  }

  getOrMake(key: K, make: () => V): V {
    const known = this.get(key)
    if (known !== undefined) return known
    const value = make()
    this.set(key, value)
    return value
  }

  delete(key: K): void {
    this.totalWeight -= this.entries.get(key)?.weight ?? 0
    this.entries.delete(key)
  }
}

/** Smaller bodies of a known length need no lease. */
export const SMALL_BODY_BYTES = 262_144

/** The 503 of a large body that finds no memory. */
export const noMemory = () => unavailable(10)

/** A request that has not used its lease for this long was canceled. */
const LOST_MS = 60_000

/** The memory of large bodies in one isolate. One lease may exceed the limit, so waiting leases never deadlock. */
export class MemoryBudget {
  readonly #limitBytes: number
  readonly #holding = new Set<Lease>()
  #over: Lease | null = null
  usedBytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  open(): Lease {
    return new Lease(this)
  }

  /** Resizes a lease if memory is free. Only leases call this. */
  tryResize(lease: Lease, bytes: number): boolean {
    const isGrowth = bytes > lease.bytes
    if (isGrowth) {
      for (const each of this.#holding) if (Date.now() - each.usedAt > LOST_MS) each.release()
      const hasRoom = this.#over === null || this.usedBytes + bytes - lease.bytes <= this.#limitBytes
      if (this.#over !== lease && !hasRoom) return false
    }
    this.usedBytes += bytes - lease.bytes
    lease.bytes = bytes
    if (bytes > 0) this.#holding.add(lease)
    else this.#holding.delete(lease)
    // All leases but one fit within the limit, so releasing that one ends the excess.
    if (this.usedBytes <= this.#limitBytes) this.#over = null
    else if (isGrowth) this.#over = lease
    return true
  }
}

/** One request's share of a {@link MemoryBudget}. */
export class Lease {
  readonly #budget: MemoryBudget
  bytes = 0
  usedAt = Date.now()
  isWaiting = false
  /** The response still needs the memory, which is released when it has been sent. */
  isStreaming = false
  #isReleased = false
  readonly #owned = new Set<Uint8Array>()

  constructor(budget: MemoryBudget) {
    this.#budget = budget
  }

  /** Shrinking never waits. @throws ApiError 503 when there is no memory in time, or the lease was released */
  async resize(bytes: number): Promise<void> {
    const isResized = () => {
      if (this.#isReleased) throw noMemory()
      this.usedAt = Date.now()
      return this.#budget.tryResize(this, bytes)
    }
    this.isWaiting = true
    await poll(isResized, BUDGET_MS.memory).catch(() => {
      throw noMemory()
    })
    this.isWaiting = false
  }

  /** Ties these bytes to the lease: both are released together. */
  own(bytes: Uint8Array): void {
    this.#owned.add(bytes)
  }

  /** Unties bytes that are used up, so that they can be collected before the lease ends. */
  disown(bytes: Uint8Array): void {
    this.#owned.delete(bytes)
  }

  release(): void {
    this.#budget.tryResize(this, 0)
    this.#isReleased = true
    for (const bytes of this.#owned) releaseBytes(bytes)
    this.#owned.clear()
  }
}

/** Frees the memory of these bytes before the next garbage collection. They are empty afterwards. */
export function releaseBytes({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}

export const isolateMemory = new MemoryBudget(24_000_000)
