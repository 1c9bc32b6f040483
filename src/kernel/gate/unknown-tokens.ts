import type { Env } from '../../env.ts'
import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import type { ApiError } from '../http/errors.ts'
import { log, nameOf } from '../http/errors.ts'
import { rateLimited } from './refusals.ts'

/** A network with too many unknown tokens is blocked this long: the window of the `AUTH_FAILURES` binding. */
const BLOCK_MS = 60_000

/** A blocked network may look up one new token in this time, and one token that it retries. */
const LOOKUP_INTERVAL_MS = 1_000

/** With the times of the next look-ups: of a token not refused before, and of one that is retried after its wait. */
const blocks = new LruCache<string, { until: number; nextNewAt: number; nextRetryAt: number }>({ maxWeight: 10_000 })

/** When tokens were refused without a look-up, by hash. A caller who guesses has no reason to retry one. */
const refusedAt = new LruCache<string, number>({ maxWeight: 10_000, ttlMs: BLOCK_MS })

/** @returns how many milliseconds later the next token may be looked up */
export function blockNetwork(network: string, now: number): number {
  const nextRetryAt = blocks.get(network)?.nextRetryAt ?? now
  blocks.set(network, { until: now + BLOCK_MS, nextNewAt: now + LOOKUP_INTERVAL_MS, nextRetryAt })
  return LOOKUP_INTERVAL_MS
}

/**
 * The milliseconds until a token that this isolate does not know may be looked up; 0 uses up the turn of each of the
 * caller's networks. A valid token from a blocked network is accepted when it is retried, and known from then on.
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

/** The 429 of an unknown token whose networks sent too many; null for the first ones. */
export async function refuseUnknown(env: Env, networks: readonly string[], requestId: string, now: number) {
  const exceeding = await countFailure(env, networks, requestId)
  return exceeding.length > 0 ? tooManyUnknown(Math.max(...exceeding.map((each) => blockNetwork(each, now)))) : null
}

export function tooManyUnknown(delayMs: number): ApiError {
  return rateLimited(Math.ceil(delayMs / 1000), 'Too many unknown tokens from this network')
}

/** Counts a failure in the networks of a caller. @returns those over their limit; none where the limiter itself fails */
export async function countFailure(
  { AUTH_FAILURES, AUTH_FAILURES_WIDE }: Env,
  networks: readonly string[],
  requestId: string,
): Promise<string[]> {
  const count = async (key: string, index: number) => (index === 0 ? AUTH_FAILURES : AUTH_FAILURES_WIDE).limit({ key })
  const counts = networks.map(async (network, index) => {
    const { success } = await withDeadline(count(network, index), BUDGET_MS.limiter).catch((error: unknown) => {
      log('auth_limiter_failed', { request_id: requestId, reason: nameOf(error) })
      return { success: true }
    })
    return success ? [] : [network]
  })
  return (await Promise.all(counts)).flat()
}
