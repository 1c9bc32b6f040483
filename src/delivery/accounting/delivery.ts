import type { Env } from '../../env.ts'
import { openDatabase } from '../../kernel/db/client.ts'
import { CompanyObject, startObject } from '../../kernel/db/company-object.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { forEachDatabase, openCompany } from '../../kernel/db/placement.ts'
import { recountDaily } from '../../kernel/db/quota.ts'
import { listDueCompanies, optimizeDaily, removeExpiredRows } from '../../kernel/db/sweep.ts'
import { addressPolicy } from '../../kernel/http/address.ts'
import { log, nameOf } from '../../kernel/http/log.ts'
import { type Connection, openConnection } from './connection.ts'
import { deliverNext } from './deliver-order.ts'
import { type ConnectionRow, type IntegrationRow, loadCompanyState, loadQueue } from './queries.ts'
import { AccountingError } from './transport.ts'

declare global {
  namespace Cloudflare {
    interface Env {
      ACCOUNTING_DELIVERY: DurableObjectNamespace<AccountingDelivery>
    }
  }
}

/** Limits the orders and the time of one run; the next run continues. */
const ORDERS_PER_RUN = 20
const RUN_MS = 60_000
/** This exceeds the stale attempts of one event, but lets other orders come in between. */
const STEPS_PER_ORDER = 8

/**
 * Delivers one company's events to its accounting system. A single object keeps the changes of an invoice in order and
 * refreshes tokens once.
 */
export class AccountingDelivery extends CompanyObject {
  protected override readonly name = 'accounting'
  private connection: Connection | null = null
  private context: CompanyContext | null = null

  protected override async run(context: CompanyContext): Promise<number | null> {
    const endMs = Date.now() + RUN_MS
    const { integration, connectionRow, orderIds, at } = await findDue(context, ORDERS_PER_RUN)
    if (!integration || orderIds.length === 0) return at
    const connection = await this.openOnce(context, integration, connectionRow)
    if (!connection) return null

    const delivery = { ...context, connection }
    orders: for (const orderId of orderIds) {
      for (let step = 0; step < STEPS_PER_ORDER && Date.now() < endMs; step++) {
        const result = await deliverNext(delivery, orderId)
        if (result === 'halt') break orders
        if (result === 'idle') break
      }
    }
    return (await findDue(context, 1)).at
  }

  /** Checks the credentials by one call that changes nothing. */
  async check(companyId: number): Promise<{ ok: boolean; message: string }> {
    const context = await openCompany(this.env, companyId)
    const { integration, connectionRow } = await loadCompanyState(context)
    if (!integration) return { ok: false, message: 'The integration is disabled.' }
    const connection = await this.openOnce(context, integration, connectionRow)
    if (!connection) return { ok: false, message: 'The stored credentials cannot be read: save them again.' }
    try {
      await connection.adapter.findInvoices('connection-test')
      return { ok: true, message: 'The accounting system accepts the credentials.' }
    } catch (error) {
      if (!(error instanceof AccountingError)) throw error
      return { ok: false, message: error.message }
    }
  }

  /** Finds the highest number up to `ceiling` among the newest invoices in the company's accounting system. */
  async findLastNumber(companyId: number, ceiling: number): Promise<number | 'none' | 'failed'> {
    try {
      const context = await openCompany(this.env, companyId)
      const { integration, connectionRow } = await loadCompanyState(context)
      if (!integration) return 'none'
      const connection = await this.openOnce(context, integration, connectionRow)
      return connection ? await connection.adapter.findLastNumber(ceiling) : 'failed'
    } catch (error) {
      log('accounting_number_unread', { company_id: companyId, error: nameOf(error) }, 'error')
      return 'failed'
    }
  }

  /** Reuses the connection until the integration changes, since it may hold unsaved tokens. */
  private async openOnce(context: CompanyContext, integration: IntegrationRow, row: ConnectionRow | null) {
    this.context = context
    if (this.connection?.version !== integration.updated_at) {
      const settings = { keys: this.env.CREDENTIALS_KEY, addresses: addressPolicy(this.env) }
      const latest = () => this.context ?? context
      this.connection = await openConnection(context, latest, settings, integration, row)
    }
    return this.connection
  }
}

/** Finds at most `limit` orders to deliver now, and the next time to look (null: after the company's next change). */
async function findDue(context: CompanyContext, limit: number) {
  const { mayDeliver, ...state } = await loadCompanyState(context)
  const { integration, connectionRow } = state
  const isStopped = !mayDeliver || !integration || connectionRow?.stopped_for === integration.updated_at
  if (isStopped) return { ...state, orderIds: [], at: null }
  const pausedUntil = connectionRow?.paused_until ?? 0
  if (pausedUntil > Date.now()) return { ...state, orderIds: [], at: pausedUntil }
  const { orderIds, nextAttemptAt } = await loadQueue(context, Date.now(), limit)
  return { ...state, orderIds, at: orderIds.length > 0 ? Date.now() : nextAttemptAt }
}

/** Starts the delivery of the company's events. @param region of the company's database, if known */
export function startDelivery(
  env: Pick<Env, 'ACCOUNTING_DELIVERY'>,
  companyId: number,
  region?: string,
): Promise<void> {
  return startObject(env.ACCOUNTING_DELIVERY, companyId, 'accounting', region)
}

/** Runs with the cron trigger: starts overdue deliveries, removes expired rows and renews statistics. */
export async function sweep(env: Env, nowMs: number): Promise<void> {
  let started = 0
  await forEachDatabase(env, async (binding) => {
    const db = openDatabase(binding)
    const companyIds = await listDueCompanies(db, nowMs)
    await Promise.all(companyIds.map((companyId) => startDelivery(env, companyId, db.primaryRegion())))
    started += companyIds.length
    await removeExpiredRows(binding, nowMs)
    await recountDaily(db, nowMs)
    await optimizeDaily(binding, nowMs)
  })
  log('sweep', { started })
}
