import { LruCache } from '../../kernel/http/cache.ts'

/** Limits a company's deliveries to one host per second, over all of its endpoints. */
export const DELIVERIES_PER_SECOND = 10
const SECOND_MS = 1_000

/** Spreads the deliveries of one company by their host. */
export class HostPace {
  /** Start times of the last deliveries to a host, oldest first. */
  private readonly begins = new LruCache<string, number[]>({ maxWeight: 100 })

  /** Reserves the next delivery to a host. @returns its delay in milliseconds */
  reserve(host: string, nowMs: number): number {
    const begins = this.begins.get(host) ?? []
    const [oldest = 0] = begins.length < DELIVERIES_PER_SECOND ? [] : begins
    const at = Math.max(nowMs, oldest + SECOND_MS)
    this.begins.set(host, [...begins, at].slice(-DELIVERIES_PER_SECOND))
    return at - nowMs
  }
}
