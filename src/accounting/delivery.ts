import { DurableObject } from 'cloudflare:workers'
import { type Database, databaseFor } from '../db/client.ts'
import type { Env } from '../env.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { log } from '../http/log.ts'
import { type Connection, openConnection, versionOf } from './connection.ts'
import { deliverNext } from './deliver-order.ts'
import { type IntegrationRow, loadQueue, loadStanding, type Standing } from './queries.ts'
import { getOpenTime, getRetryDelay } from './wake-time.ts'

/** One run looks at so many orders and begins none after so long; then it goes on in a run of its own. */
const ORDERS_PER_RUN = 20
const RUN_MS = 60_000

/** More than the stale tries of one notice, and little enough that other orders come in between. */
const STEPS_PER_ORDER = 8

/** Runs in a row that failed, and when the next may begin. */
interface Retry {
  failures: number
  at: number
}

/**
 * Tells the accounting system of one company what its orders became; the object's name is the company's id.
 *
 * Being the only one is what keeps the order of an invoice's changes and refreshes tokens once. Everything that must
 * survive is in the company's database; the object has only its alarm, the company's id and how its last runs failed.
 */
export class AccountingDelivery extends DurableObject<Env> {
  private connection: Connection | null = null

  /** Begins as soon as possible, after the run that is under way, but not before a failed run is to be repeated. */
  async start(companyId: number): Promise<void> {
    this.ctx.storage.kv.put('company', companyId)
    await this.wakeAt(Math.max(Date.now(), this.ctx.storage.kv.get<Retry>('retry')?.at ?? 0))
  }

  /** Never throws: a run that failed is followed by another, later after each that fails. */
  override async alarm(): Promise<void> {
    const { kv } = this.ctx.storage
    const companyId = kv.get<number>('company')
    if (companyId === undefined) return
    const failures = kv.get<Retry>('retry')?.failures ?? 0
    let at: number | null
    try {
      at = await this.run(companyId)
      if (failures > 0) kv.delete('retry')
    } catch (error) {
      log('accounting_failed', { company_id: companyId, error: error instanceof Error ? error.name : typeof error })
      at = Date.now() + getRetryDelay(failures + 1)
      kv.put<Retry>('retry', { failures: failures + 1, at })
    }
    if (at !== null) await this.wakeAt(at)
  }

  /** @returns when there is more to do; null when nothing is, as long as nobody calls */
  private async run(companyId: number): Promise<number | null> {
    const endMs = Date.now() + RUN_MS
    const db = databaseFor(this.env.DB, companyId)
    const standing = await loadStanding(db, companyId)
    const { integration } = standing
    const openAt = getOpenTime(standing)
    if (!integration || openAt === null) return null
    if (openAt > Date.now()) return openAt
    const { orderIds, nextAttemptAt } = await loadQueue(db, companyId, Date.now(), ORDERS_PER_RUN)
    if (orderIds.length === 0) return nextAttemptAt

    const connection = await this.open(integration, standing)
    if (!connection) return null
    const delivery = {
      db,
      companyId,
      connection,
      integrationVersion: integration.updated_at,
      nowMs: () => Date.now(),
      random: () => Math.random(),
    }
    orders: for (const orderId of orderIds) {
      for (let step = 0; step < STEPS_PER_ORDER && Date.now() < endMs; step++) {
        const result = await deliverNext(delivery, orderId)
        if (result === 'halt') break orders
        if (result === 'idle') break
      }
    }
    return this.findNext(db, companyId)
  }

  private async findNext(db: Database, companyId: number): Promise<number | null> {
    const openAt = getOpenTime(await loadStanding(db, companyId))
    if (openAt === null || openAt > Date.now()) return openAt
    const { orderIds, nextAttemptAt } = await loadQueue(db, companyId, Date.now(), 1)
    return orderIds.length > 0 ? Date.now() : nextAttemptAt
  }

  /** The connection of before, unless the integration was changed: it may hold tokens that are not stored yet. */
  private async open(integration: IntegrationRow, { connection }: Standing): Promise<Connection | null> {
    if (this.connection?.version !== versionOf(integration)) {
      const { DB, CREDENTIALS_KEY } = this.env
      const db = databaseFor(DB, integration.company_id)
      this.connection = await openConnection(db, CREDENTIALS_KEY, integration, connection)
    }
    return this.connection
  }

  private async wakeAt(at: number): Promise<void> {
    const planned = await this.ctx.storage.getAlarm()
    if (planned === null || at < planned) await this.ctx.storage.setAlarm(at)
  }
}

/** Has the company's notices delivered soon. A call that is lost is made up for by the sweep. */
export async function startDelivery(env: Pick<Env, 'ACCOUNTING_DELIVERY'>, companyId: number): Promise<void> {
  try {
    const { ACCOUNTING_DELIVERY: objects } = env
    await withDeadline(objects.get(objects.idFromName(String(companyId))).start(companyId), BUDGET_MS.afterwards)
  } catch (error) {
    log('accounting_wake_failed', { company_id: companyId, error: error instanceof Error ? error.name : typeof error })
  }
}
