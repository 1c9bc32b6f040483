interface Entry<V> {
  value: V
  weight: number
  expiresAt: number
}

/** A cache of this isolate, bounded by the sum of its entries' weights: the least recently used entries make room. */
export class LruCache<K, V> {
  /** In the order of use, the oldest first. */
  private readonly entries = new Map<K, Entry<V>>()
  private totalWeight = 0
  private readonly maxWeight: number
  private readonly weigh: (value: V) => number
  private readonly ttlMs: number

  /**
   * @param options.maxWeight with the default weight of 1 for each entry: how many entries it holds
   * @param options.weigh such as the bytes of a value; one that is heavier than the whole cache is not stored
   * @param options.ttlMs how long an entry is served after it was set; unlimited unless given
   */
  constructor(options: { maxWeight: number; weigh?: (value: V) => number; ttlMs?: number }) {
    this.maxWeight = options.maxWeight
    this.weigh = options.weigh ?? (() => 1)
    this.ttlMs = options.ttlMs ?? Number.POSITIVE_INFINITY
  }

  get size(): number {
    return this.entries.size
  }

  get weight(): number {
    return this.totalWeight
  }

  /** The value, which counts as used, or undefined when there is none or it has expired. */
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

  delete(key: K): boolean {
    this.totalWeight -= this.entries.get(key)?.weight ?? 0
    return this.entries.delete(key)
  }
}
