import { Buffer } from 'node:buffer'
import { isoDate } from '../../../kernel/api/contract.ts'
import * as schema from '../../../kernel/db/schema.ts'
import { digitsOf, fold, lineSearchTexts, searchText } from '../../../kernel/db/search.ts'
import { toHundredths } from '../../../resources/orders/totals.ts'
import type { SeedFile } from './file.ts'

const { catalogItems, invoices, orderStatuses, threadContexts } = schema

/**
 * Tables in the order of loading. Rows that only a file can change are replaced; other tables get only missing rows, so
 * that changes by the API stay.
 */
export const TABLES = {
  order_statuses: { table: orderStatuses, key: 'id', replaces: true, noun: 'status' },
  taxes: { table: schema.taxes, key: 'id', replaces: true, noun: 'tax' },
  clients: { table: schema.clients, key: 'id', replaces: false, noun: 'client' },
  orders: { table: schema.orders, key: 'id', replaces: false, noun: 'order' },
  invoices: { table: invoices, key: 'id', replaces: false, noun: 'invoice' },
  items: { table: schema.invoiceItems, key: 'id', replaces: false, noun: 'line' },
  payments: { table: schema.payments, key: 'id', replaces: false, noun: 'payment' },
  artworks: { table: schema.artworks, key: 'id', replaces: false, noun: 'artwork' },
  catalog_items: { table: catalogItems, key: 'id', replaces: true, noun: 'catalogue item' },
  thread_contexts: { table: threadContexts, key: 'thread_id', replaces: true, noun: 'thread context' },
  integrations: { table: schema.integrations, key: 'kind', replaces: true, noun: 'integration' },
} as const

export type Name = keyof typeof TABLES
export type Rows = { [N in Name]: (typeof TABLES)[N]['table']['$inferInsert'][] }
export const NAMES = Object.keys(TABLES) as Name[]

/** Columns with another name than the field of a file. */
export const COLUMN_OF: Record<string, string> = {
  unit_price: 'unit_price_cents',
  amount: 'amount_cents',
  price: 'price_cents',
  discount_amount: 'discount_hundredths',
  tax_code_id: 'accounting_tax_code_id',
}
/** Amounts with decimals, stored in hundredths. */
export const CENTS: ReadonlySet<string> = new Set(['unit_price', 'amount', 'price', 'discount_amount'])
/** Fields stored as JSON text. */
export const JSON_FIELDS: ReadonlySet<string> = new Set([
  ...['client_data', 'clients_data', 'orders_data', 'participant_emails', 'participants_data'],
  ...['placements', 'colors'],
])

/** Columns that refer to rows of another table. */
export const REFERENCES = [
  ['orders', 'client_id', 'clients'],
  ['orders', 'order_status_id', 'order_statuses'],
  ['invoices', 'tax_id', 'taxes'],
] as const

/** Ids of rows in other parts of the same file. */
export type KnownIds = Partial<Record<'clients' | 'order_statuses' | 'taxes', number[] | undefined>>

/**
 * Derives the rows of a file. An invoice without a number gets the next one after the company's and the file's highest.
 */
