import { and, eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders, prepare, type Results } from '../../kernel/db/client.ts'
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
} from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { type AccountingRow, accountingColumns, accountingSource } from '../../kernel/db/outbox.ts'
import {
  artworks,
  clients,
  invoiceItems,
  invoices,
  orderStatuses,
  orders,
  payments,
  taxes,
} from '../../kernel/db/schema.ts'
import type { Line } from './totals.ts'

/** The order, by its key. */
type Which = Placeholders<'companyId'> & { orderId: Placeholder | SQL }

const liveOrder = prepare((p: Placeholders<'companyId' | 'orderId'>) => orderRows(p))
const anyOrder = prepare((p: Placeholders<'companyId' | 'orderId'>) => orderRows(p, true))

/** The rows of {@link orderRows}, for `presentOrder`. */
export async function findOrder(
  { db, companyId }: CompanyContext,
  orderId: number,
  isDeletedToo = false,
): Promise<OrderRow[]> {
  const [rows] = await db.read([(isDeletedToo ? anyOrder : liveOrder)({ companyId, orderId })])
  return rows
}

const statuses = prepare((p: Placeholders<'companyId'>) =>
  orm
    .select(statusColumns)
    .from(orderStatuses)
    .where(sql`${orderStatuses.company_id} = ${p.companyId} AND ${orderStatuses.deleted} = 0`)
    .orderBy(orderStatuses.position, orderStatuses.id),
)

/** The statuses that orders may have, in their order. */
export async function findStatuses({ db, companyId }: CompanyContext) {
  return (await db.read([statuses({ companyId })]))[0]
}

const allTaxes = prepare((p: Placeholders<'companyId'>) =>
  orm
    .select(taxColumns)
    .from(taxes)
    .where(sql`${taxes.company_id} = ${p.companyId} AND ${taxes.deleted} = 0`)
    .orderBy(taxes.id),
)

/** The taxes that invoices may have, by id. */
export async function findTaxes({ db, companyId }: CompanyContext) {
  return (await db.read([allTaxes({ companyId })]))[0]
}

const PROJECT = jsonRow(projectColumns)
const INVOICE = jsonRow(invoiceColumns)
const TAX = jsonRow(taxColumns)
const CLIENT = jsonRow(clientColumns)
const STATUS = jsonRow(statusColumns)

