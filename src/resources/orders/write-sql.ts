import { getTableName, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders } from '../../kernel/db/client.ts'
import { assignments, columnsFrom, insertRow } from '../../kernel/db/columns.ts'
import { failWhen, isOtherVersion } from '../../kernel/db/refusals.ts'
import { companies, invoiceItems, invoices, orderStatuses, orders, payments } from '../../kernel/db/schema.ts'
import { isKept, listJson, orderJson, type Part, WITH_INVOICE } from './parts-sql.ts'

export type OrderKey = { companyId: Placeholder; orderId: Placeholder | SQL }

export const isOrder = (p: OrderKey) => sql`company_id = ${p.companyId} AND id = ${p.orderId}`
export const isLiveOrder = (p: OrderKey) => sql`${isOrder(p)} AND deleted = 0`
export const hasLiveOrder = (p: OrderKey) => sql`EXISTS (SELECT 1 FROM orders WHERE ${isLiveOrder(p)})`
export const isLiveInvoice = (p: OrderKey) =>
  sql`company_id = ${p.companyId} AND project_id = ${p.orderId} AND deleted = 0`

/** The order's invoice that {@link isKept}. */
export const isKeptInvoice = (p: OrderKey) => sql`company_id = ${p.companyId} AND project_id = ${p.orderId}
  AND EXISTS (SELECT 1 FROM orders WHERE ${isOrder(p)} AND ${isKept})`

export type Checks = Record<string, SQL | undefined>

function outcomesOf(checks: Checks): SQL {
  const members = Object.entries(checks).flatMap(([field, check]) =>
    check ? sql`${sql.raw(`'${field}'`)}, ${check}` : [],
  )
  return sql`json_object(${sql.join(members, sql`, `)})`
}

export const SENT_LISTS = ['invoice_items', 'payments'] as const

interface Selection {
  checks?: Checks
  parts?: readonly Part[]
  /** JSON of the positions of the lines whose id is none of the invoice's. */
  unknown?: SQL | undefined
  condition?: SQL
}

/** The result of a write of an order as JSON for {@link decodeChanged}, with the lists that are sent. */
export function changedJson(
  { companyId, orderId, ...sent }: OrderKey & { [Name in (typeof SENT_LISTS)[number]]?: Placeholder },
  { checks = {}, parts = ['invoice'], unknown = sql`NULL`, condition = sql`orders.deleted = 0` }: Selection = {},
): SQL {
  const lists = SENT_LISTS.map((name) => (sent[name] ? sql`json(${listJson(name)})` : sql`NULL`))
  return sql`json_array(${outcomesOf(checks)}, json((
    SELECT json_array(${orderJson(companyId, parts)}, ${sql.join(lists, sql`, `)})
    FROM orders ${WITH_INVOICE} WHERE orders.company_id = ${companyId} AND orders.id = ${orderId} AND ${condition})), ${unknown})`
}

export const versionGuard = (p: OrderKey & Placeholders<never, 'versions'>) =>
  p.versions && { guard: failWhen(isOtherVersion(p.versions), sql`orders`, isOrder(p)) }

type Values = Record<string, Placeholder | SQL | undefined>

/** Every change of an order raises its version. */
export function changedOrder({ now }: Placeholders<'now'>, isChanged: SQL, values: Values = {}) {
  const changed = assignments(orders, { ...values, updated_at: now, version: sql`version + 1` })
  return orm.update(orders).set(changed).where(isChanged)
}

export function changedInvoice({ now }: Placeholders<'now'>, isChanged: SQL, values: Values) {
  const changed = assignments(invoices, values)
  if (Object.keys(changed).length === 0) return {}
  const dated = { ...changed, updated_at: sql`${now}` }
  return { changedInvoice: orm.update(invoices).set(dated).where(isChanged) }
}

type OfClient = Placeholders<'companyId', 'client_id' | 'tax_exempt'>

/** The client's exemption, for an invoice without its own. A client's reason belongs to the client's exemption. */
export function exemptionOfClient({ companyId, client_id, tax_exempt }: OfClient) {
  const ofClient = (column: SQL) =>
    sql`(SELECT ${column} FROM clients WHERE company_id = ${companyId} AND id = ${client_id})`
  const tax_exempt_reason = tax_exempt ? sql`NULL` : ofClient(sql`tax_exempt_reason`)
  return { tax_exempt: ofClient(sql`tax_exempt`), tax_exempt_reason }
}

/** Inserts an order with an invoice, each when its condition holds. */
export function insertions(p: OfClient & Placeholders<'now', 'external_id'>, when: { order: SQL; invoice: SQL }) {
  const { companyId } = p
  const fromCounters = (condition: SQL) => sql`FROM ${companies} WHERE ${companies.id} = ${companyId} AND ${condition}`
  const number = sql`CAST(last_invoice_number + 1 AS TEXT)`
  const values = { ...p, number_key: number, company_id: companyId, created_at: p.now, updated_at: p.now }
  const defaultStatus = sql`(SELECT id FROM ${orderStatuses}
    WHERE company_id = ${companyId} AND is_default = 1 AND deleted = 0 ORDER BY position, id LIMIT 1)`
  const order = { order_status_id: defaultStatus, ...values, id: sql`last_order_id + 1` }
  const ids = { id: sql`last_invoice_id + 1`, project_id: sql`last_order_id` }
  return {
    order: insertRow(orders, order, fromCounters(when.order)),
    invoice: insertRow(invoices, { ...exemptionOfClient(p), ...values, ...ids, number }, fromCounters(when.invoice)),
  }
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
