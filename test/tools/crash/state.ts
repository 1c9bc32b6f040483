import { isoDate } from '../../../src/kernel/api/contract.ts'
import type { Answer } from '../harness/http.ts'
import type { AuditRow, ChangeRow, ClientRow, EventRow, InvoiceRow, OrderRow, ThreadRow } from './rows.ts'

export interface ClientFields {
  company_name?: string
  first_name?: string | null
  email?: string
  phone?: string
  external_id?: string | null
  deleted?: boolean
}

export interface OrderFields {
  title?: string
  client_id?: number
  description?: string
  client_notes?: string
  deadline?: string
  status_id?: number
  external_id?: string | null
}

export interface ThreadName {
  accountEmail: string
  legacyThreadId: string
}

/** One change, named as the audit names it; an update that deletes a client is audited as its deletion. */
export type Action =
  | { kind: 'client.create'; fields: ClientFields & { company_name: string } }
  | { kind: 'client.update'; id: number; fields: ClientFields }
  | { kind: 'order.create'; fields: OrderFields & { title: string; client_id: number } }
  | { kind: 'order.update'; id: number; fields: OrderFields }
  | { kind: 'order.delete'; id: number }
  | { kind: 'email_thread.write'; thread: ThreadName; bytes: number }

/**
 * A write that was sent, and what came of it: `acknowledged` with its response; `refused` because the order was deleted
 * before; `unknown` when the service was killed before the response was there.
 */
export interface Write {
  requestId: string
  action: Action
  outcome: 'acknowledged' | 'refused' | 'unknown'
  response: Answer['body']
}

const SHOWN_AS = { client: 'client', order: 'project', email_thread: 'email_thread' } as const

/** The id of what a write has made or changed, by its response. */
export function idIn({ action, response }: Write): unknown {
  const [noun] = action.kind.split('.') as [keyof typeof SHOWN_AS]
  return response?.[SHOWN_AS[noun]]?.id
}

export function nameOf({ accountEmail, legacyThreadId }: ThreadName): string {
  return `${accountEmail} ${legacyThreadId}`
}

/** The rows of one company, as its tables hold them or as they should. */
export interface CompanyState {
  clients: Map<number, ClientRow>
  orders: Map<number, OrderRow>
  /** By order. */
  invoices: Map<number, InvoiceRow>
  /** By {@link nameOf}. */
  threads: Map<string, ThreadRow>
  events: EventRow[]
  changes: ChangeRow[]
  last: { clients: number; orders: number; invoices: number; number: number; change: number }
  defaultStatusId: number
}

/** Applies an audited write to a state: all of its changes at once, with the next ids. */
export function apply(state: CompanyState, action: Action, { request_id, entity_id, at }: AuditRow): void {
  switch (action.kind) {
    case 'client.create':
      createClient(state, action.fields, at)
      break
    case 'client.update':
      change(state, 'clients', action.id, clientColumns(action.fields), at)
      break
    case 'order.create':
      createOrder(state, action.fields, at)
      break
    case 'order.update':
      change(state, 'orders', action.id, orderColumns(action.fields), at)
      changeInvoice(state, action.id, given({ due_date: action.fields.deadline }), at)
      recordEvent(state, action.id, 'update', at)
      break
    case 'order.delete':
      change(state, 'orders', action.id, { deleted: 1 }, at)
      changeInvoice(state, action.id, { deleted: 1 }, at)
      recordEvent(state, action.id, 'delete', at)
      break
    case 'email_thread.write': {
      const name = nameOf(action.thread)
      const before = state.threads.get(name)
      const revision = (before?.revision ?? 0) + 1
      state.threads.set(name, { id: entity_id, mark: request_id, bytes: action.bytes, revision, updated_at: at })
      const row = { id: entity_id, version: revision, deleted: 0 }
      recordChange(state, 'email_threads', row, before?.updated_at ?? null)
    }
  }
}

/** The id that the audit entry of a write must have; a new thread's id is known only from the audit. */
export function entityOf(state: CompanyState, action: Action): string | undefined {
  if (action.kind === 'client.create') return String(state.last.clients)
  if (action.kind === 'order.create') return String(state.last.orders)
  if (action.kind === 'email_thread.write') return state.threads.get(nameOf(action.thread))?.id
  return String(action.id)
}