const SINGLE = {
  project: PROJECT.row.as('project'),
  invoice: INVOICE.rowOrNull.as('invoice'),
  tax: TAX.rowOrNull.as('tax'),
  client: CLIENT.row.as('client'),
  order_status: STATUS.rowOrNull.as('order_status'),
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

/** The decoded elements of an order's lists. */
export type Lists = { [Name in ListName]: ReturnType<(typeof LISTS)[Name]['decode']>[] }

/** Selects the columns of lines that totals are computed from, as JSON for {@link decodeSums}. Ends with a condition. */
export const sumsJson = (isOfInvoice: SQL) =>
  sql`SELECT json_group_array(json_array(printf('%!.17g', quantity), unit_price_cents, taxable))
    FROM invoice_items WHERE ${isOfInvoice} AND deleted = 0`

export type SumsJson = [string, number, number][]

export const decodeSums = (lines: SumsJson): Line[] =>
  lines.map(([quantity, unit_price_cents, taxable]) => {
    return { quantity: Number(quantity), unit_price_cents, taxable: taxable === 1 }
  })

/** The JSON of an element, or what was parsed from it. */
type Element = string | unknown[]

/**
 * An order with its client, invoice, tax, status and accounting, to be selected from: one row unless it is deleted. A
 * deleted order's invoice is deleted with it.
 */
function single({ companyId, orderId }: Which, isDeletedToo: boolean): SQL {
  const isLive = isDeletedToo ? sql`` : sql`AND deleted = 0`
  return sql`(SELECT * FROM orders WHERE company_id = ${companyId} AND id = ${orderId} ${isLive}) AS orders
    JOIN ${clients} ON ${clients.company_id} = ${orders.company_id} AND ${clients.id} = ${orders.client_id}
    LEFT JOIN ${invoices} ON ${isOfOrder} AND ${invoices.deleted} <= ${orders.deleted}
    LEFT JOIN ${taxes} ON ${isOfInvoice}
    LEFT JOIN ${orderStatuses} ON ${isOfStatus}
    LEFT JOIN ${accountingSource(companyId, sql`${orderId}`)}`
}

/**
 * A whole order as one statement: a row of its single parts, and a row for each element of its lists, in no order. An
 * order that is deleted may still have elements.
 */
export function orderRows({ companyId, orderId }: Which, isDeletedToo = false) {
  const flag = isDeletedToo
    ? sql`(SELECT deleted FROM orders WHERE company_id = ${companyId} AND id = ${orderId})`
    : sql`0`
  const ofInvoice = sql`company_id = ${companyId} AND invoice_id = (
    SELECT id FROM invoices WHERE company_id = ${companyId} AND project_id = ${orderId} AND deleted <= ${flag})`
  const elements = sql`(
    SELECT 'invoice_items' AS list, ${LISTS.invoice_items.row} AS element FROM ${invoiceItems} WHERE ${ofInvoice} AND deleted = 0
    UNION ALL SELECT 'payments', ${LISTS.payments.row} FROM ${payments} WHERE ${ofInvoice}
    UNION ALL SELECT 'artworks', ${LISTS.artworks.row} FROM ${artworks} WHERE company_id = ${companyId} AND project_id = ${orderId})`
  return orm
    .select({ ...SINGLE, list: sql<ListName | null>`NULL`.as('list'), element: sql<Element>`NULL`.as('element') })
    .from(single({ companyId, orderId }, isDeletedToo))
    .unionAll(orm.select({ ...NULLS, list: sql<ListName | null>`list`, element: sql<Element>`element` }).from(elements))
}

const isOfOrder = and(eq(invoices.company_id, orders.company_id), eq(invoices.project_id, orders.id))
export const isOfInvoice = and(eq(taxes.company_id, invoices.company_id), eq(taxes.id, invoices.tax_id))
export const isOfStatus = and(
  eq(orderStatuses.company_id, orders.company_id),
  eq(orderStatuses.id, orders.order_status_id),
)

export type OrderRow = Results<[ReturnType<typeof orderRows>]>[0][number]

/** Selects a new order without its lists, as JSON for {@link decodeNewOrder}. */
export function newOrderJson(p: Which): SQL {
  const parts = [
    PROJECT.row,
    ...[INVOICE, TAX].map(({ rowOrNull }) => sql`json(${rowOrNull})`),
    CLIENT.row,
    sql`json(${STATUS.rowOrNull})`,
    sql`accounting.state, accounting.last_error, accounting.reason, accounting.synced_at`,
  ]
  return sql`SELECT json_array(${sql.join(parts, sql`, `)}) FROM ${single(p, false)}`
}

type Values = unknown[] | null
type Of<Name extends keyof AccountingRow> = AccountingRow[Name]
type AccountingJson = [Of<'state'>, Of<'lastError'>, Of<'stopReason'>, Of<'syncedAt'>]
export type NewOrderJson = [unknown[], Values, Values, unknown[], Values, ...AccountingJson]

/** @param lists its elements, as JSON */
export function decodeNewOrder(parts: NewOrderJson, lists: Partial<Record<ListName, unknown[][] | null>>): OrderRow[] {
  const [project, invoice, tax, client, status, state, lastError, stopReason, syncedAt] = parts
  const order = {
    project: PROJECT.decode(project),
    invoice: INVOICE.decodeOrNull(invoice),
    tax: TAX.decodeOrNull(tax),
    client: CLIENT.decode(client),
    order_status: STATUS.decodeOrNull(status),
    ...{ state, lastError, stopReason, syncedAt },
    list: null,
    element: '',
  }
  const elements = (Object.keys(LISTS) as ListName[]).flatMap((list) =>
    (lists[list] ?? []).map((element) => ({ ...order, list, element })),
  )
  return [order, ...elements]
}

/**
 * Selects what the response to a change needs, as JSON for {@link decodeChange}: the order, its invoice, and what the
 * totals come from. With `isDeleted` the order and invoice may be deleted. Ends with a condition.
 */
export function changedJson(
  { companyId, orderId }: Which,
  { outcomes = sql`json_object()`, isDeleted = false }: { outcomes?: SQL; isDeleted?: boolean } = {},
): SQL {
  const isLive = (table: typeof orders | typeof invoices) => (isDeleted ? undefined : sql`${table.deleted} = 0`)
  return sql`SELECT json_array(${PROJECT.row}, json(${INVOICE.rowOrNull}), json(${TAX.rowOrNull}),
      json((${sumsJson(sql`company_id = ${companyId} AND invoice_id = ${invoices.id}`)})),
      json((SELECT json_group_array(amount_cents)
        FROM payments WHERE company_id = ${companyId} AND invoice_id = ${invoices.id})),
      ${outcomes})
    FROM ${orders} LEFT JOIN ${invoices} ON ${and(isOfOrder, isLive(invoices))} LEFT JOIN ${taxes} ON ${isOfInvoice}
    WHERE ${and(eq(orders.company_id, companyId), sql`${orders.id} = ${orderId}`, isLive(orders))}`
}

/** Whether each check holds (1 or 0), by the field that it is about. */
export type Outcomes = Record<string, number>

export function decodeChange(json: string | unknown[]) {
  const [project, invoice, tax, lines, paymentsCents, outcomes]: [
    unknown[],
    Values,
    Values,
    SumsJson,
    number[],
    Outcomes,
  ] = typeof json === 'string' ? JSON.parse(json) : json
  return {
    project: PROJECT.decode(project),
    invoice: INVOICE.decodeOrNull(invoice),
    tax: TAX.decodeOrNull(tax),
    lines: decodeSums(lines),
    paymentsCents,
    outcomes,
  }
}

export type ChangedRow = ReturnType<typeof decodeChange>
