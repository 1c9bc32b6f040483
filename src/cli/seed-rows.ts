import type { artworks, catalogItems, clients, invoiceItems, invoices, orders, payments } from '../db/schema.ts'
import { digitsOf, fold, searchText } from '../db/search.ts'
import { isoDate } from '../http/time.ts'
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
    companyId,
    id: client.id,
    companyName: client.company_name,
    firstName: client.first_name,
    lastName: client.last_name,
    email: client.email,
    website: client.website,
    phone: client.phone,
    companyNameKey: fold(client.company_name),
    firstNameKey: foldOrNull(client.first_name),
    lastNameKey: foldOrNull(client.last_name),
    emailKey: foldOrNull(client.email),
    phoneKey: foldOrNull(client.phone),
    phoneDigits: digitsOf(client.phone ?? ''),
    accountingSyncEnabled: client.accounting_sync_enabled,
    taxExempt: client.tax_exempt,
    taxExemptReason: client.tax_exempt_reason,
    accountingCustomerId: client.accounting_customer_id,
    accountingCustomerLinked: client.accounting_customer_id !== null,
    deleted: client.deleted,
    createdAt: client.created_at ?? now,
    updatedAt: client.updated_at ?? client.created_at ?? now,
  }
}

/** An order without a time of creation was made at the start of its date, one without either now. */
export function toOrderRow(companyId: number, order: SeedOrder, now: number): typeof orders.$inferInsert {
  const createdAt = order.created_at ?? (order.created_date === undefined ? now : Date.parse(order.created_date))
  return {
    companyId,
    id: order.id,
    title: order.title,
    clientId: order.client_id,
    description: order.description,
    startDate: order.start_date,
    deadline: order.deadline,
    orderStatusId: order.order_status_id,
    clientNotes: order.client_notes,
    createdDate: order.created_date ?? isoDate(createdAt),
    createdAt,
    updatedAt: order.updated_at ?? createdAt,
    deleted: order.deleted,
  }
}

export function toArtworkRows(companyId: number, order: SeedOrder): (typeof artworks.$inferInsert)[] {
  return order.artworks.map((artwork) => ({
    companyId,
    id: artwork.id,
    orderId: order.id,
    name: artwork.name,
    printMethod: artwork.print_method,
    placements: JSON.stringify(artwork.placements),
    colors: JSON.stringify(artwork.colors),
    previewUrl: artwork.preview_url,
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
  const { companyId } = order
  const invoiceId = invoice.id
  return {
    invoice: {
      companyId,
      id: invoiceId,
      orderId: order.id,
      number,
      dueDate: invoice.due_date,
      taxId: invoice.tax_id || null,
      taxExempt: invoice.tax_exempt,
      taxExemptReason: invoice.tax_exempt_reason,
      discountHundredths: hundredths(invoice.discount_amount),
      discountAmountType: invoice.discount_amount_type,
      discountType: invoice.discount_type,
      deleted: invoice.deleted,
      createdAt: order.createdAt,
      updatedAt: order.updatedAt,
    },
    items: invoice.items.map((item, index) => ({
      companyId,
      id: item.id,
      invoiceId,
      title: item.title,
      description: item.description,
      quantity: item.quantity,
      unitPriceCents: hundredths(item.unit_price),
      taxable: item.taxable,
      supplier: item.supplier,
      style: item.style,
      color: item.color,
      size: item.size,
      sku: item.sku,
      position: item.position ?? index + 1,
      deleted: item.deleted,
      searchText: searchText([item.title, item.description]),
    })),
    payments: invoice.payments.map((payment) => ({
      companyId,
      id: payment.id,
      invoiceId,
      amountCents: hundredths(payment.amount),
      method: payment.method,
      paidAt: payment.paid_at,
      note: payment.note,
    })),
  }
}

export function toCatalogRow(
  companyId: number,
  item: SeedFile['catalog_items'][number],
): typeof catalogItems.$inferInsert {
  return {
    companyId,
    id: item.id,
    title: item.title,
    description: item.description,
    priceCents: item.price === null ? null : hundredths(item.price),
    deleted: item.deleted,
    searchText: searchText([item.title]),
  }
}