export function deriveRows(file: SeedFile, lastInvoiceNumber: number, now: number): Rows {
  const company_id = file.company.id
  const numbers = file.orders.flatMap(({ invoice }) => invoice?.number?.match(/^\d{1,15}$/) ?? []).map(Number)
  const floor = Math.max(lastInvoiceNumber, file.company.last_invoice_number ?? 0)
  let lastNumber = numbers.reduce((highest, number) => Math.max(highest, number), floor)
  const orders = file.orders.map((order) => {
    const created_at = order.created_at ?? (order.created_date === undefined ? now : Date.parse(order.created_date))
    const created_date = order.created_date ?? isoDate(created_at)
    const updated_at = order.updated_at ?? created_at
    const number = order.invoice && (order.invoice.number ?? String(++lastNumber))
    const keys = { title_key: fold(order.title), number_key: fold(number ?? '') }
    return { ...order, ...keys, number, company_id, created_date, created_at, updated_at }
  })
  const invoices = orders.flatMap(({ id: project_id, invoice, number, created_at, updated_at }) => {
    if (!invoice || !number) return []
    const discount_hundredths = toHundredths(invoice.discount_amount)
    const tax_id = invoice.tax_id || null
    const times = { created_at: invoice.created_at ?? created_at, updated_at: invoice.updated_at ?? updated_at }
    return { ...invoice, ...times, company_id, project_id, number, tax_id, discount_hundredths }
  })
  const items = invoices.flatMap(({ id: invoice_id, items }) => {
    const texts = lineSearchTexts(items)
    return numbered(items).map((item, index) => {
      const search_text = texts[index] ?? ''
      return { ...item, company_id, invoice_id, unit_price_cents: toHundredths(item.unit_price), search_text }
    })
  })
  const payments = invoices.flatMap(({ id: invoice_id, payments }) =>
    payments.map((payment) => ({ ...payment, company_id, invoice_id, amount_cents: toHundredths(payment.amount) })),
  )
  const artworks = orders.flatMap((order) =>
    order.artworks.map((each) => ({ ...each, company_id, project_id: order.id })),
  )
  const order_statuses = numbered(file.order_statuses).map((status) => ({ ...status, company_id }))
  const taxes = file.taxes.map((tax) => ({ ...tax, company_id, accounting_tax_code_id: tax.tax_code_id }))
  const clients = file.clients.map((client) => ({
    ...client,
    company_id,
    company_name_key: fold(client.company_name),
    first_name_key: orNull(fold, client.first_name),
    last_name_key: orNull(fold, client.last_name),
    email_key: orNull(fold, client.email),
    phone_key: orNull(fold, client.phone),
    phone_digits: digitsOf(client.phone ?? ''),
    accounting_customer_linked: client.accounting_customer_linked ?? client.accounting_customer_id !== null,
    created_at: client.created_at ?? now,
    updated_at: client.updated_at ?? client.created_at ?? now,
  }))
  const catalog_items = file.catalog_items.map((item) => {
    const search_text = searchText([item.title])
    return { ...item, company_id, price_cents: orNull(toHundredths, item.price), search_text }
  })
  const thread_contexts = file.thread_contexts.map((context) => ({
    ...context,
    company_id,
    client_data: orNull(JSON.stringify, context.client_data),
    clients_data: orNull(JSON.stringify, context.clients_data),
    orders_data: orNull(JSON.stringify, context.orders_data),
    participant_emails: orNull(JSON.stringify, context.participant_emails),
    participants_data: orNull(JSON.stringify, context.participants_data),
    fetched_at: context.fetched_at ?? now,
    updated_at: context.updated_at ?? now,
  }))
  const listed = { order_statuses, taxes, clients, catalog_items, thread_contexts, integrations: [] }
  return { ...listed, orders, invoices, items, payments, artworks }
}

/** Adds positions to the elements, by default their order in the list, from 1. */
export function numbered<T extends { position?: number | undefined }>(elements: T[] = []) {
  return elements.map((element, index) => ({ ...element, position: element.position ?? index + 1 }))
}

function orNull<T, U>(convert: (value: T) => U, value: T | null | undefined): U | null {
  return value === null || value === undefined ? null : convert(value)
}

/** Unique columns besides the ids. */
export const UNIQUE = [
  { name: 'invoices', field: 'number' },
  { name: 'clients', field: 'external_id' },
  { name: 'orders', field: 'external_id' },
] as const

/** Finds unique values that occur twice, and a second default status. */
export function findDuplicates(rows: Rows): string[] {
  const issues: string[] = []
  const keys = NAMES.map((name) => ({ name, field: TABLES[name].key as string }))
  for (const { name, field } of [...keys, ...UNIQUE]) {
    const seen = new Set<unknown>()
    for (const value of rows[name].map((row) => Reflect.get(row, field)).filter((each) => each !== null)) {
      if (seen.has(value)) issues.push(`\`${name}\` must not contain ${field} ${value} twice`)
      seen.add(value)
    }
  }
  const defaults = rows.order_statuses.filter((status) => status.is_default)
  if (defaults.length > 1) issues.push('`order_statuses` must contain only one with `is_default`')
  return issues
}

/** Limits the JSON of one statement, which also as hex stays under D1's 100 KB. */
const CHUNK_BYTES = 40_000

/** Splits JSON values into JSON arrays that each fit into one statement. */
export function chunkJson(values: Iterable<unknown>): string[] {
  const chunks: string[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const value of values) {
    const text = JSON.stringify(value)
    const size = Buffer.byteLength(text) + 1
    if (bytes + size > CHUNK_BYTES) {
      chunks.push([])
      bytes = 0
    }
    chunks.at(-1)?.push(text)
    bytes += size
  }
  return chunks.map((chunk) => `[${chunk.join(',')}]`)
}