/** Each change of a client or order raises its version by 1, whatever it sets. */
function change(state: CompanyState, type: 'clients' | 'orders', id: number, columns: object, at: number): void {
  const row = state[type].get(id)
  if (!row) return
  const before = { ...row }
  Object.assign(row, columns, { version: row.version + 1, updated_at: at })
  recordChange(state, type, row, before.updated_at)
  const [old_status_id, new_status_id] = [before, row].map(statusOf)
  const last = state.changes.at(-1)
  if (!last || old_status_id === new_status_id) return
  const entry = { ...last, sequence: ++state.last.change, operation: 'status_changed' }
  state.changes.push({ ...entry, old_status_id: old_status_id ?? null, new_status_id: new_status_id ?? null })
}

const statusOf = (row: ClientRow | OrderRow) => ('order_status_id' in row ? row.order_status_id : null)

/** @param before the row's `updated_at` before the change, null of a created one */
function recordChange(
  state: CompanyState,
  type: ChangeRow['type'],
  { id, version, deleted }: { id: number | string; version: number; deleted: number },
  before: number | null,
): void {
  state.changes.push({
    sequence: ++state.last.change,
    type,
    entity_id: String(id),
    operation: deleted ? 'delete' : before === null ? 'create' : 'update',
    version,
    previous_updated_at: before,
    old_status_id: null,
    new_status_id: null,
  })
}

/** An invoice changes only when the request has a field of it. */
function changeInvoice(state: CompanyState, orderId: number, columns: object, at: number): void {
  if (Object.keys(columns).length > 0) Object.assign(state.invoices.get(orderId) ?? {}, columns, { updated_at: at })
}

function createClient(state: CompanyState, fields: ClientFields & { company_name: string }, at: number): void {
  const id = ++state.last.clients
  const none = { first_name: null, last_name: null, email: null, website: null, phone: null, tax_exempt_reason: null }
  const row = {
    ...{ id, company_name: fields.company_name, ...none, external_id: null },
    ...{ accounting_sync_enabled: 0, tax_exempt: 0, deleted: 0, version: 1 },
    ...clientColumns(fields),
    ...{ created_at: at, updated_at: at },
  }
  state.clients.set(id, row)
  recordChange(state, 'clients', row, null)
}

function createOrder(
  state: CompanyState,
  fields: OrderFields & { title: string; client_id: number },
  at: number,
): void {
  const id = ++state.last.orders
  const client = state.clients.get(fields.client_id)
  const none = { description: null, start_date: null, deadline: null, client_notes: null, external_id: null }
  const row = {
    ...{ id, title: fields.title, client_id: fields.client_id, ...none },
    ...{ order_status_id: state.defaultStatusId, version: 1 },
    ...orderColumns(fields),
    ...{ created_date: isoDate(at), created_at: at, updated_at: at, deleted: 0 },
  }
  state.orders.set(id, row)
  recordChange(state, 'orders', row, null)
  state.invoices.set(id, {
    id: ++state.last.invoices,
    project_id: id,
    number: String(++state.last.number),
    ...{ due_date: fields.deadline ?? null, tax_id: null },
    ...{ tax_exempt: client?.tax_exempt ?? 0, tax_exempt_reason: client?.tax_exempt_reason ?? null },
    ...{ discount_hundredths: 0, discount_amount_type: 'percentage', discount_type: 'before_tax' },
    ...{ deleted: 0, created_at: at, updated_at: at },
  })
  recordEvent(state, id, 'create', at)
}

/** The company has accounting enabled. */
function recordEvent(state: CompanyState, order_id: number, operation: string, created_at: number): void {
  state.events.push({ order_id, operation, created_at })
}

function clientColumns({ deleted, ...fields }: ClientFields) {
  return { ...fields, ...(deleted !== undefined && { deleted: Number(deleted) }) }
}

function orderColumns({ title, client_id, description, client_notes, deadline, status_id, external_id }: OrderFields) {
  return given({ title, client_id, description, client_notes, deadline, order_status_id: status_id, external_id })
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

function given<T extends object>(fields: T): Given<T>
function given(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
