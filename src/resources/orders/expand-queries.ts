import { type SQL, sql } from 'drizzle-orm'
import { clientColumns, invoiceColumns, jsonRow, type projectColumns, type RowOf } from '../../kernel/db/columns.ts'
import type { Expansion } from './contract.ts'
import type { Line } from './totals.ts'

/** Columns from which the totals of an order are computed. */
export interface TotalsRow {
  invoice: Omit<RowOf<typeof invoiceColumns>, 'id'>
  taxRate: number | null
  lines: Line[]
  paymentsCents: number[]
}

/** An order of a list; what was not asked for is null. */
export type ListedRow = RowOf<typeof projectColumns> & {
  totals: TotalsRow | null
  client: RowOf<typeof clientColumns> | null
}

const CLIENT = jsonRow(clientColumns)
const INVOICE = jsonRow(invoiceColumns)

/** A deleted order's invoice is deleted with it. */
const TOTALS_JSON = sql`(SELECT json_array(${INVOICE.row},
    (SELECT printf('%!.17g', rate) FROM taxes WHERE company_id = invoices.company_id AND id = invoices.tax_id),
    json((SELECT json_group_array(json_array(printf('%!.17g', quantity), unit_price_cents, taxable))
      FROM invoice_items WHERE company_id = invoices.company_id AND invoice_id = invoices.id AND deleted = 0)),
    json((SELECT json_group_array(amount_cents)
      FROM payments WHERE company_id = invoices.company_id AND invoice_id = invoices.id)))
  FROM invoices WHERE invoices.company_id = orders.company_id AND invoices.project_id = orders.id
    AND invoices.deleted <= orders.deleted)`

const CLIENT_JSON = sql`(SELECT ${CLIENT.row} FROM clients
  WHERE clients.company_id = orders.company_id AND clients.id = orders.client_id)`

type TotalsJson = [unknown[], string | null, [string, number, number][], number[]]

function decodeTotals(json: string): TotalsRow | null {
  const [invoice, rate, lines, paymentsCents]: TotalsJson = JSON.parse(json)
  return {
    invoice: INVOICE.decode(invoice),
    taxRate: rate === null ? null : Number(rate),
    lines: lines.map(([quantity, unit_price_cents, taxable]) => {
      return { quantity: Number(quantity), unit_price_cents, taxable: taxable === 1 }
    }),
    paymentsCents,
  }
}

/** Expanded columns, to be selected from `orders` beside its own. */
export const expansions = (expand: readonly Expansion[]) => {
  const wanted = (name: Expansion, json: SQL) => (expand.includes(name) ? json : sql`NULL`)
  return {
    totals: sql`${wanted('totals', TOTALS_JSON)}`.mapWith(decodeTotals).as('the_totals'),
    client: sql`${wanted('client', CLIENT_JSON)}`
      .mapWith((json: string): ListedRow['client'] => CLIENT.decode(json))
      .as('the_client'),
  }
}
