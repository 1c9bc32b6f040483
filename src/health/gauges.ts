import { readGauges } from '../db/sweep.ts'
import type { Env } from '../env.ts'
import { log, nameOf } from '../http/log.ts'
import { readSlow } from './slow-statements.ts'

/** Logs one line of the state of the whole deployment: what alerts compare with a limit. Never rejects. */
export async function logGauges(env: Env, now: number): Promise<void> {
  try {
    const [gauges, slow] = await Promise.all([readGauges(env.DB, now), readSlow(env.CACHE, now)])
    log('gauge', { ...gauges, slow_statements: slow })
  } catch (error) {
    log('gauge_failed', { error: nameOf(error) }, 'error')
  }
}
