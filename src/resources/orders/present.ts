import { isoTimeOrNull, type ResponseBody, withIsoTimes } from '../../kernel/api/contract.ts'
import type { artworkColumns, itemColumns, paymentColumns, RowOf } from '../../kernel/db/columns.ts'
import type { listOrders, readOrder } from './contract.ts'
import type { OrderRow } from './parts-sql.ts'
import { EXPANSIONS, type Expansion } from './shapes.ts'
import { computeTotals, fromCents, lineTotal } from './totals.ts'

type Order = ResponseBody<typeof readOrder>
type Listed = ResponseBody<typeof listOrders>['data'][number]

function presentTotals({ invoice, tax, invoice_items: items, payments, ...columns }: OrderRow) {
  if (!invoice) return null
  const lines = items.length > 0 ? items : columns.lines
  const paid = payments.length > 0 ? payments.map(({ amount_cents }) => amount_cents) : columns.paymentsCents
  const totals = computeTotals(lines, { ...invoice, taxRate: tax?.rate ?? null }, paid)
  return {
    subtotal: fromCents(totals.subtotal),
    discount_total: fromCents(totals.discount),
    tax_total: fromCents(totals.tax),
    total: fromCents(totals.total),
    amount_paid: fromCents(totals.paid),
    balance_due: fromCents(totals.balance),
  }
}

function presentInvoice(order: OrderRow) {
  const totals = presentTotals(order)
  if (!order.invoice || !totals) return null
  const { discount_hundredths, ...columns } = order.invoice
  return { ...columns, discount_amount: fromCents(discount_hundredths), ...totals }
}

export function presentItem(item: RowOf<typeof itemColumns>) {
  const unit_price = fromCents(item.unit_price_cents)
  // JSON leaves undefined out: a copy without the column would take longer.
  return { ...item, unit_price_cents: undefined, deleted: false, unit_price, total: fromCents(lineTotal(item)) }
}

export function presentPayment({ amount_cents, ...payment }: RowOf<typeof paymentColumns>) {
  return { ...payment, amount: fromCents(amount_cents) }
}

function presentArtwork({ placements, colors, ...artwork }: RowOf<typeof artworkColumns>) {
  return { ...artwork, placements: JSON.parse(placements), colors: JSON.parse(colors) }
}

function presentAccounting({ accounting }: OrderRow): Order['accounting'] {
  if (!accounting) return { status: 'not_synced', last_error: null, synced_at: null }
  const { state, lastError, stopReason, syncedAt } = accounting
  const synced_at = isoTimeOrNull(syncedAt)
  if (state === null) return { status: synced_at ? 'synced' : 'not_synced', last_error: null, synced_at }
  if (state === 'parked' || state === 'dead') return { status: state, last_error: lastError, synced_at }
  return { status: 'pending', last_error: stopReason ?? lastError, synced_at }
}

const PARTS = {
  totals: presentTotals,
  client: ({ client }: OrderRow) => client && withIsoTimes(client),
  invoice: presentInvoice,
  invoice_items: (order: OrderRow) => order.invoice_items.map(presentItem),
  payments: (order: OrderRow) => order.payments.map(presentPayment),
  tax: ({ tax }: OrderRow) => tax,
  order_status: ({ order_status }: OrderRow) => order_status,
  artworks: (order: OrderRow) => order.artworks.map(presentArtwork),
}

/** The parts with these names, in the order of {@link EXPANSIONS}. */
export function presentParts(order: OrderRow, names: readonly Expansion[]): Partial<Pick<Listed, Expansion>> {
  const wanted = EXPANSIONS.filter((name) => names.includes(name))
  return Object.fromEntries(wanted.map((name) => [name, PARTS[name](order)]))
}

export function presentListed(order: OrderRow, expand: readonly Expansion[] = []): Listed {
  return { ...withIsoTimes(order.row), ...presentParts(order, expand) }
}

/** The full order; undefined without a client, which every order has. */
export function presentOrder(order: OrderRow): Order | undefined {
  const { row, client, tax, order_status } = order
  if (!client) return undefined
  return {
    project: withIsoTimes(row),
    invoice: presentInvoice(order),
    invoice_items: PARTS.invoice_items(order),
    payments: PARTS.payments(order),
    client: withIsoTimes(client),
    tax,
    order_status,
    artworks: PARTS.artworks(order),
    accounting: presentAccounting(order),
  }
}
