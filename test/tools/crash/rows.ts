import { isoTime } from '../../../src/kernel/api/contract.ts'

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
  external_id: string | null
  version: number
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
  external_id: string | null
  version: number
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

/** An entry of the feed of changes, without its time, which the database takes from its own clock. */
export interface ChangeRow {
  sequence: number
  type: 'clients' | 'orders' | 'email_threads'
  entity_id: string
  operation: string
  version: number
  previous_updated_at: number | null
  /** Of `status_changed` only. */
  old_status_id: number | null
  new_status_id: number | null
}

/** The audit entry of a write. */
export interface AuditRow {
  request_id: string
  action: string
  entity_id: string
  at: number
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
