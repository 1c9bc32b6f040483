import type { ClientRow } from '../clients/present.ts'
import type { Results } from '../db/client.ts'
import {
  type artworkColumns,
  type invoiceColumns,
  type itemColumns,
  type paymentColumns,
  type projectColumns,
  type RowOf,
  rowOrNull,
  type statusColumns,
  type taxColumns,
} from '../db/columns.ts'
import type { AccountingRow } from '../db/outbox.ts'
import type { orderArtworks, orderItems, orderPayments, orderRow, totalsRow } from './queries.ts'
import type { Line } from './totals.ts'

/** The rows of one order; a part that is not there is null. */
export interface OrderRows {
  project: RowOf<typeof projectColumns>
  invoice: RowOf<typeof invoiceColumns> | null
  tax: RowOf<typeof taxColumns> | null
}

export interface FullOrderRows extends OrderRows {
  client: ClientRow
  status: RowOf<typeof statusColumns> | null
  items: RowOf<typeof itemColumns>[]
  payments: RowOf<typeof paymentColumns>[]
  artworks: RowOf<typeof artworkColumns>[]
  accounting: AccountingRow
}

/** What the answer to a change needs of an order. */
export interface OrderTotalsRows extends OrderRows {
  lines: Line[]
  paymentsCents: number[]
}

type WholeOrder = Results<
  [
    ReturnType<typeof orderRow>,
    ReturnType<typeof orderItems>,
    ReturnType<typeof orderPayments>,
    ReturnType<typeof orderArtworks>,
  ]
>

/** The statements' results as one order. */
export function assemble([[row], items, paid, arts]: WholeOrder): FullOrderRows | undefined {
  if (!row) return undefined
  const invoice = rowOrNull(row.invoice)
  return {
    project: row.project,
    client: row.client,
    invoice,
    tax: rowOrNull(row.tax),
    status: rowOrNull(row.status),
    items: invoice ? items : [],
    payments: invoice ? paid : [],
    artworks: arts,
    accounting: row.accounting,
  }
}

/** The result of `totalsRow`. */
export function assembleTotals(row: Results<[ReturnType<typeof totalsRow>]>[0][number]): OrderTotalsRows {
  const { project, invoice, tax, lines, paymentsCents } = row
  return { project, invoice: rowOrNull(invoice), tax: rowOrNull(tax), lines, paymentsCents }
}
