import { and, eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { isoTimeOrNull, type ResponseBody, withIsoTimes } from '../../kernel/api/contract.ts'
import { mapRows, orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { COLUMNS, jsonRow, type RowOf } from '../../kernel/db/columns.ts'
import { type AccountingRow, accountingJson } from '../../kernel/db/outbox.ts'
import { invoices, orderStatuses, orders, taxes } from '../../kernel/db/schema.ts'
import type { listOrders, readOrder } from './contract.ts'
import { EXPANSIONS, type Expansion } from './shapes.ts'
import { computeTotals, fromCents, lineTotal } from './totals.ts'

const [PROJECT, CLIENT, INVOICE] = [jsonRow(COLUMNS.orders), jsonRow(COLUMNS.clients), jsonRow(COLUMNS.invoices)]
const [TAX, STATUS] = [jsonRow(COLUMNS.taxes), jsonRow(COLUMNS.order_statuses)]
const LIST_ROWS = {
  invoice_items: jsonRow(COLUMNS.invoice_items),
  payments: jsonRow(COLUMNS.payments),
  artworks: jsonRow(COLUMNS.artworks),
}

type ListName = keyof typeof LIST_ROWS
const LIST_NAMES = ['invoice_items', 'payments', 'artworks'] as const satisfies ListName[]

export type Part = Expansion | 'accounting'

/** Limits the elements of a response's lists, and the characters of each of the three. */
export const LIMITS = { elements: 10_000, characters: 1_000_000 }
/** A value of D1 may have 2 MB, and a character 4 bytes. */
const CHUNK_CHARACTERS = 250_000
/** So many elements of so many bytes are a value, too. */
const SMALL = { elements: 2_000, bytes: 900 }

const LIST_SOURCES: Record<ListName, SQL> = {
  invoice_items: sql`invoice_items WHERE invoice_items.company_id = orders.company_id
    AND invoice_items.invoice_id = invoices.id`,
  payments: sql`payments WHERE payments.company_id = orders.company_id AND payments.invoice_id = invoices.id`,
  artworks: sql`artworks WHERE artworks.company_id = orders.company_id AND artworks.project_id = orders.id`,
}

/** Selects a list of an order {@link WITH_INVOICE} as JSON. */
export const listJson = (name: ListName) =>
  sql`(SELECT json_group_array(${LIST_ROWS[name].row}) FROM ${LIST_SOURCES[name]})`

/** For an invoice and its order: not deleted, or only with the order. One deleted alone before it has a lower time. */
export const isKept = sql`invoices.deleted <= (orders.deleted AND invoices.updated_at >= orders.updated_at)`

const INVOICES = sql`LEFT JOIN invoices ON invoices.company_id = orders.company_id
    AND invoices.project_id = orders.id AND ${isKept}`
export const WITH_INVOICE = sql`${INVOICES}
  LEFT JOIN taxes ON ${and(eq(taxes.company_id, invoices.company_id), eq(taxes.id, invoices.tax_id))}`

/** Whether the JSON of an order has its invoice, which is then joined. */
const hasInvoice = (parts: readonly Part[]) => parts.some((name) => ['totals', 'invoice', 'tax'].includes(name))

/**
 * An order of `orders` {@link WITH_INVOICE} as JSON for {@link decodeOrder}, without its lists. Where the totals are asked
 * for without the lists, it has what they are computed from.
 */
export function orderJson(companyId: Placeholder, parts: readonly Part[]): SQL {
  const wants = (...names: Part[]) => names.some((name) => parts.includes(name))
  const only = (isWanted: boolean, json: SQL) => (isWanted ? sql`json((${json}))` : sql`NULL`)
  const hasTotals = wants('totals', 'invoice')
  // SQLite writes only 15 digits of a number into JSON; text has them all.
  const lines = sql`SELECT json_group_array(json_array(printf('%!.17g', quantity), unit_price_cents, taxable))
    FROM ${LIST_SOURCES.invoice_items}`
  const paid = sql`SELECT json_group_array(amount_cents) FROM ${LIST_SOURCES.payments}`
  const invoice = sql`CASE WHEN invoices.id IS NOT NULL THEN json_array(${INVOICE.row}, json(${TAX.rowOrNull}),
    ${only(hasTotals && !wants('invoice_items'), lines)}, ${only(hasTotals && !wants('payments'), paid)}) END`
  const client = sql`SELECT ${CLIENT.row} FROM clients
    WHERE clients.company_id = orders.company_id AND clients.id = orders.client_id`
  const status = sql`SELECT ${STATUS.row} FROM order_statuses
    WHERE ${and(eq(orderStatuses.company_id, orders.company_id), eq(orderStatuses.id, orders.order_status_id))}`
  return sql`json_array(${PROJECT.row}, ${only(hasInvoice(parts), invoice)}, ${only(wants('client'), client)},
    ${only(wants('order_status'), status)}, ${only(wants('accounting'), accountingJson(companyId, sql`orders.id`))})`
}

type Values = unknown[] | null
type InvoiceJson = [unknown[], Values, [quantity: string, cents: number, taxable: number][] | null, number[] | null]
export type OrderJson = [unknown[], InvoiceJson | null, Values, Values, AccountingRow | null]

/** Elements as JSON arrays of their columns; null for a list that was not asked for. */
export type ListsJson = { [Name in ListName]?: unknown[][] | null | undefined }

/** An order with its parts; a part that was not asked for is null or empty. */
export type OrderRow = ReturnType<typeof decodeOrder>

export function decodeOrder([project, invoice, client, status, accounting]: OrderJson, lists: ListsJson) {
  const [invoiceRow = null, tax = null, lines, paymentsCents] = invoice ?? []
  const byId = (a: { id: number }, b: { id: number }) => a.id - b.id
  const items = (lists.invoice_items ?? []).map(LIST_ROWS.invoice_items.decode)
  const payments = (lists.payments ?? []).map(LIST_ROWS.payments.decode)
  return {
    row: PROJECT.decode(project),
    invoice: INVOICE.decodeOrNull(invoiceRow),
    tax: TAX.decodeOrNull(tax),
    lines:
      lines?.map(([quantity, unit_price_cents, taxable]) => {
        return { quantity: Number(quantity), unit_price_cents, taxable: taxable === 1 }
      }) ?? items,
    paymentsCents: paymentsCents ?? payments.map(({ amount_cents }) => amount_cents),
    client: CLIENT.decodeOrNull(client),
    order_status: STATUS.decodeOrNull(status),
    accounting,
    invoice_items: items.sort((a, b) => a.position - b.position || byId(a, b)),
    payments: payments.sort(byId),
    artworks: (lists.artworks ?? []).map(LIST_ROWS.artworks.decode).sort(byId),
  }
}

/**
 * Builds the statements that read orders with their parts, in the order of a page: a row for each order, and rows with the
 * elements of their lists.
 *
 * @param pageOf selects `page_id` and `sort_value` in their `order`; a single order needs none
 */
export function orderStatements<P extends Placeholders<'companyId'>>(
  parts: readonly Part[],
  pageOf: (p: P) => { ids: SQL; order?: SQL },
) {
  const names = LIST_NAMES.filter((name) => parts.includes(name))
  const columns = ['list', 'page_id', 'sort_value', 'json'].map((name) => [name, sql.raw(name).as(name)])

  const statementWith = (isLimited: boolean, chunksOf: (element: SQL, source: SQL) => SQL) => {
    const statement = prepare((p: P) => {
      const { ids, order } = pageOf(p)
      // Its rows are read for the orders and for each list.
      const [page, pages] =
        names.length === 0
          ? [sql`(${ids}) AS page`, sql``]
          : [sql`page`, sql`WITH page AS MATERIALIZED (SELECT * FROM (${ids}))`]
      const ofPage = sql`${page} CROSS JOIN orders ON orders.company_id = ${p.companyId} AND orders.id = page_id`
      const found = sql`SELECT 'order' AS list, page_id, sort_value, ${orderJson(p.companyId, parts)} AS json
        FROM ${ofPage} ${hasInvoice(parts) ? WITH_INVOICE : sql``}`
      const lists = names.map((name) => {
        const invoiced = name === 'artworks' ? sql`` : INVOICES
        const chunks = chunksOf(LIST_ROWS[name].row, sql`${ofPage} ${invoiced} CROSS JOIN ${LIST_SOURCES[name]}`)
        return sql`SELECT ${sql.raw(`'${name}'`)}, NULL, NULL, ${chunks}`
      })
      return orm
        .select(Object.fromEntries(columns))
        .from(sql`(${pages} ${sql.join([found, ...lists], sql` UNION ALL `)})`)
        .orderBy(...(order ? [order] : []))
    })
    return (values: Parameters<typeof statement>[0]) =>
      mapRows(statement(values), (rows: Row[]) => decodeRows(rows, isLimited))
  }
  const number = (value: number) => sql.raw(String(value))
  const [chunk, bytes] = [number(CHUNK_CHARACTERS), number(SMALL.bytes)]
  const elementsOf = (element: SQL, source: SQL, count: number) =>
    sql`(SELECT page_id, ${element} AS element FROM ${source} LIMIT ${number(count + 1)})`
  const arrayOf = (element: SQL, filter = sql``) =>
    sql`'[' || ifnull(group_concat('[' || page_id || ',' || ${element} || ']') ${filter}, '') || ']'`
  return {
    /** With a row for each list, since each row of D1 costs time. All orders have `isCut` where one list is too large. */
    small: statementWith(
      true,
      (element, source) => sql`iif(count(*) > ${number(SMALL.elements)} OR max(octet_length(element)) > ${bytes}
        OR sum(length(element)) > ${number(LIMITS.characters)}, NULL,
        ${arrayOf(sql`element`, sql`FILTER (WHERE octet_length(element) <= ${bytes})`)})
        FROM ${elementsOf(element, source, SMALL.elements)}`,
    ),
    /** For larger lists: measuring takes twice as long. An order over the limits, and those after it, have `isCut`. */
    listed: statementWith(
      true,
      (element, source) => sql`${arrayOf(sql`iif(characters <= ${number(LIMITS.characters)}, element, 'null')`)}
        FROM (SELECT page_id, element, sum(length(element)) OVER (ROWS UNBOUNDED PRECEDING) AS characters
          FROM ${elementsOf(element, source, LIMITS.elements)}) GROUP BY characters / ${chunk}`,
    ),
    /** Without limits, for a single order. Each element is a row, since grouping them would cost rows read. */
    uncut: statementWith(false, (element, source) => sql`json_array(json_array(page_id, ${element})) FROM ${source}`),
  }
}

type Row =
  | { list: 'order'; page_id: number; sort_value: string | number; json: string }
  | { list: ListName; page_id: null; sort_value: null; json: string | null }

/** An element of an order's list; null for one over the limit of characters. */
type Element = [orderId: number, columns: unknown[] | null]

function decodeRows(rows: Row[], isLimited: boolean) {
  const isTooLarge = rows.some(({ json }) => json === null)
  const byOrder = LIST_NAMES.map((name) => {
    const elements: Element[] = rows.flatMap(({ list, json }) => (list === name && json ? JSON.parse(json) : []))
    return [name, Map.groupBy(elements, ([orderId]) => orderId)] as const
  })
  let count = 0
  return rows.flatMap((row) => {
    if (row.list !== 'order') return []
    const lists: ListsJson = {}
    // A cut order's lists are not complete: with them the response would be too large.
    let isCut = isTooLarge
    for (const [name, ofOrders] of byOrder) {
      const found = (ofOrders.get(row.page_id) ?? []).map(([, columns]) => columns)
      count += found.length
      isCut ||= isLimited && (count > LIMITS.elements || found.includes(null))
      lists[name] = isCut ? null : found.filter((columns) => columns !== null)
    }
    return [{ ...decodeOrder(JSON.parse(row.json), lists), sortValue: row.sort_value, isCut }]
  })
}

type Order = ResponseBody<typeof readOrder>
type Listed = ResponseBody<typeof listOrders>['data'][number]

function presentTotals({ invoice, tax, lines, paymentsCents }: OrderRow) {
  if (!invoice) return null
  const totals = computeTotals(lines, { ...invoice, taxRate: tax?.rate ?? null }, paymentsCents)
  return {
    subtotal: fromCents(totals.subtotal),
    discount_total: fromCents(totals.discount),
    tax_total: fromCents(totals.tax),
    total: fromCents(totals.total),
    amount_paid: fromCents(totals.paid),
    balance_due: fromCents(totals.balance),
  }
}

function presentInvoice(order: OrderRow) {
  const totals = presentTotals(order)
  if (!order.invoice || !totals) return null
  const { discount_hundredths, ...columns } = order.invoice
  return { ...columns, discount_amount: fromCents(discount_hundredths), ...totals }
}

export function presentItem(item: RowOf<typeof COLUMNS.invoice_items>) {
  const unit_price = fromCents(item.unit_price_cents)
  // JSON leaves undefined out: a copy without the column would take longer.
  return { ...item, unit_price_cents: undefined, deleted: false, unit_price, total: fromCents(lineTotal(item)) }
}

export function presentPayment({ amount_cents, ...payment }: RowOf<typeof COLUMNS.payments>) {
  return { ...payment, amount: fromCents(amount_cents) }
}

function presentArtwork({ placements, colors, ...artwork }: RowOf<typeof COLUMNS.artworks>) {
  return { ...artwork, placements: JSON.parse(placements), colors: JSON.parse(colors) }
}

function presentAccounting({ accounting }: OrderRow): Order['accounting'] {
  if (!accounting) return { status: 'not_synced', last_error: null, synced_at: null }
  const { state, lastError, stopReason, syncedAt } = accounting
  const synced_at = isoTimeOrNull(syncedAt)
  if (state === null) return { status: synced_at ? 'synced' : 'not_synced', last_error: null, synced_at }
  if (state === 'parked' || state === 'dead') return { status: state, last_error: lastError, synced_at }
  return { status: 'pending', last_error: stopReason ?? lastError, synced_at }
}

const PRESENTERS = {
  totals: presentTotals,
  client: ({ client }: OrderRow) => client && withIsoTimes(client),
  invoice: presentInvoice,
  invoice_items: (order: OrderRow) => order.invoice_items.map(presentItem),
  payments: (order: OrderRow) => order.payments.map(presentPayment),
  tax: ({ tax }: OrderRow) => tax,
  order_status: ({ order_status }: OrderRow) => order_status,
  artworks: (order: OrderRow) => order.artworks.map(presentArtwork),
}

/** The parts with these names, in the order of {@link EXPANSIONS}. */
export function presentParts(order: OrderRow, names: readonly Expansion[]): Partial<Pick<Listed, Expansion>> {
  const wanted = EXPANSIONS.filter((name) => names.includes(name))
  return Object.fromEntries(wanted.map((name) => [name, PRESENTERS[name](order)]))
}

export function presentListed(order: OrderRow, expand: readonly Expansion[] = []): Listed {
  return { ...withIsoTimes(order.row), ...presentParts(order, expand) }
}

/** The full order; undefined without a client, which every order has. */
export function presentOrder(order: OrderRow): Order | undefined {
  const { row, client, tax, order_status } = order
  if (!client) return undefined
  return {
    project: withIsoTimes(row),
    invoice: presentInvoice(order),
    invoice_items: PRESENTERS.invoice_items(order),
    payments: PRESENTERS.payments(order),
    client: withIsoTimes(client),
    tax,
    order_status,
    artworks: PRESENTERS.artworks(order),
    accounting: presentAccounting(order),
  }
}
