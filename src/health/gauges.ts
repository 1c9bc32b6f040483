import { bindingOf, databaseNames } from '../db/placement.ts'
import { readGauges } from '../db/sweep.ts'
import type { Env } from '../env.ts'
import { log, nameOf } from '../http/log.ts'
import { readSlow } from './slow-statements.ts'

type Gauges = Awaited<ReturnType<typeof readGauges>>

/** Logs one line of the state of the whole deployment: what alerts compare with a limit. Never rejects. */
export async function logGauges(env: Env, now: number): Promise<void> {
  try {
    const names = databaseNames(env)
    const [slow, ...each] = await Promise.all([
      readSlow(env.CACHE, now),
      ...names.map((name) => readGauges(bindingOf(env, name), now)),
    ])
    log('gauge', { ...each.reduce(combine), slow_statements: slow, databases: names.length })
  } catch (error) {
    log('gauge_failed', { error: nameOf(error) }, 'error')
  }
}

/** Counts are added up; of the oldest event and of the size the greatest is what matters. */
function combine(one: Gauges, other: Gauges): Gauges {
  const isGreatest = (name: string) => name === 'oldest_pending_seconds' || name === 'database_bytes'
  const entries = Object.entries(one).map(([name, value]) => {
    const next = other[name as keyof Gauges]
    return [name, isGreatest(name) ? Math.max(value, next) : value + next]
  })
  return Object.fromEntries(entries) as Gauges
}
