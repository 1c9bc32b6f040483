import { Buffer } from 'node:buffer'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { log, nameOf } from '../../kernel/http/isolate.ts'
import type { AccountingAdapter, AccountingSettings } from './adapter.ts'
import { decide, type FailureClass, isOurInvoice, type Operation, type OutboxRow, planOrder } from './decisions.ts'
import * as payload from './invoice-payload.ts'
import { DONE, dropEvents, type LinkRow, listLinked, loadOrder, recordStep, type StepChanges } from './queries.ts'
import { AccountingError } from './transport.ts'

export interface Delivery extends CompanyContext {
  /** `updated_at` of the integration when the connection was opened. */
  version: number
  adapter: AccountingAdapter
  settings: AccountingSettings
}

/** `again`: the order may have more to deliver; `idle`: not now; `halt`: nothing of this company can be delivered. */
export type StepResult = 'again' | 'idle' | 'halt'

interface Step {
  delivery: Delivery
  event: OutboxRow
  link: LinkRow | null
  source: payload.InvoiceSource | null
  operation: Operation
  findFirst: boolean
}

/** A value of D1 has at most 2,000,000 bytes. */
const MAX_REQUEST_BYTES = 1_900_000
const TOO_LARGE = 'The order has too many lines for the accounting system: enter its invoice there by hand.'

const NO_REQUEST = { request_id: null, request_body: null } as const

/**
 * Makes the next due call of an order and stores its outcome. The call is stored first, and its result in one batch:
 * after any failure in between, the next step repeats the call under the same request id. Throws when the database
 * fails.
 */
export async function deliverNext(delivery: Delivery, orderId: number): Promise<StepResult> {
  const { events, link, source, version } = await loadOrder(delivery, orderId, Date.now())
  // Changed, disabled, suspended or paused since the run began: the next run begins with what holds then.
  if (version !== delivery.version) return 'halt'
  const isRemoved = link?.external_id === null && link.customer_id === null && link.synced_at !== null
  const invoice = !link || isRemoved ? 'absent' : link.external_id ? 'linked' : 'unknown'
  const { next, dropped } = planOrder(events, invoice, source?.project.deleted)
  if (dropped.length > 0) await dropEvents(delivery, dropped, Date.now())
  const event = events.find((row) => row.id === next?.id)
  if (!next || !event || event.next_attempt_at > Date.now()) return 'idle'
  const step = { delivery, event, link, source, operation: next.operation, findFirst: next.findFirst }
  try {
    if (event.state === 'sent' || (await prepareCall(step))) await send(step)
    return 'again'
  } catch (error) {
    return recover(step, error)
  }
}

/** Stores the call to send; false if nothing is left to deliver. */
async function prepareCall(step: Step): Promise<boolean> {
  const built = await buildCall(step)
  if (!built) {
    await record(step, { event: DONE })
    return false
  }
  const { call, ...changes } = built
  step.operation = call.operation === 'void' ? 'delete' : call.operation
  const request = { request_id: crypto.randomUUID(), request_body: JSON.stringify(call) }
  if (Buffer.byteLength(request.request_body) > MAX_REQUEST_BYTES) throw new AccountingError('data', TOO_LARGE)
  const event = { state: 'sent', operation: step.operation, ...request } as const
  await record(step, { ...changes, event })
  step.event = { ...step.event, ...event }
  return true
}

async function buildCall(step: Step): Promise<(Omit<StepChanges, 'event'> & { call: payload.InvoiceCall }) | null> {
  const { delivery, event, link, source, operation, findFirst } = step
  const { adapter } = delivery
  const { item_id: itemId, tax_code_id: taxCodeId, delete_mode: deleteMode } = delivery.settings
  const { external_id: Id, sync_token: SyncToken } = link ?? {}
  let key: payload.InvoiceKey | null = Id && SyncToken != null ? { Id, SyncToken } : null
  if (key && event.stale_attempts > 0) key = await adapter.readInvoice(key.Id)
  if (key && operation === 'delete') return { call: payload.buildRemoveCall(key, deleteMode) }
  if (!source) return null

  const { id: clientId, company_name, email, accounting_customer_id: known } = source.client
  const displayName = payload.toDisplayName(company_name) || `Client ${clientId}`
  const requestId = operation === 'delete' ? null : crypto.randomUUID()
  const customerId = known ?? ((await adapter.findOrCreateCustomer(displayName, email, requestId)) || link?.customer_id)
  if (!customerId) return null
  const customer = known === null ? { clientId, customerId } : undefined
  if (findFirst) {
    const DocNumber = payload.formatDocNumber(source.invoice.number)
    const CustomerRef = { value: link?.customer_id ?? customerId }
    const wanted = { DocNumber, TxnDate: source.project.created_date, CustomerRef }
    const found = (await adapter.findInvoices(DocNumber)).filter((invoice) => isOurInvoice(invoice, wanted))
    // Orders whose numbers differ here may have the same one there.
    const taken = found.length > 0 ? await listLinked(delivery, event.order_id, found) : []
    key = found.find(({ Id }) => !taken.includes(Id)) ?? null
    if (operation === 'delete') return key && { call: payload.buildRemoveCall(key, deleteMode), link: toLink(key) }
  }
  const references = { customerId, itemId, taxCodeId }
  const call = key ? payload.buildUpdateCall(source, references, key) : payload.buildCreateCall(source, references)
  const ids = key ? toLink(key) : { external_id: null, sync_token: null }
  return { call, customer, link: { ...ids, customer_id: customerId } }
}

