import { LruCache } from '../http/cache.ts'

/** How much one measurement changes a mean. */
const ADAPTATION = 0.3

/** A mean that follows its latest values; undefined before the first one. */
export function updateMean(mean: number | undefined, value: number): number {
  return mean === undefined ? value : mean + (value - mean) * ADAPTATION
}

/** Where a batch ran: `region` is undefined in local databases. */
export interface Place {
  isPrimary: boolean | undefined
  region: string | undefined
}

/** Round trips in milliseconds: to the primary, and to whichever instance serves a read that any may serve. */
interface Distance {
  primaryMs?: number
  nearestMs?: number
}

const distances = new LruCache<string, Distance>({ maxWeight: 1_000 })

/** @param mayBeNearest whether the batch was not bound to the primary; @param networkMs without the database's own time */
export function recordDistance(database: string, place: Place, mayBeNearest: boolean, networkMs: number): void {
  if (place.region === undefined) return
  const distance = distances.get(database) ?? {}
  if (place.isPrimary) distance.primaryMs = updateMean(distance.primaryMs, networkMs)
  if (mayBeNearest) distance.nearestMs = updateMean(distance.nearestMs, networkMs)
  distances.set(database, distance)
}

/**
 * Whether a read of the primary that begins beside the call of the token's object ends no later than a read of the nearest
 * instance behind that call. False while any of the three was not measured by this isolate.
 */
export function isPrimaryNear(database: string, gateMs: number | undefined): boolean {
  const { primaryMs, nearestMs } = distances.get(database) ?? {}
  if (primaryMs === undefined || nearestMs === undefined || gateMs === undefined) return false
  return primaryMs <= gateMs + nearestMs
}
