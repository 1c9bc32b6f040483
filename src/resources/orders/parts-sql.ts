import { type SQL, sql } from 'drizzle-orm'
import { type Filled, mapRows, orm, type Placeholders } from '../../kernel/db/client.ts'
import {
  clientColumns,
  invoiceColumns,
  jsonRow,
  projectColumns,
  type RowOf,
  statusColumns,
  taxColumns,
} from '../../kernel/db/columns.ts'
import {
  decodeSums,
  isOfInvoice,
  isOfStatus,
  LISTS,
  type ListName,
  type Lists,
  type SumsJson,
  sumsJson,
} from './queries.ts'
import type { Expansion } from './shapes.ts'
import type { Line } from './totals.ts'

const [PROJECT, CLIENT, INVOICE] = [jsonRow(projectColumns), jsonRow(clientColumns), jsonRow(invoiceColumns)]
const [TAX, STATUS] = [jsonRow(taxColumns), jsonRow(statusColumns)]

/** An order of a list; what was not asked for is null or empty. */
export interface ListedRow extends Lists {
  row: RowOf<typeof projectColumns>
  invoice: RowOf<typeof invoiceColumns> | null
  tax: RowOf<typeof taxColumns> | null
  /** Columns from which the totals are computed. */
  lines: Line[]
  paymentsCents: number[]
  client: RowOf<typeof clientColumns> | null
  order_status: RowOf<typeof statusColumns> | null
  sortValue: string | number
  /** Its lists have more elements than the response may have. */
  isCut: boolean
}

/** Limits the elements of a response's lists, and the characters of each of the three. */
export const ELEMENTS_MAX = 10_000
export const CHARACTERS_MAX = 4_000_000

/** The values that limit {@link listedOrders}. */
export type Limits = Placeholders<'limit' | 'elements' | 'characters'>

/** Where the elements of an order on the page are. */
const LIST_SOURCES: Record<ListName, SQL> = {
  invoice_items: sql`invoice_items ON invoice_items.invoice_id = page.invoice_id AND invoice_items.deleted = 0
    AND invoice_items.company_id`,
  payments: sql`payments ON payments.invoice_id = page.invoice_id AND payments.company_id`,
  artworks: sql`artworks ON artworks.project_id = page_id AND artworks.company_id`,
}

/**
 * The orders of a page with what is asked for, as one statement: a row for each order, and one for each element of its
 * lists, in the order of the page. Each list is read up to its limits, in that order: elements over them are missing or
 * null, and {@link collected} finds out whose.
 *
 * @param page selects `page_id` and `sort_value` in their order
 */
export function listedOrders(
  page: SQL,
  order: SQL,
  expand: readonly Expansion[],
  p: Placeholders<'companyId'> & Limits,
) {
  const parts = sql.join([PROJECT.row, ...singleParts(expand)], sql`, `)
  const hasInvoice = wants(expand, 'totals', 'invoice', 'invoice_items', 'payments', 'tax')
  // A deleted order's invoice is deleted with it.
  const invoice = sql`LEFT JOIN invoices ON invoices.company_id = orders.company_id AND invoices.project_id = orders.id
      AND invoices.deleted <= orders.deleted
    LEFT JOIN taxes ON ${isOfInvoice}`
  const whole = sql`SELECT page_id, sort_value, ${hasInvoice ? sql`invoices.id` : sql`NULL`} AS invoice_id, json_array(${parts}) AS element
    FROM (${page}) AS ids CROSS JOIN orders ON orders.company_id = ${p.companyId} AND orders.id = page_id
    ${hasInvoice ? invoice : sql``}`
  const lists = listsOf(expand).map((name) => {
    return sql`SELECT list, page_id, sort_value,
        iif(sum(length(element)) OVER (ROWS UNBOUNDED PRECEDING) <= ${p.characters}, element, NULL)
      FROM (SELECT ${sql.raw(`'${name}'`)} AS list, page_id, sort_value, ${LISTS[name].row} AS element
        FROM page
          CROSS JOIN ${LIST_SOURCES[name]} = ${p.companyId} LIMIT ${p.elements} + 1)`
  })
  // Each pass over a table that is kept counts as rows read: without lists there is none.
  const rows =
    lists.length === 0
      ? sql`(SELECT 'order' AS list, page_id, sort_value, element FROM (${whole}))`
      : sql`(WITH page AS MATERIALIZED (${whole})
          ${sql.join([sql`SELECT 'order' AS list, page_id, sort_value, element FROM page`, ...lists], sql` UNION ALL `)})`
  return orm
    .select({
      list: sql`list`.as('list'),
      page_id: sql`page_id`.as('page_id'),
      sort_value: sql`sort_value`.as('sort_value'),
      element: sql`element`.as('element'),
    })
    .from(rows)
    .orderBy(order)
}

