import { isoDate } from '../../../kernel/api/contract.ts'
import { fold, searchText, withClientKeys, withSearchTexts } from '../../../kernel/db/columns.ts'
import * as schema from '../../../kernel/db/schema.ts'
import { NESTED } from '../../../resources/mail/context-input.ts'
import { toHundredths } from '../../../resources/orders/totals.ts'
import { bytesOf, splitBySize } from '../chunks.ts'
import type { SeedFile } from './file.ts'

/**
 * Tables in the order of loading. Rows that only a file can change are replaced; other tables get only missing rows, so
 * that changes by the API stay. Lines, payments and artworks come with their order: later they would be no change of it.
 * Tables that are not replaced have a column `own`, which tells a row of the file from another one with its id.
 */
export const TABLES = {
  order_statuses: { table: schema.orderStatuses, key: 'id', own: null, noun: 'status' },
  taxes: { table: schema.taxes, key: 'id', own: null, noun: 'tax' },
  clients: { table: schema.clients, key: 'id', own: 'created_at', noun: 'client' },
  orders: { table: schema.orders, key: 'id', own: 'created_at', noun: 'order' },
  invoices: { table: schema.invoices, key: 'id', own: 'project_id', noun: 'invoice' },
  items: { table: schema.invoiceItems, key: 'id', own: 'invoice_id', noun: 'line' },
  payments: { table: schema.payments, key: 'id', own: 'invoice_id', noun: 'payment' },
  artworks: { table: schema.artworks, key: 'id', own: 'project_id', noun: 'artwork' },
  catalog_items: { table: schema.catalogItems, key: 'id', own: null, noun: 'catalogue item' },
  thread_contexts: { table: schema.threadContexts, key: 'thread_id', own: null, noun: 'thread context' },
  integrations: { table: schema.integrations, key: 'kind', own: null, noun: 'integration' },
} as const

export type Name = keyof typeof TABLES
export type Rows = { [N in Name]: Omit<(typeof TABLES)[N]['table']['$inferInsert'], 'company_id'>[] }
export const NAMES = Object.keys(TABLES) as Name[]

/** Columns with another name than the field of a file. */
export const COLUMN_OF: Record<string, string> = {
  unit_price: 'unit_price_cents',
  amount: 'amount_cents',
  price: 'price_cents',
  discount_amount: 'discount_hundredths',
  tax_code_id: 'accounting_tax_code_id',
}
type ContextJson = Record<(typeof NESTED)[number], string | null>
/** Fields that are stored as JSON text. */
export const JSON_FIELDS: ReadonlySet<string> = new Set([...NESTED, 'placements', 'colors'])

export const REFERENCES = [
  ['orders', 'client_id', 'clients'],
  ['orders', 'order_status_id', 'order_statuses'],
  ['invoices', 'tax_id', 'taxes'],
] as const

/** The owners of the parts of an order, by the column that names them. */
export const OWNERS = { created_at: null, project_id: 'orders', invoice_id: 'invoices' } as const

/** Ids of rows in other parts of the same file. */
export type KnownIds = Partial<Record<(typeof REFERENCES)[number][2], number[] | undefined>>

/** An invoice without a number gets the next one after the company's and the file's highest. */
export function deriveRows(file: SeedFile, lastInvoiceNumber: number, now: number): Rows {
  let lastNumber = lastNumberOf(file.orders, Math.max(lastInvoiceNumber, file.company.last_invoice_number ?? 0))
  const orders = file.orders.map((order) => {
    const created_at = order.created_at ?? (order.created_date === undefined ? now : Date.parse(order.created_date))
    const { created_date = isoDate(created_at), updated_at = created_at } = order
    const number = order.invoice && (order.invoice.number ?? String(++lastNumber))
    const keys = { title_key: fold(order.title), number_key: fold(number ?? '') }
    return { ...order, ...keys, number, created_date, created_at, updated_at }
  })
  const invoices = orders.flatMap(({ id: project_id, invoice, number, ...order }) => {
    if (!invoice || !number) return []
    const { tax_id, created_at = order.created_at, updated_at = order.updated_at } = invoice
    const discount_hundredths = toHundredths(invoice.discount_amount)
    // Deleted with its order: see `isKept` of orders.
    const deletion = order.deleted &&
      !invoice.deleted && { deleted: true, updated_at: Math.max(updated_at, order.updated_at) }
    // Deleted before its order, whose deletion comes later.
    const alone = invoice.deleted && !order.deleted && { updated_at: Math.min(updated_at, now - 1) }
    const derived = { created_at, updated_at, ...deletion, ...alone, tax_id: tax_id || null, discount_hundredths }
    return { ...invoice, project_id, number, ...derived }
  })
  return {
    order_statuses: numbered(file.order_statuses),
    taxes: file.taxes.map((tax) => ({ ...tax, accounting_tax_code_id: tax.tax_code_id })),
    clients: file.clients.map(({ created_at = now, updated_at = created_at, ...client }) => {
      const accounting_customer_linked = client.accounting_customer_linked ?? client.accounting_customer_id !== null
      return { ...withClientKeys(client), accounting_customer_linked, created_at, updated_at }
    }),
    orders,
    invoices,
    items: invoices.flatMap(({ id: invoice_id, items }) =>
      withSearchTexts(numbered(items)).map((item) => {
        return { ...item, invoice_id, unit_price_cents: toHundredths(item.unit_price) }
      }),
    ),
    payments: invoices.flatMap(({ id: invoice_id, payments }) =>
      payments.map((payment) => ({ ...payment, invoice_id, amount_cents: toHundredths(payment.amount) })),
    ),
    artworks: orders.flatMap(({ id: project_id, artworks }) => artworks.map((each) => ({ ...each, project_id }))),
    catalog_items: file.catalog_items.map((item) => {
      return { ...item, price_cents: orNull(toHundredths, item.price), search_text: searchText([item.title]) }
    }),
    thread_contexts: file.thread_contexts.map(({ fetched_at = now, updated_at = now, ...context }) => {
      const texts = NESTED.map((name) => [name, orNull(JSON.stringify, context[name] ?? null)])
      return { ...context, ...(Object.fromEntries(texts) as ContextJson), fetched_at, updated_at }
    }),
    integrations: [],
  }
}

type Numbered = { invoice?: { number?: string | undefined } | null | undefined }

/** The highest invoice number of up to 15 digits, and at least `floor`. */
export function lastNumberOf(orders: readonly Numbered[], floor: number): number {
  const numbers = orders.flatMap(({ invoice }) => invoice?.number?.match(/^\s*\d{1,15}\s*$/) ?? []).map(Number)
  return numbers.reduce((highest, number) => Math.max(highest, number), floor)
}

/** Adds positions to the elements, by default their order in the list, from 1. */
export function numbered<T extends { position?: number | undefined }>(elements: T[] = []) {
  return elements.map((element, index) => ({ ...element, position: element.position ?? index + 1 }))
}

const orNull = <T, U>(convert: (value: T) => U, value: T | null) => (value === null ? null : convert(value))

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

/** Limits the JSON of one statement. */
const CHUNK_BYTES = 40_000

/** Splits JSON values into JSON arrays that each fit into one statement. */
export const chunkJson = (values: unknown[]): string[] =>
  splitBySize(values, (value) => [bytesOf(value) + 1], [CHUNK_BYTES]).map((chunk) => JSON.stringify(chunk))
