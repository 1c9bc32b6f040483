import type { Env } from '../../env.ts'
import { bindingOf, databaseNames } from '../../kernel/db/placement.ts'
import { readGauges } from '../../kernel/db/sweep.ts'
import { log, nameOf } from '../../kernel/http/errors.ts'

type Gauges = Awaited<ReturnType<typeof readGauges>>

/** Logs one line on the state of the responding databases, for alerts to compare with limits. Never rejects. */
export async function logGauges(env: Env, now: number): Promise<void> {
  const readEach = databaseNames(env).map(async (database): Promise<Gauges[]> => {
    try {
      return [await readGauges(bindingOf(env, database), now)]
    } catch (error) {
      log('gauge_failed', { database, error: nameOf(error) }, 'error')
      return []
    }
  })
  try {
    const [slow, ...each] = await Promise.all([readSlow(env.CACHE, now), ...readEach])
    const [first, ...others] = each.flat()
    if (first) log('gauge', { ...others.reduce(combine, first), slow_statements: slow, databases: others.length + 1 })
  } catch (error) {
    log('gauge_failed', { error: nameOf(error) }, 'error')
  }
}

/** Adds counts, and takes the maximum of the oldest event's age and of the size. */
function combine(one: Gauges, other: Gauges): Gauges {
  const isGreatest = (name: string) => name === 'oldest_pending_seconds' || name === 'database_bytes'
  const entries = Object.entries(one).map(([name, value]) => {
    const next = other[name as keyof Gauges]
    return [name, isGreatest(name) ? Math.max(value, next) : value + next]
  })
  return Object.fromEntries(entries) as Gauges
}

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
