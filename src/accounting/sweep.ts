import { listDueCompanies, optimizeDaily, trim } from '../db/sweep.ts'
import type { Env } from '../env.ts'
import { log } from '../http/log.ts'
import { startDelivery } from './delivery.ts'

/** What the cron trigger runs: starts deliveries that wait, removes old rows and renews statistics. */
export async function sweep(env: Env, nowMs: number): Promise<void> {
  const companyIds = await listDueCompanies(env.DB, nowMs)
  await Promise.all(companyIds.map((companyId) => startDelivery(env, companyId)))
  await trim(env.DB, nowMs)
  await optimizeDaily(env.DB, nowMs)
  log('sweep', { woken: companyIds.length })
}
