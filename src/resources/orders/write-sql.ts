import { getTableName, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders } from '../../kernel/db/client.ts'
import { assignments, columnsFrom, insertRow } from '../../kernel/db/columns.ts'
import { companies, invoiceItems, payments } from '../../kernel/db/schema.ts'
import { fold, lineSearchTexts } from '../../kernel/db/search.ts'
import type { Issue } from '../../kernel/http/errors.ts'
import type { OrderFields } from './contract.ts'
import type { NewPayment } from './shapes.ts'
import { toHundredths } from './totals.ts'

export type Which = { companyId: Placeholder; orderId: Placeholder | SQL }

export const isAnyOrder = (p: Which) => sql`company_id = ${p.companyId} AND id = ${p.orderId}`
export const isOrder = (p: Which) => sql`${isAnyOrder(p)} AND deleted = 0`
export const isLive = (p: Which) => sql`EXISTS (SELECT 1 FROM orders WHERE ${isOrder(p)})`
export const isInvoice = (p: Which) => sql`company_id = ${p.companyId} AND project_id = ${p.orderId} AND deleted = 0`

/** For an invoice and its order: not deleted, or only with the order. One deleted alone before it has a lower time. */
export const isKept = sql`invoices.deleted <= (orders.deleted AND invoices.updated_at >= orders.updated_at)`

/** The order's invoice that {@link isKept}. */
export const isItsInvoice = (p: Which) => sql`company_id = ${p.companyId} AND project_id = ${p.orderId}
  AND EXISTS (SELECT 1 FROM orders WHERE ${isAnyOrder(p)} AND ${isKept})`

/**
 * The values of the fields that are sent, by column, with the lists as JSON, and whether an accounting event is
 * requested.
 */
export function columnValues(body: OrderFields & { payments?: NewPayment[] | undefined }) {
  const { status_id, discount_amount, accounting_sync_enabled, invoice_items, payments, ...fields } = body
  const texts = lineSearchTexts(invoice_items ?? [])
  const items = invoice_items?.map(({ unit_price, ...item }, index) => {
    return { ...item, unit_price_cents: toHundredths(unit_price), search_text: texts[index] }
  })
  const paid = payments?.map(({ amount, ...payment }) => ({ ...payment, amount_cents: toHundredths(amount) }))
  return {
    ...fields,
    title_key: fields.title === undefined ? undefined : fold(fields.title),
    order_status_id: status_id,
    due_date: fields.deadline,
    tax_id: fields.tax_id === 0 ? null : fields.tax_id,
    discount_hundredths: discount_amount === undefined ? undefined : toHundredths(discount_amount),
    requested: accounting_sync_enabled,
    invoice_items: items && JSON.stringify(items),
    payments: paid && JSON.stringify(paid),
  }
}

export type Column = keyof ReturnType<typeof columnValues>

export type Checks = Record<string, SQL>

/** Each field that refers to another row of the company. The order that `isStored` keeps its own, deleted ones too. */
export function referenceChecks(p: Placeholders<'companyId', Column>, isStored = sql`0`): Checks {
  const exists = (table: SQL, id: Placeholder) =>
    sql`EXISTS (SELECT 1 FROM ${table} WHERE company_id = ${p.companyId} AND id = ${id} AND deleted = 0)`
  const isOrders = (column: SQL, id: Placeholder) =>
    sql`EXISTS (SELECT 1 FROM orders WHERE ${isStored} AND ${column} = ${id})`
  return {
    ...(p.client_id && {
      client_id: sql`(${exists(sql`clients`, p.client_id)} OR ${isOrders(sql`client_id`, p.client_id)})`,
    }),
    ...(p.order_status_id && {
      status_id: sql`(${exists(sql`order_statuses`, p.order_status_id)}
        OR ${isOrders(sql`order_status_id`, p.order_status_id)})`,
    }),
    ...(p.tax_id && {
      tax_id: sql`(${p.tax_id} IS NULL OR ${exists(sql`taxes`, p.tax_id)} OR EXISTS (SELECT 1 FROM invoices
        WHERE company_id = ${p.companyId} AND tax_id = ${p.tax_id}
          AND project_id = (SELECT id FROM orders WHERE ${isStored})))`,
    }),
  }
}

/** An amount or a type that is sent alone must go with the stored other. */
export function discountCheck(p: Placeholders<never, Column>, isInvoiceOfIt: SQL): Checks {
  const { discount_hundredths: amount, discount_amount_type: type } = p
  if ((amount === undefined) === (type === undefined)) return {}
  return {
    [amount ? 'discount_amount' : 'discount_amount_type']: sql`NOT EXISTS (SELECT 1 FROM invoices WHERE ${isInvoiceOfIt}
      AND ${type ?? sql`discount_amount_type`} = 'percentage' AND ${amount ?? sql`discount_hundredths`} > 10000)`,
  }
}

export const allOf = (checks: Checks) => sql`(${sql.join([sql`1`, ...Object.values(checks)], sql` AND `)})`

export function outcomesOf(checks: Checks): SQL {
  const members = Object.entries(checks).map(([field, check]) => sql`${sql.raw(`'${field}'`)}, ${check}`)
  return sql`json_object(${sql.join(members, sql`, `)})`
}