async function send(step: Step): Promise<void> {
  const { delivery, event } = step
  const call: payload.InvoiceCall = JSON.parse(event.request_body ?? '')
  const sent = await delivery.adapter.sendInvoice(call, event.request_id ?? '')
  if (!('expected' in call)) return record(step, { event: DONE, link: removedLink() })
  const last_error = payload.describeDifference(sent, call.expected)
  if (last_error === null) return record(step, { event: DONE, link: { ...toLink(sent), synced_at: Date.now() } })
  // The invoice exists: link it, so that the order's next change corrects it.
  const attempts = event.attempts + 1
  await record(step, { event: { ...NO_REQUEST, state: 'parked', attempts, last_error }, link: toLink(sent) })
  logState(step, 'parked', 'difference', attempts)
}

async function recover(step: Step, error: unknown): Promise<StepResult> {
  const { event, operation } = step
  if (!(error instanceof AccountingError)) {
    const { company_id, order_id, id: event_id } = event
    log('accounting_failed', { company_id, order_id, event_id, error: nameOf(error) })
    return recover(step, new AccountingError('transient', 'The delivery failed in this service.'))
  }
  const { failure, message: last_error, codes } = error
  const attempts = event.attempts + 1
  const stale_attempts = event.stale_attempts + Number(failure === 'stale' || failure === 'duplicate')
  const situation = { operation, attempts, staleAttempts: stale_attempts, nowMs: Date.now(), random: Math.random() }
  const decision = decide(failure, situation)
  const halt = async (state: string, connection: StepChanges['connection']) => {
    await record(step, { event: { last_error }, connection: { ...connection, reason: last_error } })
    logState(step, state, failure, attempts)
    return 'halt' as const
  }
  switch (decision.action) {
    case 'done':
      await record(step, { event: DONE, link: removedLink() })
      return 'again'
    case 'retry':
      await record(step, { event: { attempts, next_attempt_at: decision.atMs, last_error } })
      return 'idle'
    case 'pause_company':
      return halt('company_paused', { paused_until: decision.untilMs })
    case 'stop_company':
      return halt(failure === 'grant_lost' ? 'consent_lost' : 'company_stopped', { stopped_for: step.delivery.version })
    case 'merge':
      await record(step, { event: { ...NO_REQUEST, state: 'pending', attempts: 0, stale_attempts, last_error } })
      return 'again'
  }
  const state = decision.action === 'dead' ? 'dead' : 'parked'
  // If the customer is gone there, it is looked up by the client's name at the next attempt.
  const client = codes.includes('2500') ? step.source?.client : undefined
  const known = client?.accounting_customer_id
  const isGone = known && !(await step.delivery.adapter.findCustomer(known, 'Id').catch(() => known))
  const customer = client && isGone ? { clientId: client.id, customerId: null } : undefined
  await record(step, { event: { ...NO_REQUEST, state, attempts, last_error }, customer })
  logState(step, state, failure, attempts)
  return 'again'
}

/** Logs a stored change on which a person may have to act. It omits the error, which may hold values. */
function logState({ event }: Step, state: string, cause: FailureClass | 'difference', attempts: number): void {
  const { company_id, order_id, id: event_id } = event
  log('outbox', { state, cause, company_id, order_id, event_id, attempts })
}

function record({ delivery, event }: Step, changes: StepChanges): Promise<void> {
  return recordStep(delivery, event, changes, Date.now())
}

/** The link of an invoice that was voided or deleted: its time says that the accounting system has accepted that. */
function removedLink() {
  return { external_id: null, sync_token: null, customer_id: null, synced_at: Date.now() }
}

function toLink({ Id, SyncToken }: payload.InvoiceKey) {
  return { external_id: Id, sync_token: SyncToken }
}
