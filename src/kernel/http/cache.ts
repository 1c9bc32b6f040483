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
