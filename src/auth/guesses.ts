import { LruCache } from '../http/cache.ts'

/** How long a network is blocked that sent too many unknown tokens: the window of the `AUTH_FAILURES` binding. */
const BLOCK_MS = 60_000

/** A blocked network has one token looked up in this time, and one more of those that it was told to send again. */
const LOOK_UP_EVERY_MS = 1_000

interface Block {
  until: number
  /** When the next token may be looked up. */
  firstAt: number
  againAt: number
}

const blocks = new LruCache<string, Block>({ maxWeight: 10_000 })

/** Tokens that were refused without a look-up, by hash, and when. Whoever guesses has no reason to send one again. */
const refused = new LruCache<string, number>({ maxWeight: 10_000, ttlMs: BLOCK_MS })

/** @returns how many milliseconds later it may send the next token */
export function blockNetwork(network: string, now: number): number {
  const firstAt = now + LOOK_UP_EVERY_MS
  blocks.set(network, { until: now + BLOCK_MS, firstAt, againAt: blocks.get(network)?.againAt ?? now })
  return LOOK_UP_EVERY_MS
}

/**
 * How many milliseconds a token that this isolate does not know must wait until it may be looked up; 0 takes the place.
 * So a valid token behind a blocked network gets through when it comes back, and is known from then on.
 */
export function lookUpDelay(network: string, tokenHash: string, now: number): number {
  const block = blocks.get(network)
  if (!block || now >= block.until) return 0
  const refusedAt = refused.get(tokenHash, now)
  const place = refusedAt !== undefined && now >= refusedAt + LOOK_UP_EVERY_MS ? 'againAt' : 'firstAt'
  const delay = block[place] - now
  if (delay > 0) {
    if (refusedAt === undefined) refused.set(tokenHash, now, now)
    return delay
  }
  block[place] = now + LOOK_UP_EVERY_MS
  refused.delete(tokenHash)
  return 0
}
