import type { Database } from '../db/client.ts'
import { log } from '../http/log.ts'
import { type Notice, planOrder, type Remote } from './collapse.ts'
import type { Connection } from './connection.ts'
import { classify, decide, isOurInvoice, type Operation } from './decisions.ts'
import {
  buildCreateCall,
  buildRemoveCall,
  buildUpdateCall,
  describeDifference,
  type InvoiceCall,
  type InvoiceKey,
} from './invoice-payload.ts'
import { toInvoiceSource } from './invoice-source.ts'
import {
  DONE,
  dropNotices,
  type Effects,
  type InvoiceRows,
  type LinkRow,
  loadOrder,
  type NoticeRow,
  recordStep,
} from './queries.ts'
import { AccountingError } from './transport.ts'
import { formatDocNumber, toDisplayName } from './wire-text.ts'

/** One order's delivery: where to, and the outside of what is decided. */
export interface Delivery {
  db: Database
  companyId: number
  connection: Connection
  /** `updated_at` of the integration, for the case that it cannot go on. */
  integrationVersion: number
  nowMs: () => number
  /** 0 (inclusive) to 1 (exclusive). */
  random: () => number
}

/** `again`: there may be more to tell of this order; `idle`: not now; `halt`: nothing of this company. */
export type StepResult = 'again' | 'idle' | 'halt'

const CLEARED = { request_id: null, request_body: null } as const
const OWN_FAILURE = 'The delivery failed in this service.'

/**
 * Makes the next call of an order, if one is due, and stores what came of it.
 *
 * The call is stored before it is made, and everything that its answer changes is stored at once: whatever breaks in
 * between, the next step repeats the same call under the same request id.
 *
 * @throws when the database fails
 */
export async function deliverNext(delivery: Delivery, orderId: number): Promise<StepResult> {
  const { db, companyId, nowMs } = delivery
  const { notices, link, rows } = await loadOrder(db, companyId, orderId, nowMs())
  const { next, dropped } = planOrder(notices.flatMap(toNotice), getRemote(link))
  if (dropped.length > 0) await dropNotices(db, companyId, dropped, nowMs())
  const notice = notices.find((row) => row.id === next?.id)
  if (!next || !notice || notice.next_attempt_at > nowMs()) return 'idle'
  return new Step(delivery, notice, link, rows, next.operation).run()
}

/** One try of one notice. */
class Step {
  private readonly delivery: Delivery
  /** As it is stored now. */
  private notice: NoticeRow
  private readonly link: LinkRow | null
  private readonly rows: InvoiceRows | null
  private operation: Operation

  constructor(
    delivery: Delivery,
    notice: NoticeRow,
    link: LinkRow | null,
    rows: InvoiceRows | null,
    operation: Operation,
  ) {
    this.delivery = delivery
    this.notice = notice
    this.link = link
    this.rows = rows
    this.operation = operation
  }

  async run(): Promise<StepResult> {
    try {
      if (this.notice.state !== 'sent' && !(await this.freeze())) return 'again'
      await this.send()
      return 'again'
    } catch (error) {
      return this.recover(error, this.operation)
    }
  }

  /** Fixes what will be sent; false when there is nothing to tell. */
  private async freeze(): Promise<boolean> {
    const made = await this.makeCall(this.operation)
    if (!made) {
      await this.record({ notice: DONE })
      return false
    }
    const { call, ...known } = made
    this.operation = toOperation(call)
    const notice = {
      state: 'sent',
      operation: this.operation,
      request_id: crypto.randomUUID(),
      request_body: JSON.stringify(call),
    } as const
    await this.record({ ...known, notice })
    this.notice = { ...this.notice, ...notice }
    return true
  }

  private async makeCall(operation: Operation): Promise<(Omit<Effects, 'notice'> & { call: InvoiceCall }) | null> {
    const { adapter, itemId, taxCodeId, deleteMode } = this.delivery.connection
    let key = toKey(this.link)
    if (key && this.notice.stale_attempts > 0) {
      const { Id, SyncToken } = await adapter.readInvoice(key.Id)
      key = { Id, SyncToken }
    }
    if (key && operation === 'delete') return { call: buildRemoveCall(key, deleteMode) }
    if (!this.rows) return null

    const source = toInvoiceSource(this.rows)
    const { id: clientId, accounting_customer_id: accountingCustomerId } = this.rows.client
    const customerId = accountingCustomerId ?? (await this.findCustomer(this.rows))
    const customer = accountingCustomerId === null ? { clientId, customerId } : undefined
    if (!key && this.link) {
      const wanted = { DocNumber: formatDocNumber(source.number), TxnDate: source.created_date }
      key = await this.findOurs({ ...wanted, CustomerRef: { value: this.link.customer_id ?? customerId } })
      if (key && operation === 'delete') return { call: buildRemoveCall(key, deleteMode), customer, link: toLink(key) }
      if (!key && operation === 'delete') return null
    }
    const references = { customerId, itemId, taxCodeId }
    if (key) {
      const call = buildUpdateCall(source, references, key)
      return { call, customer, link: { ...toLink(key), customer_id: customerId } }
    }
    const call = buildCreateCall(source, references)
    return { call, customer, link: { external_id: null, sync_token: null, customer_id: customerId } }
  }

