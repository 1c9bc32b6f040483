import type { Env } from '../../env.ts'
import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import type { ApiError } from '../http/errors.ts'
import { log, nameOf } from '../http/errors.ts'
import { rateLimited } from './refusals.ts'

/** A network is blocked this long after too many unknown tokens: the window of the `AUTH_FAILURES` binding. */
const BLOCK_MS = 60_000

/** A blocked network may have one token looked up in this time. */
const LOOKUP_INTERVAL_MS = 1_000

const blocks = new LruCache<string, { until: number; nextAt: number }>({ maxWeight: 10_000 })

/** When tokens were refused without a look-up, by hash. */
const refusedAt = new LruCache<string, number>({ maxWeight: 10_000, ttlMs: BLOCK_MS })

/** @returns how many milliseconds later a token may be sent again */
export function blockNetwork(network: string, now: number): number {
  blocks.set(network, { until: now + BLOCK_MS, nextAt: blocks.get(network)?.nextAt ?? now })
  return LOOKUP_INTERVAL_MS
}

/**
 * The milliseconds until a token that this isolate does not know may be looked up; 0 uses up its network's turn. A blocked
 * network's token is looked up when it is retried, which a caller who guesses has no reason to do.
 */
export function delayLookup(network: string, tokenHash: string, now: number): number {
  const block = blocks.get(network)
  if (!block || now >= block.until) return 0
  const firstAt = refusedAt.get(tokenHash, now)
  if (firstAt === undefined) {
    refusedAt.set(tokenHash, now, now)
    return blockNetwork(network, now)
  }
  const delay = Math.max(firstAt + LOOKUP_INTERVAL_MS, block.nextAt) - now
  if (delay > 0) return delay
  block.nextAt = now + LOOKUP_INTERVAL_MS
  refusedAt.delete(tokenHash)
  return 0
}

/** The 429 of an unknown token whose network sent too many; null for the first ones. */
export async function refuseUnknown(env: Env, network: string, requestId: string, now: number) {
  return (await countFailure(env, network, requestId)) ? null : tooManyUnknown(blockNetwork(network, now))
}

export function tooManyUnknown(delayMs: number): ApiError {
  return rateLimited(Math.ceil(delayMs / 1000), 'Too many unknown tokens from this network')
}

/** Counts a failure in the caller's network. @returns whether it is within the limit, also where the limiter itself fails */
export async function countFailure({ AUTH_FAILURES }: Env, network: string, requestId: string): Promise<boolean> {
  const count = async () => (await AUTH_FAILURES.limit({ key: network })).success
  return withDeadline(count(), BUDGET_MS.limiter).catch((error: unknown) => {
    log('auth_limiter_failed', { request_id: requestId, reason: nameOf(error) })
    return true
  })
}
