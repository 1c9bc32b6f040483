// Isolates share no memory: each writes its own count of slow statements to the cache, and the sweep adds them up.

const PERIOD_MS = 300_000
/** KV accepts one write of a key a second. Counts after an isolate's last write of a period are lost. */
const WRITE_EVERY_MS = 5_000
const LIFETIME_SECONDS = 1_800

/** The count of this isolate in the present period. */
let own = { period: 0, count: 0, writtenAt: 0 }
let isolate = ''

/** Adds to the count of this isolate. Never rejects. */
export async function countSlow(cache: KVNamespace, count: number, now: number): Promise<void> {
  const period = Math.floor(now / PERIOD_MS)
  if (own.period !== period) own = { period, count: 0, writtenAt: 0 }
  own.count += count
  if (now < own.writtenAt + WRITE_EVERY_MS) return
  own.writtenAt = now
  isolate ||= crypto.randomUUID()
  const options = { metadata: { count: own.count }, expirationTtl: LIFETIME_SECONDS }
  await cache.put(`${prefixOf(period)}${isolate}`, '', options).catch(() => undefined)
}

/** Reads the slow statements of all isolates in the period before the last: KV may show a write a minute late. */
export async function readSlow(cache: KVNamespace, now: number): Promise<number> {
  const prefix = prefixOf(Math.floor(now / PERIOD_MS) - 2)
  const { keys } = await cache.list<{ count: number }>({ prefix })
  return keys.reduce((sum, { metadata }) => sum + (metadata?.count ?? 0), 0)
}

const prefixOf = (period: number) => `slow/${period}/`
