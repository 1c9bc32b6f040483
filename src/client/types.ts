/** The API's shapes, with the field names it uses on the wire. Written by hand so that integrators need this folder only. */

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

export interface Pagination {
  page: number
  per_page: number
  total: number
}

export interface Page<Item> {
  data: Item[]
  pagination: Pagination
}

export interface ClientFields {
  company_name: string
  first_name: string | null
  last_name: string | null
  email: string | null
  website: string | null
  phone: string | null
  accounting_sync_enabled: boolean
  tax_exempt: boolean
  tax_exempt_reason: string | null
}

export interface Client extends ClientFields {
  id: number
  deleted: boolean
  created_at: string
  updated_at: string
}

export type NewClient = Pick<ClientFields, 'company_name'> & Partial<ClientFields>
/** `deleted: true` hides the client from the list, `false` brings it back. */
export type ClientChanges = Partial<ClientFields & { deleted: boolean }>

export type DiscountAmountType = 'percentage' | 'fixed_amount'
export type DiscountType = 'before_tax' | 'after_tax'

export interface OrderFields {
  title: string
  client_id: number
  description: string | null
  /** `YYYY-MM-DD`. */
  start_date: string
  /** `YYYY-MM-DD`; also the due date of the invoice. */
  deadline: string
  status_id: number
  client_notes: string | null
  /** 0 or null: none. */
  tax_id: number | null
  tax_exempt: boolean
  tax_exempt_reason: string | null
  discount_amount: number
  discount_amount_type: DiscountAmountType | 'fixed' | 'amount'
  discount_type: DiscountType
  accounting_sync_enabled: boolean
}

export type NewOrder = Pick<OrderFields, 'title' | 'client_id'> & Partial<OrderFields>
export type OrderChanges = Partial<OrderFields>

export interface Project {
  id: number
  title: string
  client_id: number
  description: string | null
  start_date: string | null
  deadline: string | null
  order_status_id: number | null
  client_notes: string | null
  created_date: string
  created_at: string
  updated_at: string
  deleted: boolean
}

/** Amounts are in the company's currency, with at most 2 decimals. */
export interface Invoice {
  id: number
  project_id: number
  number: string
  due_date: string | null
  tax_id: number | null
  tax_exempt: boolean
  tax_exempt_reason: string | null
  discount_amount: number
  discount_amount_type: DiscountAmountType
  discount_type: DiscountType
  subtotal: number
  discount_total: number
  tax_total: number
  total: number
  amount_paid: number
  balance_due: number
  deleted: boolean
}

export interface InvoiceItem {
  id: number
  invoice_id: number
  title: string
  description: string | null
  quantity: number
  unit_price: number
  total: number
  taxable: boolean
  supplier: string | null
  style: string | null
  color: string | null
  size: string | null
  sku: string | null
  position: number
  deleted: boolean
}

export interface Payment {
  id: number
  invoice_id: number
  amount: number
  method: string | null
  paid_at: string | null
  note: string | null
}

export interface Tax {
  id: number
  name: string
  /** Percent. */
  rate: number
}

export interface OrderStatus {
  id: number
  title: string
  color: string | null
  workflow_key: string | null
  position: number
  is_default: boolean
}

export interface Artwork {
  id: number
  project_id: number
  name: string
  print_method: string | null
  placements: Json[]
  colors: Json[]
  preview_url: string | null
  status: string | null
}

export interface FullOrder {
  project: Project
  invoice: Invoice | null
  invoice_items: InvoiceItem[]
  payments: Payment[]
  client: Client
  tax: Tax | null
  order_status: OrderStatus | null
  artworks: Artwork[]
  /** How the order stands with the company's accounting system. */
  accounting: {
    status: 'not_synced' | 'pending' | 'synced' | 'parked' | 'dead'
    last_error: string | null
    synced_at: string | null
  }
}

export type OrderAnswer = Pick<FullOrder, 'project' | 'invoice'>

export type SearchSource = 'local' | 'supplier_b' | 'supplier_a' | 'lines'
export type SourceState = 'ok' | 'stale' | 'skipped' | 'not_configured' | 'failed'
export type Row = { [key: string]: Json }

export interface SupplierASummary {
  style: string
  title: string | null
  brand: string | null
  colors: string[]
  sizes: string[]
  price_min: number | null
  price_max: number | null
}

export interface ProductSearch {
  query: string
  local_items: Row[]
  supplier_b_styles: Row[]
  supplier_a: { style: string | null; products: Row[]; count: number; summary: SupplierASummary | null }
  invoice_lines: Row[]
  /** Tells "nothing found" from "failed", for each source. */
  sources: Record<SearchSource, SourceState>
}

export interface ProductQueries {
  supplier_a: { style: string; color?: string; size?: string }
  supplier_b: { sku: string } | { styleId: string }
  invoice_item: { id: number }
}

export interface ProductAnswers {
  supplier_a: { source: 'supplier_a'; products: Json; query: Json }
  supplier_b: { source: 'supplier_b'; products: Json; query: Json }
  invoice_item: { source: 'invoice_item'; item: InvoiceItem }
}
