import { isoTimeOrNull, type ResponseBody, withIsoTimes } from '../../kernel/api/contract.ts'
import type { artworkColumns, itemColumns, paymentColumns, RowOf } from '../../kernel/db/columns.ts'
import type { AccountingRow } from '../../kernel/db/outbox.ts'
import type { listOrders, readOrder } from './contract.ts'
import { type ListedRow, sortLists } from './parts-sql.ts'
import { type ChangedRow, LISTS, type Lists, type OrderRow } from './queries.ts'
import type { Expansion } from './shapes.ts'
import { computeTotals, fromCents, type Line, lineTotal } from './totals.ts'

type Order = ResponseBody<typeof readOrder>

type Invoiced = Pick<OrderRow, 'invoice' | 'tax'> & { lines: readonly Line[]; paymentsCents: readonly number[] }

function presentInvoice(invoiced: Invoiced) {
  const totals = presentTotals(invoiced)
  if (!invoiced.invoice || !totals) return null
  const { discount_hundredths, ...columns } = invoiced.invoice
  return { ...columns, discount_amount: fromCents(discount_hundredths), ...totals }
}

function presentTotals({ invoice, tax, lines, paymentsCents }: Invoiced) {
  if (!invoice) return null
  const totals = computeTotals(lines, { ...invoice, taxRate: tax?.rate ?? null }, paymentsCents)
  return {
    subtotal: fromCents(totals.subtotal),
    discount_total: fromCents(totals.discount),
    tax_total: fromCents(totals.tax),
    total: fromCents(totals.total),
    amount_paid: fromCents(totals.paid),
    balance_due: fromCents(totals.balance),
  }
}

export function presentItem({ unit_price_cents, ...item }: RowOf<typeof itemColumns>) {
  const total = fromCents(lineTotal({ quantity: item.quantity, unit_price_cents }))
  return { ...item, unit_price: fromCents(unit_price_cents), total }
}

export function presentPayment({ amount_cents, ...payment }: RowOf<typeof paymentColumns>) {
  return { ...payment, amount: fromCents(amount_cents) }
}

function presentArtwork({ placements, colors, ...artwork }: RowOf<typeof artworkColumns>) {
  return { ...artwork, placements: JSON.parse(placements), colors: JSON.parse(colors) }
}

/** The response of create and read; undefined when the rows are of no order. */
export function presentOrder(rows: OrderRow[]): Order | undefined {
  const order = rows.find(({ list }) => list === null)
  if (!order) return undefined
  const lists: Lists = { invoice_items: [], payments: [], artworks: [] }
  for (const { list, element } of rows) if (list) lists[list].push(LISTS[list].decode(element) as never)
  sortLists(lists)
  const { invoice_items: items, payments, artworks } = lists
  const paymentsCents = payments.map(({ amount_cents }) => amount_cents)
  return {
    project: withIsoTimes(order.project),
    invoice: presentInvoice({ ...order, lines: items, paymentsCents }),
    invoice_items: items.map(presentItem),
    payments: payments.map(presentPayment),
    client: withIsoTimes(order.client),
    tax: order.tax,
    order_status: order.order_status,
    artworks: artworks.map(presentArtwork),
    accounting: presentAccounting(order),
  }
}

/** An order of a list, with what was asked for. */
export function presentListed(
  { row, lines, paymentsCents, ...parts }: ListedRow,
  expand: readonly Expansion[] = [],
): ResponseBody<typeof listOrders>['data'][number] {
  const { invoice, tax, invoice_items: items, payments, client } = parts
  const invoiced = {
    invoice,
    tax,
    lines: items.length > 0 ? items : lines,
    paymentsCents: payments.length > 0 ? payments.map(({ amount_cents }) => amount_cents) : paymentsCents,
  }
  const add = <T>(name: Expansion, present: () => T) => (expand.includes(name) ? { [name]: present() } : {})
  return {
    ...withIsoTimes(row),
    ...add('totals', () => presentTotals(invoiced)),
    ...add('client', () => client && withIsoTimes(client)),
    ...add('invoice', () => presentInvoice(invoiced)),
    ...add('invoice_items', () => items.map(presentItem)),
    ...add('payments', () => payments.map(presentPayment)),
    ...add('tax', () => tax),
    ...add('order_status', () => parts.order_status),
    ...add('artworks', () => parts.artworks.map(presentArtwork)),
  }
}

/** The response of update and delete. */
export function presentChange(row: ChangedRow) {
  return { project: withIsoTimes(row.project), invoice: presentInvoice(row) }
}

function presentAccounting({ state, lastError, stopReason, syncedAt }: AccountingRow): Order['accounting'] {
  const synced_at = isoTimeOrNull(syncedAt)
  if (state === null) return { status: synced_at ? 'synced' : 'not_synced', last_error: null, synced_at }
  if (state === 'parked' || state === 'dead') return { status: state, last_error: lastError, synced_at }
  return { status: 'pending', last_error: stopReason ?? lastError, synced_at }
}
