import { and, asc, eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type Database, orm, type Placeholders, prepare } from '../db/client.ts'
import {
  aliased,
  artworkColumns,
  clientColumns,
  invoiceColumns,
  itemColumns,
  paymentColumns,
  projectColumns,
  statusColumns,
  taxColumns,
} from '../db/columns.ts'
import { accountingColumns, accountingSource } from '../db/outbox.ts'
import { artworks, clients, invoiceItems, invoices, orderStatuses, orders, payments, taxes } from '../db/schema.ts'
import { assemble, type FullOrderRows } from './rows.ts'

/** Which order, and where a statement must not find it. */
interface Which {
  companyId: Placeholder
  id: Placeholder | SQL
  /** A condition on top. */
  when?: SQL
}

/** The statements of {@link findOrder}. */
const wholeOrder = [
  prepare((p: Placeholders<'companyId' | 'id'>) => orderRow(p)),
  prepare((p: Placeholders<'companyId' | 'id'>) => orderItems(p)),
  prepare((p: Placeholders<'companyId' | 'id'>) => orderPayments(p)),
  prepare((p: Placeholders<'companyId' | 'id'>) => orderArtworks(p)),
] as const

export async function findOrder(db: Database, companyId: number, id: number): Promise<FullOrderRows | undefined> {
  const [row, items, paid, arts] = wholeOrder
  const values = { companyId, id }
  return assemble(await db.read([row(values), items(values), paid(values), arts(values)]))
}

/** What stands once in a whole order, as one row. */
export function orderRow({ companyId, id, when }: Which) {
  return orm
    .select({
      project: aliased(projectColumns, 'o'),
      invoice: aliased(invoiceColumns, 'i'),
      tax: aliased(taxColumns, 't'),
      client: aliased(clientColumns, 'c'),
      status: aliased(statusColumns, 's'),
      accounting: accountingColumns,
    })
    .from(orders)
    .innerJoin(clients, and(eq(clients.companyId, orders.companyId), eq(clients.id, orders.clientId)))
    .leftJoin(
      invoices,
      and(eq(invoices.companyId, orders.companyId), eq(invoices.orderId, orders.id), sql`${invoices.deleted} = 0`),
    )
    .leftJoin(taxes, and(eq(taxes.companyId, invoices.companyId), eq(taxes.id, invoices.taxId)))
    .leftJoin(
      orderStatuses,
      and(eq(orderStatuses.companyId, orders.companyId), eq(orderStatuses.id, orders.orderStatusId)),
    )
    .leftJoin(accountingSource(companyId, sql`${id}`), sql`1`)
    .where(and(eq(orders.companyId, companyId), sql`${orders.id} = ${id} AND ${orders.deleted} = 0`, when))
}

export function orderItems({ companyId, id }: Which) {
  return orm
    .select(itemColumns)
    .from(invoiceItems)
    .where(sql`company_id = ${companyId} AND invoice_id = ${invoiceOf(companyId, id)} AND deleted = 0`)
    .orderBy(asc(invoiceItems.position), asc(invoiceItems.id))
}

export function orderPayments({ companyId, id }: Which) {
  return orm
    .select(paymentColumns)
    .from(payments)
    .where(sql`company_id = ${companyId} AND invoice_id = ${invoiceOf(companyId, id)}`)
    .orderBy(asc(payments.id))
}

export function orderArtworks({ companyId, id }: Which) {
  return orm
    .select(artworkColumns)
    .from(artworks)
    .where(sql`company_id = ${companyId} AND order_id = ${id}`)
    .orderBy(asc(artworks.id))
}

function invoiceOf(companyId: Placeholder, id: Placeholder | SQL): SQL {
  return sql`(SELECT id FROM invoices WHERE company_id = ${companyId} AND order_id = ${id})`
}

/**
 * What an answer to a change tells, as one row: the order, its invoice, and what the totals come from. Lines travel as
 * JSON: their numbers only, of which a value of D1 takes tens of thousands.
 *
 * @param verdict checks that the change had to pass; without them the order may be deleted
 */
export function totalsRow({ companyId, id }: Which, verdict?: Record<string, SQL.Aliased<number>>) {
  const isLive = (table: typeof orders | typeof invoices) => verdict && sql`${table.deleted} = 0`
  return orm
    .select({
      project: aliased(projectColumns, 'o'),
      invoice: aliased(invoiceColumns, 'i'),
      tax: aliased(taxColumns, 't'),
      lines: sql`(SELECT json_group_array(json_array(printf('%!.17g', quantity), unit_price_cents, taxable))
        FROM invoice_items WHERE company_id = ${companyId} AND invoice_id = ${invoices.id} AND deleted = 0)`
        .mapWith(toLines)
        .as('lines'),
      paymentsCents: sql`(SELECT json_group_array(amount_cents)
        FROM payments WHERE company_id = ${companyId} AND invoice_id = ${invoices.id})`
        .mapWith(toNumbers)
        .as('payments_cents'),
      verdict: verdict ?? {},
    })
    .from(orders)
    .leftJoin(
      invoices,
      and(eq(invoices.companyId, orders.companyId), eq(invoices.orderId, orders.id), isLive(invoices)),
    )
    .leftJoin(taxes, and(eq(taxes.companyId, invoices.companyId), eq(taxes.id, invoices.taxId)))
    .where(and(eq(orders.companyId, companyId), sql`${orders.id} = ${id}`, isLive(orders)))
}

function toLines(json: string) {
  const lines: [string, number, number][] = JSON.parse(json)
  return lines.map(([quantity, unitPriceCents, taxable]) => ({
    quantity: Number(quantity),
    unitPriceCents,
    taxable: taxable === 1,
  }))
}

function toNumbers(json: string): number[] {
  return JSON.parse(json)
}
