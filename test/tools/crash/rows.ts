import type * as z from 'zod/mini'
import { isoTime } from '../../../src/kernel/api/contract.ts'
import type { client } from '../../../src/resources/clients/contract.ts'
import type { invoice, project } from '../../../src/resources/orders/shapes.ts'

/** Fields of the API as their table stores them: SQLite has no booleans, and times are milliseconds. */
type Stored<T> = { [K in keyof T]: K extends `${string}_at` ? number : T[K] extends boolean ? number : T[K] }

export type ClientRow = Stored<z.output<typeof client>>

export type OrderRow = Stored<z.output<typeof project>>

/** An invoice has its computed fields only in responses. */
export const TOTALS = ['subtotal', 'discount_total', 'tax_total', 'total', 'amount_paid', 'balance_due'] as const

type Invoice = Omit<z.output<typeof invoice>, (typeof TOTALS)[number] | 'discount_amount'>
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

/** A client as the API returns it. */
export function toClient(row: ClientRow | undefined) {
  return (
    row && {
      ...row,
      ...presentTimes(row),
      accounting_sync_enabled: row.accounting_sync_enabled === 1,
      tax_exempt: row.tax_exempt === 1,
    }
  )
}

/** A project as the API returns it. */
export const toProject = (row: OrderRow | undefined) => row && { ...row, ...presentTimes(row) }

const presentTimes = (row: Pick<ClientRow, 'created_at' | 'updated_at' | 'deleted'>) => ({
  deleted: row.deleted === 1,
  created_at: isoTime(row.created_at),
  updated_at: isoTime(row.updated_at),
})

/** An invoice as the API returns it, without its computed fields. */
export function toInvoice(row: InvoiceRow | undefined) {
  if (!row) return undefined
  const { discount_hundredths, created_at: _, updated_at: __, ...fields } = row
  const discount_amount = discount_hundredths / 100
  return { ...fields, discount_amount, tax_exempt: row.tax_exempt === 1, deleted: row.deleted === 1 }
}
