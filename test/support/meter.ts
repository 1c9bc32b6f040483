import type { Env } from '../../src/env.ts'
import { wrapBindings } from './wrap-bindings.ts'

const NONE = { rowsRead: 0, rowsWritten: 0, objectCalls: 0, cacheReads: 0, cacheWrites: 0 }

/** What requests cost at the bindings. */
export type Usage = typeof NONE

/** The same bindings, and what was used of them since the last `take`. */
export function meterBindings(bindings: Env): { env: Env; take: () => Usage } {
  let usage = { ...NONE }
  const metered = wrapBindings(bindings, async (name, work) => {
    if (/^(RATE_LIMITER|ACCOUNTING_DELIVERY)\./.test(name)) usage.objectCalls++
    if (name === 'CACHE.put' || name === 'CACHE.delete') usage.cacheWrites++
    else if (name.startsWith('CACHE.')) usage.cacheReads++
    const result = await work()
    for (const each of [result].flat()) {
      const meta = metaOf(each)
      usage.rowsRead += meta?.rows_read ?? 0
      usage.rowsWritten += meta?.rows_written ?? 0
      // A statement that a busy machine makes slow is counted and reported: further calls, no part of the cost.
      if (meta) meta.duration = 0
    }
    return result
  })
  const take = () => {
    const taken = usage
    usage = { ...NONE }
    return taken
  }
  return { env: metered, take }
}

function metaOf(result: unknown): Partial<D1Meta> | undefined {
  if (typeof result !== 'object' || result === null || !('meta' in result)) return undefined
  return result.meta as D1Meta
}
