import type { artworks, catalogItems, clients, invoiceItems, invoices, orders, payments } from '../db/schema.ts'
import { digitsOf, fold, searchText } from '../db/search.ts'
import { isoDate } from '../http/contract.ts'
import type { SeedFile } from './seed-file.ts'

type SeedOrder = SeedFile['orders'][number]

const hundredths = (value: number) => Math.round(value * 100)
const foldOrNull = (value: string | null) => (value === null ? null : fold(value))

export function toClientRow(
  companyId: number,
  client: SeedFile['clients'][number],
  now: number,
): typeof clients.$inferInsert {
  return {
    company_id: companyId,
    id: client.id,
    company_name: client.company_name,
    first_name: client.first_name,
    last_name: client.last_name,
    email: client.email,
    website: client.website,
    phone: client.phone,
    company_name_key: fold(client.company_name),
    first_name_key: foldOrNull(client.first_name),
    last_name_key: foldOrNull(client.last_name),
    email_key: foldOrNull(client.email),
    phone_key: foldOrNull(client.phone),
    phone_digits: digitsOf(client.phone ?? ''),
    accounting_sync_enabled: client.accounting_sync_enabled,
    tax_exempt: client.tax_exempt,
    tax_exempt_reason: client.tax_exempt_reason,
    accounting_customer_id: client.accounting_customer_id,
    accounting_customer_linked: client.accounting_customer_id !== null,
    deleted: client.deleted,
    created_at: client.created_at ?? now,
    updated_at: client.updated_at ?? client.created_at ?? now,
  }
}

/** An order without a time of creation was made at the start of its date, one without either now. */
export function toOrderRow(companyId: number, order: SeedOrder, now: number): typeof orders.$inferInsert {
  const createdAt = order.created_at ?? (order.created_date === undefined ? now : Date.parse(order.created_date))
  return {
    company_id: companyId,
    id: order.id,
    title: order.title,
    client_id: order.client_id,
    description: order.description,
    start_date: order.start_date,
    deadline: order.deadline,
    order_status_id: order.order_status_id,
    client_notes: order.client_notes,
    created_date: order.created_date ?? isoDate(createdAt),
    created_at: createdAt,
    updated_at: order.updated_at ?? createdAt,
    deleted: order.deleted,
  }
}

export function toArtworkRows(companyId: number, order: SeedOrder): (typeof artworks.$inferInsert)[] {
  return order.artworks.map((artwork) => ({
    company_id: companyId,
    id: artwork.id,
    project_id: order.id,
    name: artwork.name,
    print_method: artwork.print_method,
    placements: JSON.stringify(artwork.placements),
    colors: JSON.stringify(artwork.colors),
    preview_url: artwork.preview_url,
    status: artwork.status,
  }))
}

/** The invoice of an order with its lines and payments, as rows; its times are the order's. */
export function toInvoiceRows(
  order: typeof orders.$inferInsert,
  invoice: NonNullable<SeedOrder['invoice']>,
  number: string,
): {
  invoice: typeof invoices.$inferInsert
  items: (typeof invoiceItems.$inferInsert)[]
  payments: (typeof payments.$inferInsert)[]
} {
  const { company_id: companyId } = order
  const invoiceId = invoice.id
  return {
    invoice: {
      company_id: companyId,
      id: invoiceId,
      project_id: order.id,
      number,
      due_date: invoice.due_date,
      tax_id: invoice.tax_id || null,
      tax_exempt: invoice.tax_exempt,
      tax_exempt_reason: invoice.tax_exempt_reason,
      discount_hundredths: hundredths(invoice.discount_amount),
      discount_amount_type: invoice.discount_amount_type,
      discount_type: invoice.discount_type,
      deleted: invoice.deleted,
      created_at: order.created_at,
      updated_at: order.updated_at,
    },
    items: invoice.items.map((item, index) => ({
      company_id: companyId,
      id: item.id,
      invoice_id: invoiceId,
      title: item.title,
      description: item.description,
      quantity: item.quantity,
      unit_price_cents: hundredths(item.unit_price),
      taxable: item.taxable,
      supplier: item.supplier,
      style: item.style,
      color: item.color,
      size: item.size,
      sku: item.sku,
      position: item.position ?? index + 1,
      deleted: item.deleted,
      search_text: searchText([item.title, item.description]),
    })),
    payments: invoice.payments.map((payment) => ({
      company_id: companyId,
      id: payment.id,
      invoice_id: invoiceId,
      amount_cents: hundredths(payment.amount),
      method: payment.method,
      paid_at: payment.paid_at,
      note: payment.note,
    })),
  }
}

export function toCatalogRow(
  companyId: number,
  item: SeedFile['catalog_items'][number],
): typeof catalogItems.$inferInsert {
  return {
    company_id: companyId,
    id: item.id,
    title: item.title,
    description: item.description,
    price_cents: item.price === null ? null : hundredths(item.price),
    deleted: item.deleted,
    search_text: searchText([item.title]),
  }
}
