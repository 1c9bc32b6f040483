import { LruCache } from '../../kernel/http/cache.ts'

/** So many deliveries of a company to one host begin in a second, over all of its endpoints. */
export const DELIVERIES_PER_SECOND = 10
const SECOND_MS = 1_000

/** Spreads the deliveries of one company by the host that they go to. */
export class HostPace {
  /** When the last deliveries to a host begin, the oldest first. */
  private readonly begins = new LruCache<string, number[]>({ maxWeight: 100 })

  /** Takes the next turn of a host. @returns in how many milliseconds it is */
  reserve(host: string, nowMs: number): number {
    const begins = this.begins.get(host) ?? []
    const [oldest = 0] = begins.length < DELIVERIES_PER_SECOND ? [] : begins
    const at = Math.max(nowMs, oldest + SECOND_MS)
    this.begins.set(host, [...begins, at].slice(-DELIVERIES_PER_SECOND))
    return at - nowMs
  }
}
