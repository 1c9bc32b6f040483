import type { Env } from '../../env.ts'
import { bindingOf, databaseNames } from '../../kernel/db/placement.ts'
import { readGauges } from '../../kernel/db/sweep.ts'
import { log, nameOf } from '../../kernel/http/isolate.ts'

type Gauges = Awaited<ReturnType<typeof readGauges>>[number]

/** Logs one line on the state of the responding databases, for alerts to compare with limits. Never rejects. */
export async function logGauges(env: Env, now: number): Promise<void> {
  const readEach = databaseNames(env).map(async (database): Promise<Gauges[]> => {
    try {
      return await readGauges(bindingOf(env, database), now)
    } catch (error) {
      log('gauge_failed', { database, error: nameOf(error) }, 'error')
      return []
    }
  })
  const [first, ...others] = (await Promise.all(readEach)).flat()
  if (first) log('gauge', { ...others.reduce(combine, first), databases: others.length + 1 })
}

function combine(one: Gauges, other: Gauges): Gauges {
  const isGreatest = (name: string) => name === 'oldest_pending_seconds' || name === 'database_bytes'
  const entries = Object.entries(one).map(([name, value]) => {
    const next = other[name as keyof Gauges]
    return [name, isGreatest(name) ? Math.max(value, next) : value + next]
  })
  return Object.fromEntries(entries) as Gauges
}
