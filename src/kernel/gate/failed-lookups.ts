import { parseIpv6 } from '../http/address.ts'
import { LruCache } from '../http/cache.ts'

/** How long a network that sent too many unknown tokens is blocked: the window of the `AUTH_FAILURES` binding. */
const BLOCK_MS = 60_000

/** A blocked network may look up one new token in this time, and one token that it retries. */
const LOOKUP_INTERVAL_MS = 1_000

/** With the next look-ups: of a token not refused before, and of one refused {@link LOOKUP_INTERVAL_MS} ago or earlier. */
const blocks = new LruCache<string, { until: number; nextNewAt: number; nextRetryAt: number }>({ maxWeight: 10_000 })

/** When tokens were refused without a look-up, by their hashes. Who tries random tokens has no reason to retry one. */
const refusedAt = new LruCache<string, number>({ maxWeight: 10_000, ttlMs: BLOCK_MS })

/** @returns how many milliseconds later the next token may be looked up */
export function blockNetwork(network: string, now: number): number {
  const nextRetryAt = blocks.get(network)?.nextRetryAt ?? now
  blocks.set(network, { until: now + BLOCK_MS, nextNewAt: now + LOOKUP_INTERVAL_MS, nextRetryAt })
  return LOOKUP_INTERVAL_MS
}

/**
 * How many milliseconds a token that this isolate does not know must wait until it may be looked up. 0 uses up the turn
 * of each of the caller's `networks`. A valid token from a blocked network is thus accepted when it is retried, and cached from then on.
 */
export function delayLookup(networks: readonly string[], tokenHash: string, now: number): number {
  const active = networks.flatMap((network) => blocks.get(network) ?? []).filter(({ until }) => now < until)
  if (active.length === 0) return 0
  const lastRefusal = refusedAt.get(tokenHash, now)
  const isRetry = lastRefusal !== undefined && now >= lastRefusal + LOOKUP_INTERVAL_MS
  const turn = isRetry ? 'nextRetryAt' : 'nextNewAt'
  const delay = Math.max(...active.map((block) => block[turn])) - now
  if (delay > 0) {
    if (lastRefusal === undefined) refusedAt.set(tokenHash, now, now)
    return delay
  }
  for (const block of active) block[turn] = now + LOOKUP_INTERVAL_MS
  refusedAt.delete(tokenHash)
  return 0
}

/**
 * The networks whose addresses one caller may use freely, the smaller first: an IPv4 address itself (IPv4-mapped too), or
 * the /64 of an IPv6 address (RFC 4291, section 2.2) and its /48, which one site may have (RFC 6177). Other text is
 * returned as it is, truncated.
 */
export function networksOf(address: string): [network: string, ...site: string[]] {
  const [text = ''] = address.slice(0, 64).toLowerCase().replace('[', '').split(/[%\]]/)
  const groups = parseIpv6(text)
  if (!groups) return [text]
  const [high = 0, low = 0] = groups.slice(6)
  const isMapped = groups.slice(0, 6).join() === '0,0,0,0,0,65535'
  if (isMapped) return [[high >> 8, high & 0xff, low >> 8, low & 0xff].join('.')]
  const prefix = groups.slice(0, 4).map((group) => group.toString(16))
  return [`${prefix.join(':')}::/64`, `${prefix.slice(0, 3).join(':')}::/48`]
}
