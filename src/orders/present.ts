import { presentClient } from '../clients/present.ts'
import type { AccountingRow } from '../db/outbox.ts'
import { isoTime, isoTimeOrNull } from '../http/contract.ts'
import type { FullOrderRows, OrderRows, OrderTotalsRows } from './rows.ts'
import { computeTotals, fromCents, type Line, lineTotal } from './totals.ts'

export function presentProject(row: OrderRows['project']) {
  return {
    id: row.id,
    title: row.title,
    client_id: row.client_id,
    description: row.description,
    start_date: row.start_date,
    deadline: row.deadline,
    order_status_id: row.order_status_id,
    client_notes: row.client_notes,
    created_date: row.created_date,
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
    deleted: row.deleted,
  }
}

function presentInvoice({ invoice, tax }: OrderRows, lines: Line[], paymentsCents: number[]) {
  if (!invoice) return null
  const totals = computeTotals(lines, { ...invoice, taxRate: tax?.rate ?? null }, paymentsCents)
  return {
    id: invoice.id,
    project_id: invoice.project_id,
    number: invoice.number,
    due_date: invoice.due_date,
    tax_id: invoice.tax_id,
    tax_exempt: invoice.tax_exempt,
    tax_exempt_reason: invoice.tax_exempt_reason,
    discount_amount: fromCents(invoice.discount_hundredths),
    discount_amount_type: invoice.discount_amount_type,
    discount_type: invoice.discount_type,
    subtotal: fromCents(totals.subtotal),
    discount_total: fromCents(totals.discount),
    tax_total: fromCents(totals.tax),
    total: fromCents(totals.total),
    amount_paid: fromCents(totals.paid),
    balance_due: fromCents(totals.balance),
    deleted: invoice.deleted,
  }
}

export function presentItem(row: FullOrderRows['items'][number]) {
  return {
    id: row.id,
    invoice_id: row.invoice_id,
    title: row.title,
    description: row.description,
    quantity: row.quantity,
    unit_price: fromCents(row.unit_price_cents),
    total: fromCents(lineTotal(row)),
    taxable: row.taxable,
    supplier: row.supplier,
    style: row.style,
    color: row.color,
    size: row.size,
    sku: row.sku,
    position: row.position,
    deleted: row.deleted,
  }
}

/** The answer of create and read: all parts. */
export function presentOrder(rows: FullOrderRows) {
  const { tax, status } = rows
  return {
    project: presentProject(rows.project),
    invoice: presentInvoice(
      rows,
      rows.items,
      rows.payments.map((payment) => payment.amount_cents),
    ),
    invoice_items: rows.items.map(presentItem),
    payments: rows.payments.map((row) => ({
      id: row.id,
      invoice_id: row.invoice_id,
      amount: fromCents(row.amount_cents),
      method: row.method,
      paid_at: row.paid_at,
      note: row.note,
    })),
    client: presentClient(rows.client),
    tax: tax && { id: tax.id, name: tax.name, rate: tax.rate },
    order_status: status && {
      id: status.id,
      title: status.title,
      color: status.color,
      workflow_key: status.workflow_key,
      position: status.position,
      is_default: status.is_default,
    },
    artworks: rows.artworks.map((row) => ({
      id: row.id,
      project_id: row.project_id,
      name: row.name,
      print_method: row.print_method,
      placements: JSON.parse(row.placements),
      colors: JSON.parse(row.colors),
      preview_url: row.preview_url,
      status: row.status,
    })),
    accounting: presentAccounting(rows.accounting),
  }
}

function presentAccounting({ state, lastError, stopReason, syncedAt }: AccountingRow) {
  const isOpen = state === 'pending' || state === 'sent'
  const restingStatus = syncedAt === null ? ('not_synced' as const) : ('synced' as const)
  return {
    status: isOpen ? ('pending' as const) : (state ?? restingStatus),
    last_error: state === null ? null : isOpen ? (stopReason ?? lastError) : lastError,
    synced_at: isoTimeOrNull(syncedAt),
  }
}

/** The answer of update and delete. */
export function presentChange(rows: OrderTotalsRows) {
  return { project: presentProject(rows.project), invoice: presentInvoice(rows, rows.lines, rows.paymentsCents) }
}