interface PartRow {
  list: 'order' | ListName
  page_id: number
  sort_value: string | number
  element: string | null
}

const listsOf = (expand: readonly Expansion[]) =>
  (Object.keys(LIST_SOURCES) as ListName[]).filter((name) => expand.includes(name))

const wants = (expand: readonly Expansion[], ...names: Expansion[]) => names.some((name) => expand.includes(name))

/** The parts of an order of which there is at most one. Lines and payments only count where their lists are not sent. */
function singleParts(expand: readonly Expansion[]): SQL[] {
  const hasTotals = wants(expand, 'totals', 'invoice')
  const only = (isWanted: boolean, json: SQL) => (isWanted ? sql`json(${json})` : sql`NULL`)
  const lines = sql`(${sumsJson(sql`company_id = invoices.company_id AND invoice_id = invoices.id`)})`
  const paid = sql`(SELECT json_group_array(amount_cents)
    FROM payments WHERE company_id = invoices.company_id AND invoice_id = invoices.id)`
  const invoice = sql`CASE WHEN invoices.id IS NOT NULL THEN json_array(${INVOICE.row}, json(${TAX.rowOrNull}),
    ${only(hasTotals && !wants(expand, 'invoice_items'), lines)}, ${only(hasTotals && !wants(expand, 'payments'), paid)}) END`
  const client = sql`(SELECT ${CLIENT.row} FROM clients
    WHERE clients.company_id = orders.company_id AND clients.id = orders.client_id)`
  const status = sql`(SELECT ${STATUS.row} FROM order_statuses WHERE ${isOfStatus})`
  return [
    only(hasTotals || wants(expand, 'tax'), invoice),
    only(wants(expand, 'client'), client),
    only(wants(expand, 'order_status'), status),
  ]
}

type Values = unknown[] | null
type InvoiceJson = [unknown[], Values, SumsJson | null, number[] | null]

function decodeOrder({ sort_value, element }: PartRow): ListedRow {
  const [project, invoice, client, status]: [unknown[], InvoiceJson | null, Values, Values] = JSON.parse(
    element ?? '[]',
  )
  const [invoiceRow = null, tax = null, lines, paymentsCents] = invoice ?? []
  return {
    row: PROJECT.decode(project),
    invoice: INVOICE.decodeOrNull(invoiceRow),
    tax: TAX.decodeOrNull(tax),
    lines: decodeSums(lines ?? []),
    paymentsCents: paymentsCents ?? [],
    client: CLIENT.decodeOrNull(client),
    order_status: STATUS.decodeOrNull(status),
    invoice_items: [],
    payments: [],
    artworks: [],
    sortValue: sort_value,
    isCut: false,
  }
}

/** The result of {@link listedOrders} as orders with their elements, in the order of the page. @param max elements of all lists */
export const collected = (query: Filled<unknown>, max: number): Filled<ListedRow[]> =>
  mapRows(query, (rows: PartRow[]) => collectOrders(rows, max))

function collectOrders(rows: readonly PartRow[], max: number): ListedRow[] {
  const orders = new Map(
    rows.flatMap((row) => (row.list === 'order' ? [[row.page_id, decodeOrder(row)] as const] : [])),
  )
  let count = 0
  for (const { list, page_id, element } of rows) {
    const order = orders.get(page_id)
    if (!order || list === 'order') continue
    count++
    if (count > max || element === null) order.isCut = true
    else order[list].push(LISTS[list].decode(element) as never)
  }
  for (const order of orders.values()) sortLists(order)
  return [...orders.values()]
}

/** Orders lines by position, and the elements of the other lists by id. */
export function sortLists({ invoice_items, payments, artworks }: Lists): void {
  for (const list of [invoice_items, payments, artworks]) list.sort((a, b) => a.id - b.id)
  invoice_items.sort((a, b) => a.position - b.position)
}