  private async send(): Promise<void> {
    const call: InvoiceCall = JSON.parse(this.notice.request_body ?? '')
    const sent = await this.delivery.connection.adapter.sendInvoice(call, this.notice.request_id ?? '')
    if (!('expected' in call)) return this.record({ notice: DONE, link: null })
    const lastError = describeDifference(sent, call.expected)
    if (lastError === null) {
      return this.record({ notice: DONE, link: { ...toLink(sent), synced_at: this.delivery.nowMs() } })
    }
    // The invoice is there: it is linked, so that the next change of the order corrects it.
    const attempts = this.notice.attempts + 1
    await this.record({ notice: { ...CLEARED, state: 'parked', attempts, last_error: lastError }, link: toLink(sent) })
  }

  /** Does what the table says for a call that failed. */
  private async recover(error: unknown, operation: Operation): Promise<StepResult> {
    const { delivery, notice } = this
    if (!(error instanceof AccountingError)) return this.recoverFromOurs(error)
    const failure = classify(error.failure)
    const attempts = notice.attempts + 1
    const staleAttempts = notice.stale_attempts + Number(failure === 'stale')
    const lastError = error.message
    const situation = { operation, attempts, staleAttempts }
    const decision = decide(failure, { ...situation, nowMs: delivery.nowMs(), random: delivery.random() })
    switch (decision.action) {
      case 'done':
        await this.record({ notice: DONE, link: null })
        return 'again'
      case 'retry':
        await this.record({ notice: { attempts, next_attempt_at: decision.atMs, last_error: lastError } })
        return 'idle'
      case 'pause_company':
        await this.record({
          notice: { last_error: lastError },
          connection: { paused_until: decision.untilMs, reason: lastError },
        })
        return 'halt'
      case 'stop_company':
        await this.record({
          notice: { last_error: lastError },
          connection: { stopped_for: delivery.integrationVersion, reason: lastError },
        })
        return 'halt'
      case 'merge':
        await this.record({
          notice: { ...CLEARED, state: 'pending', attempts: 0, stale_attempts: staleAttempts, last_error: lastError },
        })
        return 'again'
      case 'adopt':
        return this.adopt(error)
      case 'park':
      case 'dead':
        await this.giveUp(decision.action === 'park' ? 'parked' : 'dead', error)
        return 'again'
    }
  }

  /** The number is taken: by the invoice of a create whose answer never came, or by another. */
  private async adopt(duplicate: AccountingError): Promise<StepResult> {
    try {
      const call: InvoiceCall = JSON.parse(this.notice.request_body ?? '')
      const key = call.operation === 'create' ? await this.findOurs(call.body) : null
      if (key) {
        const notice = { ...CLEARED, state: 'pending', attempts: 0, last_error: duplicate.message } as const
        await this.record({ notice, link: toLink(key) })
      } else {
        await this.giveUp('parked', duplicate)
      }
      return 'again'
    } catch (error) {
      // As an update: whatever this answer is, it is not another number that is taken.
      return this.recover(error, 'update')
    }
  }

  private async giveUp(state: 'parked' | 'dead', error: AccountingError): Promise<void> {
    const attempts = this.notice.attempts + 1
    const notice = { ...CLEARED, state, attempts, last_error: error.message }
    // The customer may be gone there: it is looked for again when this is sent again.
    const isUnknownReference = error.failure.kind === 'answered' && error.failure.codes.includes('2500')
    const clientId = isUnknownReference ? this.rows?.client.id : undefined
    await this.record({ notice, customer: clientId === undefined ? undefined : { clientId, customerId: null } })
  }

  /** A fault of ours must not be repeated for ever, nor keep the other orders waiting. */
  private async recoverFromOurs(error: unknown): Promise<StepResult> {
    const { companyId, nowMs, random } = this.delivery
    const { order_id: orderId, id } = this.notice
    log('accounting_failed', { company_id: companyId, order_id: orderId, notice_id: id, error: nameOf(error) })
    const attempts = this.notice.attempts + 1
    const situation = { operation: 'update', attempts, staleAttempts: 0 } as const
    const decision = decide('transient', { ...situation, nowMs: nowMs(), random: random() })
    const notice =
      decision.action === 'retry' ? { next_attempt_at: decision.atMs } : { ...CLEARED, state: 'dead' as const }
    await this.record({ notice: { ...notice, attempts, last_error: OWN_FAILURE } })
    return 'idle'
  }

  private findCustomer({ client }: InvoiceRows): Promise<string> {
    const displayName = toDisplayName(client.company_name) || `Client ${client.id}`
    const customer = { displayName, email: client.email }
    return this.delivery.connection.adapter.findOrCreateCustomer(customer, crypto.randomUUID())
  }

  private async findOurs(wanted: Parameters<typeof isOurInvoice>[1]): Promise<InvoiceKey | null> {
    const found = await this.delivery.connection.adapter.findInvoices(wanted.DocNumber ?? '')
    const ours = found.find((invoice) => isOurInvoice(invoice, wanted))
    return ours ? { Id: ours.Id, SyncToken: ours.SyncToken } : null
  }

  private record(effects: Effects): Promise<void> {
    const { db, companyId, nowMs } = this.delivery
    return recordStep(db, companyId, this.notice, effects, nowMs())
  }
}

function getRemote(link: LinkRow | null): Remote {
  if (!link) return 'absent'
  return link.external_id === null ? 'unknown' : 'linked'
}

function toNotice({ id, operation, state }: NoticeRow): Notice[] {
  return state === 'done' ? [] : [{ id, operation, state }]
}

function toOperation({ operation }: InvoiceCall): Operation {
  return operation === 'void' ? 'delete' : operation
}

function toKey(link: LinkRow | null): InvoiceKey | null {
  return link?.external_id && link.sync_token !== null ? { Id: link.external_id, SyncToken: link.sync_token } : null
}

function toLink({ Id, SyncToken }: InvoiceKey) {
  return { external_id: Id, sync_token: SyncToken }
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error
}
