import { isoDate, isoTime } from '../../../src/http/contract.ts'
import { type Action, type ClientFields, nameOf, type OrderFields } from './journal.ts'

/** Rows as the tables hold them: SQLite has no booleans. */
export interface ClientRow {
  id: number
  company_name: string
  first_name: string | null
  last_name: string | null
  email: string | null
  website: string | null
  phone: string | null
  accounting_sync_enabled: number
  tax_exempt: number
  tax_exempt_reason: string | null
  deleted: number
  created_at: number
  updated_at: number
}

export interface OrderRow {
  id: number
  title: string
  client_id: number
  description: string | null
  start_date: string | null
  deadline: string | null
  order_status_id: number | null
  client_notes: string | null
  created_date: string
  created_at: number
  updated_at: number
  deleted: number
}

export interface InvoiceRow {
  id: number
  project_id: number
  number: string
  due_date: string | null
  tax_id: number | null
  tax_exempt: number
  tax_exempt_reason: string | null
  discount_hundredths: number
  discount_amount_type: string
  discount_type: string
  deleted: number
  created_at: number
  updated_at: number
}

/** A thread's last write, by its request id, and how many there were. */
export interface ThreadRow {
  id: string
  mark: string
  bytes: number
  revision: number
  updated_at: number
}

export interface EventRow {
  order_id: number
  operation: string
  created_at: number
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
  last: { clients: number; orders: number; invoices: number; number: number }
  defaultStatusId: number
}

/** The audit entry of a write. */
export interface AuditRow {
  request_id: string
  action: string
  entity_id: string
  at: number
}

/** Applies an audited write to a state: all of its changes at once, with the next ids. */
export function apply(state: CompanyState, action: Action, { request_id, entity_id, at }: AuditRow): void {
  switch (action.kind) {
    case 'client.create':
      createClient(state, action.fields, at)
      break
    case 'client.update':
      Object.assign(state.clients.get(action.id) ?? {}, clientColumns(action.fields), { updated_at: at })
      break
    case 'order.create':
      createOrder(state, action.fields, at)
      break
    case 'order.update':
      Object.assign(state.orders.get(action.id) ?? {}, orderColumns(action.fields), { updated_at: at })
      changeInvoice(state, action.id, invoiceColumns(action.fields), at)
      recordEvent(state, action.id, 'update', action.fields, at)
      break
    case 'order.delete':
      Object.assign(state.orders.get(action.id) ?? {}, { deleted: 1, updated_at: at })
      Object.assign(state.invoices.get(action.id) ?? {}, { deleted: 1, updated_at: at })
      recordEvent(state, action.id, 'delete', {}, at)
      break
    case 'email_thread.write': {
      const name = nameOf(action.thread)
      const revision = (state.threads.get(name)?.revision ?? 0) + 1
      state.threads.set(name, { id: entity_id, mark: request_id, bytes: action.bytes, revision, updated_at: at })
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

/** An invoice changes only when the request has a field of it. */
function changeInvoice(
  state: CompanyState,
  orderId: number,
  columns: ReturnType<typeof invoiceColumns>,
  at: number,
): void {
  if (Object.keys(columns).length > 0) Object.assign(state.invoices.get(orderId) ?? {}, columns, { updated_at: at })
}

function createClient(state: CompanyState, fields: ClientFields & { company_name: string }, at: number): void {
  const id = ++state.last.clients
  state.clients.set(id, {
    id,
    company_name: fields.company_name,
    first_name: null,
    last_name: null,
    email: null,
    website: null,
    phone: null,
    accounting_sync_enabled: 0,
    tax_exempt: 0,
    tax_exempt_reason: null,
    deleted: 0,
    ...clientColumns(fields),
    created_at: at,
    updated_at: at,
  })
}

function createOrder(
  state: CompanyState,
  fields: OrderFields & { title: string; client_id: number },
  at: number,
): void {
  const id = ++state.last.orders
  const client = state.clients.get(fields.client_id)
  state.orders.set(id, {
    id,
    title: fields.title,
    client_id: fields.client_id,
    description: null,
    start_date: null,
    deadline: null,
    order_status_id: state.defaultStatusId,
    client_notes: null,
    ...orderColumns(fields),
    created_date: isoDate(at),
    created_at: at,
    updated_at: at,
    deleted: 0,
  })
  state.invoices.set(id, {
    id: ++state.last.invoices,
    project_id: id,
    number: String(++state.last.number),
    due_date: null,
    tax_id: null,
    tax_exempt: client?.tax_exempt ?? 0,
    tax_exempt_reason: fields.tax_exempt === undefined ? (client?.tax_exempt_reason ?? null) : null,
    discount_hundredths: 0,
    discount_amount_type: 'percentage',
    discount_type: 'before_tax',
    deleted: 0,
    ...invoiceColumns(fields),
    created_at: at,
    updated_at: at,
  })
  recordEvent(state, id, 'create', fields, at)
}

/** The company has accounting enabled; a request can override it. */
function recordEvent(state: CompanyState, orderId: number, operation: string, fields: OrderFields, at: number): void {
  if (fields.accounting_sync_enabled ?? true) state.events.push({ order_id: orderId, operation, created_at: at })
}

function clientColumns({ deleted, ...fields }: ClientFields) {
  return { ...fields, ...(deleted !== undefined && { deleted: Number(deleted) }) }
}

function orderColumns({ title, client_id, description, client_notes, deadline, status_id }: OrderFields) {
  return given({ title, client_id, description, client_notes, deadline, order_status_id: status_id })
}

function invoiceColumns({ deadline, tax_exempt, discount_amount, discount_amount_type }: OrderFields) {
  return given({
    due_date: deadline,
    tax_exempt: tax_exempt === undefined ? undefined : Number(tax_exempt),
    discount_hundredths: discount_amount === undefined ? undefined : Math.round(discount_amount * 100),
    discount_amount_type,
  })
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

function given<T extends object>(fields: T): Given<T>
function given(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** A client as the API returns it. */
export function toClient(row: ClientRow) {
  return {
    ...row,
    accounting_sync_enabled: row.accounting_sync_enabled === 1,
    tax_exempt: row.tax_exempt === 1,
    deleted: row.deleted === 1,
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
  }
}

/** A project as the API returns it. */
export function toProject(row: OrderRow) {
  return {
    ...row,
    deleted: row.deleted === 1,
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
  }
}

/** An invoice as the API returns it, without its computed fields. */
export function toInvoice({ project_id, discount_hundredths, created_at: _, updated_at: __, ...row }: InvoiceRow) {
  return {
    ...row,
    project_id,
    discount_amount: discount_hundredths / 100,
    tax_exempt: row.tax_exempt === 1,
    deleted: row.deleted === 1,
  }
}
