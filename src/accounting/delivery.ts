import { DurableObject } from 'cloudflare:workers'
import { databaseFor } from '../db/client.ts'
import type { Env } from '../env.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { log } from '../http/log.ts'
import { type Connection, openConnection, versionOf } from './connection.ts'
import { deliverNext } from './deliver-order.ts'
import { loadQueue, type Queue } from './queries.ts'
import { getWakeTime } from './wake-time.ts'

/** One run looks at so many orders and begins none after so long; then it goes on in a run of its own. */
const ORDERS_PER_RUN = 20
const RUN_MS = 60_000

/** More than the stale tries of one notice, and little enough that other orders come in between. */
const STEPS_PER_ORDER = 8

/** After a failure of the database, say. */
const RECOVER_MS = 30_000

/**
 * Tells the accounting system of one company what its orders became; the object's name is the company's id.
 *
 * Being the only one is what keeps the order of an invoice's changes and refreshes tokens once. Everything that must
 * survive is in the company's database; the object has only its alarm and the company's id.
 */
export class AccountingDelivery extends DurableObject<Env> {
  private connection: Connection | null = null

  /** Begins as soon as possible, after the run that is under way. */
  async wake(companyId: number): Promise<void> {
    this.ctx.storage.kv.put('company', companyId)
    await this.wakeAt(Date.now())
  }

  /** Never throws: a run that failed is followed by another. */
  override async alarm(): Promise<void> {
    const companyId = this.ctx.storage.kv.get<number>('company')
    if (companyId === undefined) return
    let at: number | null
    try {
      at = await this.run(companyId)
    } catch (error) {
      log('accounting_failed', { company_id: companyId, error: error instanceof Error ? error.name : typeof error })
      at = Date.now() + RECOVER_MS
    }
    if (at !== null) await this.wakeAt(at)
  }

  /** @returns when there is more to do; null when nothing is, as long as nobody calls */
  private async run(companyId: number): Promise<number | null> {
    const endMs = Date.now() + RUN_MS
    const db = databaseFor(this.env.DB, companyId)
    const queue = await loadQueue(db, companyId, Date.now(), ORDERS_PER_RUN)
    const { integration } = queue
    const at = getWakeTime(queue, Date.now())
    if (!integration || at === null || at > Date.now()) return at

    const connection = await this.open(queue)
    if (!connection) return null
    const delivery = {
      db,
      companyId,
      connection,
      integrationVersion: integration.updatedAt,
      nowMs: () => Date.now(),
      random: () => Math.random(),
    }
    orders: for (const orderId of queue.orderIds) {
      for (let step = 0; step < STEPS_PER_ORDER && Date.now() < endMs; step++) {
        const result = await deliverNext(delivery, orderId)
        if (result === 'halt') break orders
        if (result === 'idle') break
      }
    }
    const now = Date.now()
    return getWakeTime(await loadQueue(db, companyId, now, 1), now)
  }

  /** The connection of before, unless the integration was changed: it may hold tokens that are not stored yet. */
  private async open(queue: Queue): Promise<Connection | null> {
    const { integration, connection } = queue
    if (!integration) return null
    if (this.connection?.version !== versionOf(integration)) {
      const { DB, CREDENTIALS_KEY } = this.env
      const db = databaseFor(DB, integration.companyId)
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
export async function wakeDelivery(env: Pick<Env, 'ACCOUNTING_DELIVERY'>, companyId: number): Promise<void> {
  try {
    const { ACCOUNTING_DELIVERY: objects } = env
    await withDeadline(objects.get(objects.idFromName(String(companyId))).wake(companyId), BUDGET_MS.afterwards)
  } catch (error) {
    log('accounting_wake_failed', { company_id: companyId, error: error instanceof Error ? error.name : typeof error })
  }
}
