import { DurableObject } from 'cloudflare:workers'
import { type CompanyContext, databaseFor } from '../db/client.ts'
import { listDueCompanies, optimizeDaily, removeExpiredRows } from '../db/sweep.ts'
import type { Env } from '../env.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { log, nameOf } from '../http/log.ts'
import { type Connection, openConnection } from './connection.ts'
import { deliverNext } from './deliver-order.ts'
import { loadCompanyState, loadQueue } from './queries.ts'

/** One run delivers at most so many orders and starts no step after so long; a run of its own continues. */
const ORDERS_PER_RUN = 20
const RUN_MS = 60_000
/** More than the stale attempts of one event, and few enough that other orders come in between. */
const STEPS_PER_ORDER = 8

/** A failed run is repeated after 30 s, doubled for each failure in a row. */
const FIRST_RETRY_MS = 30_000
const MAX_RETRY_MS = 3_600_000

/** How many runs in a row failed, and when the next may start. */
type Retry = { failures: number; at: number }

/**
 * Delivers one company's events to its accounting system; the object's name is the company's id. Being the only one, it
 * delivers the changes of an invoice in order and refreshes tokens once. It stores only its alarm, the company's id and
 * how its last runs failed: all else is in the company's database.
 */
export class AccountingDelivery extends DurableObject<Env> {
  private connection: Connection | null = null

  /** Schedules a run as soon as possible: after the present one, and not before a failed run is to be repeated. */
  async start(companyId: number): Promise<void> {
    this.ctx.storage.kv.put('company', companyId)
    await this.schedule(Math.max(Date.now(), this.ctx.storage.kv.get<Retry>('retry')?.at ?? 0))
  }

  /** Never throws: a failed run is repeated with a backoff. */
  override async alarm(): Promise<void> {
    const { kv } = this.ctx.storage
    const companyId = kv.get<number>('company')
    if (companyId === undefined) return
    const failures = kv.get<Retry>('retry')?.failures ?? 0
    let at: number | null
    try {
      at = await this.run({ companyId, db: databaseFor(this.env.DB, companyId) })
      if (failures > 0) kv.delete('retry')
    } catch (error) {
      log('accounting_failed', { company_id: companyId, error: nameOf(error) })
      at = Date.now() + Math.min(FIRST_RETRY_MS * 2 ** failures, MAX_RETRY_MS)
      kv.put<Retry>('retry', { failures: failures + 1, at })
    }
    if (at !== null) await this.schedule(at)
  }

  /** @returns when to run again; null for not before {@link start} */
  private async run(context: CompanyContext): Promise<number | null> {
    const endMs = Date.now() + RUN_MS
    const { integration, connectionRow, orderIds, at } = await findDue(context, ORDERS_PER_RUN)
    if (!integration || orderIds.length === 0) return at
    // Reused unless the integration was changed: it may hold tokens that are not stored yet.
    if (this.connection?.version !== integration.updated_at) {
      this.connection = await openConnection(context, this.env.CREDENTIALS_KEY, integration, connectionRow)
    }
    if (!this.connection) return null

    const delivery = { ...context, connection: this.connection }
    orders: for (const orderId of orderIds) {
      for (let step = 0; step < STEPS_PER_ORDER && Date.now() < endMs; step++) {
        const result = await deliverNext(delivery, orderId)
        if (result === 'halt') break orders
        if (result === 'idle') break
      }
    }
    return (await findDue(context, 1)).at
  }

  private async schedule(at: number): Promise<void> {
    const planned = await this.ctx.storage.getAlarm()
    if (planned === null || at < planned) await this.ctx.storage.setAlarm(at)
  }
}

/** At most `limit` orders to deliver now, and when to look again (null: not before the company is changed). */
async function findDue(context: CompanyContext, limit: number) {
  const { isSuspended, ...state } = await loadCompanyState(context)
  const { integration, connectionRow } = state
  const isStopped = isSuspended || !integration || connectionRow?.stopped_for === integration.updated_at
  if (isStopped) return { ...state, orderIds: [], at: null }
  const pausedUntil = connectionRow?.paused_until ?? 0
  if (pausedUntil > Date.now()) return { ...state, orderIds: [], at: pausedUntil }
  const { orderIds, nextAttemptAt } = await loadQueue(context, Date.now(), limit)
  return { ...state, orderIds, at: orderIds.length > 0 ? Date.now() : nextAttemptAt }
}

/** Starts the delivery of the company's events. A call that is lost is repeated by the sweep. */
export async function startDelivery(env: Pick<Env, 'ACCOUNTING_DELIVERY'>, companyId: number): Promise<void> {
  try {
    const { ACCOUNTING_DELIVERY: objects } = env
    await withDeadline(objects.get(objects.idFromName(String(companyId))).start(companyId), BUDGET_MS.afterwards)
  } catch (error) {
    log('accounting_start_failed', { company_id: companyId, error: nameOf(error) })
  }
}

/** What the cron trigger runs: starts overdue deliveries, removes expired rows and renews statistics. */
export async function sweep(env: Env, nowMs: number): Promise<void> {
  const companyIds = await listDueCompanies(env.DB, nowMs)
  await Promise.all(companyIds.map((companyId) => startDelivery(env, companyId)))
  await removeExpiredRows(env.DB, nowMs)
  await optimizeDaily(env.DB, nowMs)
  log('sweep', { started: companyIds.length })
}
