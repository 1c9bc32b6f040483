import { and, eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type Database, orm, type Placeholders, prepare } from '../db/client.ts'
import { clientColumns, invoiceColumns, jsonRow, projectColumns, statusColumns, taxColumns } from '../db/columns.ts'
import { accountingColumns, accountingSource } from '../db/outbox.ts'
import { artworks, clients, invoiceItems, invoices, orderStatuses, orders, payments, taxes } from '../db/schema.ts'
import { type FullOrderRows, LISTS, type ListName, readOrder } from './rows.ts'

/** Which order, and where a statement must not find it. */
interface Which {
  companyId: Placeholder
  id: Placeholder | SQL
  /** A condition on top. */
  when?: SQL
}

const rowsOfOrder = prepare((p: Placeholders<'companyId' | 'id'>) => orderRows(p))

export async function findOrder(db: Database, companyId: number, id: number): Promise<FullOrderRows | undefined> {
  const [rows] = await db.read([rowsOfOrder({ companyId, id })])
  return readOrder(rows)
}

const changedParts = {
  project: jsonRow(projectColumns).row.as('project'),
  invoice: jsonRow(invoiceColumns).rowOrNull.as('invoice'),
  tax: jsonRow(taxColumns).rowOrNull.as('tax'),
}

/**
 * A whole order as one statement: a row of what stands once in it, and one for each element of its lists, in no order.
 * An order that is deleted, or fails the condition, may still have elements.
 */
export function orderRows({ companyId, id, when }: Which) {
  const ofInvoice = sql`company_id = ${companyId} AND invoice_id = (
    SELECT id FROM invoices WHERE company_id = ${companyId} AND project_id = ${id} AND deleted = 0)`
  const elements = sql`(
    SELECT 'items' AS list, ${LISTS.items.row} AS element FROM ${invoiceItems} WHERE ${ofInvoice} AND deleted = 0
    UNION ALL SELECT 'payments', ${LISTS.payments.row} FROM ${payments} WHERE ${ofInvoice}
    UNION ALL SELECT 'artworks', ${LISTS.artworks.row} FROM ${artworks} WHERE company_id = ${companyId} AND project_id = ${id})`
  const once = orm
    .select({
      ...changedParts,
      client: jsonRow(clientColumns).row.as('client'),
      status: jsonRow(statusColumns).rowOrNull.as('status'),
      ...accountingColumns,
      list: sql<ListName | null>`NULL`.as('list'),
      element: sql<string>`NULL`.as('element'),
    })
    .from(orders)
    .innerJoin(clients, and(eq(clients.company_id, orders.company_id), eq(clients.id, orders.client_id)))
    .leftJoin(
      invoices,
      and(eq(invoices.company_id, orders.company_id), eq(invoices.project_id, orders.id), sql`${invoices.deleted} = 0`),
    )
    .leftJoin(taxes, and(eq(taxes.company_id, invoices.company_id), eq(taxes.id, invoices.tax_id)))
    .leftJoin(
      orderStatuses,
      and(eq(orderStatuses.company_id, orders.company_id), eq(orderStatuses.id, orders.order_status_id)),
    )
    .leftJoin(accountingSource(companyId, sql`${id}`), sql`1`)
    .where(and(eq(orders.company_id, companyId), sql`${orders.id} = ${id} AND ${orders.deleted} = 0`, when))
  const none = sql<never>`NULL`
  return once.unionAll(
    orm
      .select({
        project: none,
        invoice: none,
        tax: none,
        client: none,
        status: none,
        state: none,
        lastError: none,
        stopReason: none,
        syncedAt: none,
        list: sql<ListName | null>`list`,
        element: sql<string>`element`,
      })
      .from(elements),
  )
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
      ...changedParts,
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
      and(eq(invoices.company_id, orders.company_id), eq(invoices.project_id, orders.id), isLive(invoices)),
    )
    .leftJoin(taxes, and(eq(taxes.company_id, invoices.company_id), eq(taxes.id, invoices.tax_id)))
    .where(and(eq(orders.company_id, companyId), sql`${orders.id} = ${id}`, isLive(orders)))
}

function toLines(json: string) {
  const lines: [string, number, number][] = JSON.parse(json)
  return lines.map(([quantity, unit_price_cents, taxable]) => ({
    quantity: Number(quantity),
    unit_price_cents,
    taxable: taxable === 1,
  }))
}

function toNumbers(json: string): number[] {
  return JSON.parse(json)
}
