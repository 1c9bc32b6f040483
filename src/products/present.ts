import type { itemColumns, RowOf } from '../db/columns.ts'
import type { catalogItems } from '../db/schema.ts'
import { fromCents } from '../orders/totals.ts'

export { presentItem as presentLine } from '../orders/present.ts'

export type CatalogItemRow = typeof catalogItems.$inferSelect
export type InvoiceItemRow = RowOf<typeof itemColumns>

export function presentCatalogItem(row: CatalogItemRow) {
  return {
    id: row.id,
    title: row.title,
    description: row.description,
    price: row.price_cents === null ? null : fromCents(row.price_cents),
  }
}
