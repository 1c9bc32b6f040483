import type * as z from 'zod/mini'
import type { client } from '../../../src/resources/clients/contract.ts'
import type { invoice, project } from '../../../src/resources/orders/shapes.ts'

/** Fields of the API as their table stores them: SQLite has no booleans, and times are milliseconds. */
type Stored<T> = { [K in keyof T]: K extends `${string}_at` ? number : T[K] extends boolean ? number : T[K] }

export type ClientRow = Stored<z.output<typeof client>>

export type OrderRow = Stored<z.output<typeof project>>

/** An invoice has these only in responses. */
type Computed = 'subtotal' | 'discount_total' | 'tax_total' | 'total' | 'amount_paid' | 'balance_due'
type Invoice = Omit<z.output<typeof invoice>, Computed | 'discount_amount'>
export type InvoiceRow = Stored<Invoice> & Record<'discount_hundredths' | 'created_at' | 'updated_at', number>

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
