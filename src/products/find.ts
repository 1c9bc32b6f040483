import type { RequestContext } from '../context.ts'
import { withDeadline } from '../http/deadline.ts'
import { cacheKey, type Entry, freshnessOf, readEntry, recentEntry } from './cache.ts'
import { hasFewCalls } from './health.ts'
import type { Lookup } from './lookups.ts'
import type { IntegrationRow } from './queries.ts'
import { callOnce, healthOf } from './supplier-calls.ts'
import type { SupplierErrorReason } from './suppliers/supplier.ts'

export type Found<Item> =
  | { state: 'ok' | 'stale'; items: Item[] }
  | { state: 'failed'; items: []; reason: SupplierErrorReason }

/** A lookup whose cache is being read. */
export interface Started<Item> {
  lookup: Lookup<Item>
  cached: Promise<{ key: string; entry: Entry<Item> | null }>
}

/** Reads the cache, beside whatever else the request waits for: the key needs nothing of the database. */
export function startLookup<Item>(context: RequestContext, lookup: Lookup<Item>): Started<Item> {
  const read = async () => {
    const key = await cacheKey(context.companyId, lookup.supplier, lookup.name)
    return { key, entry: await readEntry<Item>(context.cache, key) }
  }
  return { lookup, cached: read() }
}

/**
 * The cached answer where it is fresh or stale, a stale one being refreshed behind the answer; else the supplier's.
 *
 * @param row the company's integration; `unknown` while the database fails: then only the cache is asked
 * @param options.until when the caller waits no longer, in milliseconds since the epoch
 * @param options.sparing leaves the last calls of the minute to others
 */
export async function finishLookup<Item>(
  context: RequestContext,
  { lookup, cached }: Started<Item>,
  row: IntegrationRow | 'unknown',
  options: { until: number; sparing: boolean },
): Promise<Found<Item>> {
  const { key, entry: read } = await cached
  // A call that was under way while the cache was read may have ended since.
  const entry = recentEntry<Item>(key) ?? read
  const now = Date.now()
  if (entry && (row === 'unknown' || entry.account === row.updatedAt)) {
    const { items, fetchedAt } = entry
    const freshness = freshnessOf(fetchedAt, lookup.lifetimeOf(items), now)
    if (freshness === 'fresh' && row !== 'unknown') return { state: 'ok', items }
    if (freshness !== 'gone') {
      const spares = row === 'unknown' || (options.sparing && hasFewCalls(healthOf(context.companyId, row), now))
      if (!spares) callOnce(context, lookup, key, row)
      return { state: 'stale', items }
    }
  }
  if (row === 'unknown') return failed('supplier_unavailable')

  const call = callOnce(context, lookup, key, row)
  if (!call) return failed(healthOf(context.companyId, row).reason)
  try {
    const outcome = await withDeadline(call, Math.max(0, options.until - now))
    return 'entry' in outcome ? { state: 'ok', items: outcome.entry.items } : failed(outcome.error.reason)
  } catch {
    return failed('supplier_unavailable')
  }
}

function failed(reason: SupplierErrorReason): Found<never> {
  return { state: 'failed', items: [], reason }
}