/** Whether each check holds (1 or 0), by the field that it is about. */
export type Outcomes = Record<string, number>

const MESSAGES: Record<string, string> = {
  client_id: 'must be a client of the company, and not a deleted one',
  status_id: 'must be an order status of the company, and not a deleted one: GET /order-statuses lists them',
  tax_id: 'must be a tax of the company that is not deleted, or 0 for none: GET /taxes lists them',
  discount_amount: 'must be at most 100 as a percentage, the stored type: or send discount_amount_type fixed_amount',
  discount_amount_type: 'must be fixed_amount: as a percentage, the stored amount must be at most 100',
}

export function issuesOf(outcomes: Outcomes): Issue[] {
  const failed = Object.keys(outcomes).filter((field) => !outcomes[field])
  return failed.map((path) => ({ path, message: MESSAGES[path] ?? 'is invalid' }))
}

/** The invoice whose lists are written: `invoice` selects its id. */
interface Owner {
  companyId: Placeholder | SQL
  invoice: SQL
}

const ofItem = (name: string) => `item.value ->> '${name}'`

/** A list of an invoice: the values of its columns in an `item` that was sent, its order, and the counter of its ids. */
export const LINES = {
  table: invoiceItems,
  columns: {
    ...columnsFrom(ofItem, ['title', 'description', 'quantity', 'unit_price_cents', 'taxable', 'supplier', 'style']),
    ...columnsFrom(ofItem, ['color', 'size', 'sku', 'search_text']),
    position: sql`item.key + 1`,
  },
  order: sql`position, id`,
  lastId: sql`last_invoice_item_id`,
}
export const PAYMENTS = {
  table: payments,
  columns: columnsFrom(ofItem, ['amount_cents', 'method', 'paid_at', 'note']),
  order: sql`id`,
  lastId: sql`last_payment_id`,
}

type List = typeof LINES | typeof PAYMENTS

const isOf = (table: List['table'], { companyId, invoice }: Owner) =>
  sql`${table.company_id} = ${companyId} AND ${table.invoice_id} = ${invoice}`

/** Selects `key`, `value` and `id` of each element of a JSON list, which has the ids of those that stay. */
export const byId = (json: Placeholder) => sql`SELECT key, value, value ->> 'id' AS id FROM json_each(${json})`

/** {@link byId} of elements without ids: the stored elements stay in their order, the first for the first. */
export function byOrder({ table, order }: List, json: Placeholder, owner: Owner): SQL {
  const stored = sql`SELECT id, row_number() OVER (ORDER BY ${order}) AS number FROM ${table} WHERE ${isOf(table, owner)}`
  return sql`SELECT sent.key, sent.value, stored.id
    FROM json_each(${json}) AS sent LEFT JOIN (${stored}) AS stored ON stored.number = sent.key + 1`
}

/** Selects the positions of lines whose id is not that of a line of the invoice. */
export const unknownLines = (json: Placeholder, owner: Owner) => sql`SELECT item.key FROM (${byId(json)}) AS item
  WHERE item.id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM invoice_items WHERE ${isOf(invoiceItems, owner)} AND invoice_items.id = item.id)`

/** With a limit these elements are selected first, not again for each row that they are joined with. */
const elements = (sent: SQL, condition: SQL) => sql`(SELECT * FROM (${sent}) WHERE ${condition} LIMIT -1) AS item`

/** Replaces a list of an invoice, which is empty if that `isNew`. Equal elements are not written. @param sent as {@link byId} */
export function listStatements(list: List, owner: Owner, sent: SQL, isAllowed: SQL, isNew = false) {
  const { table, columns, lastId } = list
  const name = getTableName(table)
  const isStored = isOf(table, owner)
  // It depends on the element, or SQLite would compare each stored row with each element.
  const isElement = isOf(table, { ...owner, companyId: sql`${owner.companyId} + 0 * item.id` })
  const isOther = sql`(${sql.raw(Object.keys(columns).join())}) IS NOT (${sql.join(Object.values(columns), sql`, `)})`
  const id = sql`${lastId} + row_number() OVER (ORDER BY item.key)`
  const added = insertRow(
    table,
    { ...columns, company_id: owner.companyId, id, invoice_id: owner.invoice },
    sql`FROM ${companies} CROSS JOIN ${elements(sent, sql`id IS NULL`)}
      WHERE ${companies.id} = ${owner.companyId} AND ${isAllowed}`,
  )
  if (isNew) return { [`${name}_added`]: added }
  return {
    [`${name}_removed`]: orm
      .delete(table)
      .where(sql`${isStored} AND ${table.id} NOT IN (SELECT id FROM (${sent}) WHERE id IS NOT NULL) AND ${isAllowed}`),
    [`${name}_changed`]: orm
      .update(table)
      .set(assignments(table, columns))
      .from(elements(sent, sql`id IS NOT NULL`))
      .where(sql`${isElement} AND ${table.id} = item.id AND ${isOther} AND ${isAllowed}`),
    [`${name}_added`]: added,
  }
}
