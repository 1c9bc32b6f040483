import type { ClientRow } from '../clients/present.ts'
import {
  artworkColumns,
  type invoiceColumns,
  itemColumns,
  jsonRow,
  paymentColumns,
  type projectColumns,
  type RowOf,
  type statusColumns,
  type taxColumns,
} from '../db/columns.ts'
import type { AccountingRow } from '../db/outbox.ts'
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

/** The lists of an order. */
export const LISTS = {
  items: jsonRow(itemColumns),
  payments: jsonRow(paymentColumns),
  artworks: jsonRow(artworkColumns),
}

export type ListName = keyof typeof LISTS

/** What `orderRows` finds: what stands once in an order (without a `list`), or an element of one of its lists. */
type FoundRow = Omit<FullOrderRows, ListName | 'accounting'> &
  AccountingRow & { list: ListName | null; element: string }

/** The order of its rows, with each list in its order; undefined where there is none. */
export function readOrder(found: FoundRow[]): FullOrderRows | undefined {
  const once = found.find(({ list }) => list === null)
  if (!once) return undefined
  const read = <Row>(name: ListName, { decode }: { decode: (json: string) => Row }) =>
    found.flatMap(({ list, element }) => (list === name ? [decode(element)] : []))
  return {
    ...once,
    items: read('items', LISTS.items).sort((a, b) => a.position - b.position || a.id - b.id),
    payments: read('payments', LISTS.payments).sort((a, b) => a.id - b.id),
    artworks: read('artworks', LISTS.artworks).sort((a, b) => a.id - b.id),
    accounting: once,
  }
}
