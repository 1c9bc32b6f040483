import { and, eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type CompanyContext, orm, type Placeholders, prepare, type Results } from '../db/client.ts'
import {
  artworkColumns,
  clientColumns,
  invoiceColumns,
  itemColumns,
  jsonRow,
  paymentColumns,
  projectColumns,
  statusColumns,
  taxColumns,
} from '../db/columns.ts'
import { accountingColumns, accountingSource } from '../db/outbox.ts'
import { artworks, clients, invoiceItems, invoices, orderStatuses, orders, payments, taxes } from '../db/schema.ts'

/** The order, by its key and an additional condition. */
type Which = Placeholders<'companyId'> & { orderId: Placeholder | SQL; when?: SQL }

const orderById = prepare((p: Placeholders<'companyId' | 'orderId'>) => orderRows(p))

/** The rows of {@link orderRows}, for `presentOrder`. */
export async function findOrder({ db, companyId }: CompanyContext, orderId: number): Promise<OrderRow[]> {
  const [rows] = await db.read([orderById({ companyId, orderId })])
  return rows
}

const CHANGED = {
  project: jsonRow(projectColumns).row.as('project'),
  invoice: jsonRow(invoiceColumns).rowOrNull.as('invoice'),
  tax: jsonRow(taxColumns).rowOrNull.as('tax'),
}

const SINGLE = {
  ...CHANGED,
  client: jsonRow(clientColumns).row.as('client'),
  order_status: jsonRow(statusColumns).rowOrNull.as('order_status'),
  ...accountingColumns,
}

const NULLS = Object.fromEntries(Object.keys(SINGLE).map((name) => [name, sql`NULL`])) as {
  [Name in keyof typeof SINGLE]: SQL<never>
}

/** Decoders of the elements of an order's lists. */
export const LISTS = {
  invoice_items: jsonRow(itemColumns),
  payments: jsonRow(paymentColumns),
  artworks: jsonRow(artworkColumns),
}

export type ListName = keyof typeof LISTS

/**
 * A whole order as one statement: a row of its single parts, and a row for each element of its lists, in no order. An
 * order that is deleted, or fails the condition, may still have elements.
 */
export function orderRows({ companyId, orderId, when }: Which) {
  const ofInvoice = sql`company_id = ${companyId} AND invoice_id = (
    SELECT id FROM invoices WHERE company_id = ${companyId} AND project_id = ${orderId} AND deleted = 0)`
  const elements = sql`(
    SELECT 'invoice_items' AS list, ${LISTS.invoice_items.row} AS element FROM ${invoiceItems} WHERE ${ofInvoice} AND deleted = 0
    UNION ALL SELECT 'payments', ${LISTS.payments.row} FROM ${payments} WHERE ${ofInvoice}
    UNION ALL SELECT 'artworks', ${LISTS.artworks.row} FROM ${artworks} WHERE company_id = ${companyId} AND project_id = ${orderId})`
  return orm
    .select({ ...SINGLE, list: sql<ListName | null>`NULL`.as('list'), element: sql<string>`NULL`.as('element') })
    .from(orders)
    .innerJoin(clients, and(eq(clients.company_id, orders.company_id), eq(clients.id, orders.client_id)))
    .leftJoin(invoices, sql`${isOfOrder} AND ${invoices.deleted} = 0`)
    .leftJoin(taxes, isOfInvoice)
    .leftJoin(orderStatuses, isOfStatus)
    .leftJoin(accountingSource(companyId, sql`${orderId}`), sql`1`)
    .where(and(eq(orders.company_id, companyId), sql`${orders.id} = ${orderId} AND ${orders.deleted} = 0`, when))
    .unionAll(orm.select({ ...NULLS, list: sql<ListName | null>`list`, element: sql<string>`element` }).from(elements))
}

const isOfOrder = and(eq(invoices.company_id, orders.company_id), eq(invoices.project_id, orders.id))
const isOfInvoice = and(eq(taxes.company_id, invoices.company_id), eq(taxes.id, invoices.tax_id))
const isOfStatus = and(eq(orderStatuses.company_id, orders.company_id), eq(orderStatuses.id, orders.order_status_id))

export type OrderRow = Results<[ReturnType<typeof orderRows>]>[0][number]

/**
 * What the response to a change needs, as one row: the order, its invoice, and what the totals come from. Lines are JSON
 * of their numbers only, so that tens of thousands fit into a value of D1. Without `checks` the order may be deleted.
 */
export function changedRow({ companyId, orderId }: Which, checks?: Record<string, SQL.Aliased<number>>) {
  const isLive = (table: typeof orders | typeof invoices) => checks && sql`${table.deleted} = 0`
  return orm
    .select({
      ...CHANGED,
      lines: sql`(SELECT json_group_array(json_array(printf('%!.17g', quantity), unit_price_cents, taxable))
        FROM invoice_items WHERE company_id = ${companyId} AND invoice_id = ${invoices.id} AND deleted = 0)`
        .mapWith(parseLines)
        .as('lines'),
      paymentsCents: sql`(SELECT json_group_array(amount_cents)
        FROM payments WHERE company_id = ${companyId} AND invoice_id = ${invoices.id})`
        .mapWith((json: string): number[] => JSON.parse(json))
        .as('payments_cents'),
      checks: checks ?? {},
    })
    .from(orders)
    .leftJoin(invoices, and(isOfOrder, isLive(invoices)))
    .leftJoin(taxes, isOfInvoice)
    .where(and(eq(orders.company_id, companyId), sql`${orders.id} = ${orderId}`, isLive(orders)))
}

function parseLines(json: string) {
  const lines: [string, number, number][] = JSON.parse(json)
  return lines.map(([quantity, unit_price_cents, taxable]) => {
    return { quantity: Number(quantity), unit_price_cents, taxable: taxable === 1 }
  })
}

export type ChangedRow = Results<[ReturnType<typeof changedRow>]>[0][number]
