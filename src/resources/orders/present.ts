import { isoTimeOrNull, type ResponseBody, withIsoTimes } from '../../kernel/api/contract.ts'
import type { itemColumns, paymentColumns, RowOf } from '../../kernel/db/columns.ts'
import type { AccountingRow } from '../../kernel/db/outbox.ts'
import type { Expansion, listOrders, readOrder } from './contract.ts'
import type { ListedRow, TotalsRow } from './expand-queries.ts'
import { type ChangedRow, LISTS, type ListName, type OrderRow } from './queries.ts'
import { computeTotals, fromCents, type Line, lineTotal } from './totals.ts'

type Order = ResponseBody<typeof readOrder>

function presentInvoice({ invoice, tax }: Pick<OrderRow, 'invoice' | 'tax'>, lines: Line[], paymentsCents: number[]) {
  if (!invoice) return null
  const { discount_hundredths, ...columns } = invoice
  const totals = presentTotals({ invoice, taxRate: tax?.rate ?? null, lines, paymentsCents })
  return { ...columns, discount_amount: fromCents(discount_hundredths), ...totals }
}

function presentTotals({ invoice, taxRate, lines, paymentsCents }: TotalsRow) {
  const totals = computeTotals(lines, { ...invoice, taxRate }, paymentsCents)
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

/** The response of create and read; undefined when the rows are of no order. */
export function presentOrder(rows: OrderRow[]): Order | undefined {
  const order = rows.find(({ list }) => list === null)
  if (!order) return undefined
  const items = elementsOf(rows, 'invoice_items', LISTS.invoice_items.decode).sort((a, b) => a.position - b.position)
  const payments = elementsOf(rows, 'payments', LISTS.payments.decode)
  const paymentsCents = payments.map(({ amount_cents }) => amount_cents)
  return {
    project: withIsoTimes(order.project),
    invoice: presentInvoice(order, items, paymentsCents),
    invoice_items: items.map(presentItem),
    payments: payments.map(presentPayment),
    client: withIsoTimes(order.client),
    tax: order.tax,
    order_status: order.order_status,
    artworks: elementsOf(rows, 'artworks', LISTS.artworks.decode).map(({ placements, colors, ...artwork }) => ({
      ...artwork,
      placements: JSON.parse(placements),
      colors: JSON.parse(colors),
    })),
    accounting: presentAccounting(order),
  }
}

/** The elements of a list, ordered by id. */
function elementsOf<T extends { id: number }>(rows: OrderRow[], name: ListName, decode: (json: string) => T): T[] {
  return rows.flatMap(({ list, element }) => (list === name ? [decode(element)] : [])).sort((a, b) => a.id - b.id)
}

/** An order of a list, with what was asked for. */
export function presentListed(
  { totals, client, ...project }: ListedRow,
  expand: readonly Expansion[] = [],
): ResponseBody<typeof listOrders>['data'][number] {
  return {
    ...withIsoTimes(project),
    ...(expand.includes('totals') && { totals: totals && presentTotals(totals) }),
    ...(client && { client: withIsoTimes(client) }),
  }
}

/** The response of update and delete. */
export function presentChange(row: ChangedRow) {
  return { project: withIsoTimes(row.project), invoice: presentInvoice(row, row.lines, row.paymentsCents) }
}

function presentAccounting({ state, lastError, stopReason, syncedAt }: AccountingRow): Order['accounting'] {
  const synced_at = isoTimeOrNull(syncedAt)
  if (state === null) return { status: synced_at ? 'synced' : 'not_synced', last_error: null, synced_at }
  if (state === 'parked' || state === 'dead') return { status: state, last_error: lastError, synced_at }
  return { status: 'pending', last_error: stopReason ?? lastError, synced_at }
}
