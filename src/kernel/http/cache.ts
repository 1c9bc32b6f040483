/** Bounded by the total weight of its entries. The least recently used are evicted first. */
export class LruCache<K, V> {
  /** Entries in order of use, least recently used first. */
  private readonly entries = new Map<K, { value: V; weight: number; expiresAt: number }>()
  private totalWeight = 0
  private readonly maxWeight: number
  private readonly weigh: (value: V) => number
  private readonly ttlMs: number

  /** `maxWeight` is by default a number of entries. A value that is heavier by itself is not cached. */
  constructor(options: { maxWeight: number; weigh?: (value: V) => number; ttlMs?: number }) {
    this.maxWeight = options.maxWeight
    this.weigh = options.weigh ?? (() => 1)
    this.ttlMs = options.ttlMs ?? Number.POSITIVE_INFINITY
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
    this.delete(key)
    const weight = this.weigh(value)
    if (weight > this.maxWeight) return
    this.entries.set(key, { value, weight, expiresAt: now + this.ttlMs })
    this.totalWeight += weight
    for (const oldest of this.entries.keys()) {
      if (this.totalWeight <= this.maxWeight) break
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
