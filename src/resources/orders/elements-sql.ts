import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import { orm } from '../../kernel/db/client.ts'
import { assignments, insertRow } from '../../kernel/db/columns.ts'
import { companies, invoiceItems, payments } from '../../kernel/db/schema.ts'
import { lineSearchTexts } from '../../kernel/db/search.ts'
import type { NewItem, NewPayment } from './element-contract.ts'
import { LISTS, type Lists } from './queries.ts'
import { toHundredths } from './totals.ts'

/** The invoice whose lists are written: `invoice` selects its id. */
interface Owner {
  companyId: Placeholder
  invoice: SQL
}

/** The JSON of {@link lineStatements}. */
export function linesJson(items: NewItem[]): string {
  const texts = lineSearchTexts(items)
  const lines = items.map(({ unit_price, ...item }, index) => ({
    ...item,
    unit_price_cents: toHundredths(unit_price),
    search_text: texts[index],
  }))
  return JSON.stringify(lines)
}

/** The JSON of {@link paymentStatements}. */
export function paymentsJson(list: NewPayment[]): string {
  return JSON.stringify(list.map(({ amount, ...payment }) => ({ ...payment, amount_cents: toHundredths(amount) })))
}

/** Columns from an element of a JSON list. */
function sentColumns<const Name extends string>(names: readonly Name[]) {
  const entries = names.map((name) => [name, sql`item.value ->> ${sql.raw(`'${name}'`)}`])
  return Object.fromEntries(entries) as Record<Name, SQL>
}

const LINE = {
  ...sentColumns(['title', 'description', 'quantity', 'unit_price_cents', 'taxable', 'supplier', 'style', 'color']),
  ...sentColumns(['size', 'sku', 'search_text']),
  position: sql`item.key + 1`,
}
const PAYMENT = sentColumns(['amount_cents', 'method', 'paid_at', 'note'])

const list = (values: SQL[]) => sql`(${sql.join(values, sql`, `)})`
const areDifferent = (table: string, columns: Record<string, SQL>) =>
  sql`${list(Object.keys(columns).map((name) => sql.raw(`${table}.${name}`)))} IS NOT ${list(Object.values(columns))}`

const isLineOf = ({ companyId, invoice }: Owner) => sql`invoice_items.company_id = ${companyId}
  AND invoice_items.invoice_id = ${invoice} AND invoice_items.deleted = 0`
const isPaymentOf = ({ companyId, invoice }: Owner) =>
  sql`payments.company_id = ${companyId} AND payments.invoice_id = ${invoice}`

/** Selects `key`, `value` and `id` of each element of a JSON list, which has the ids of those that stay. */
export const byId = (json: Placeholder) => sql`SELECT key, value, value ->> 'id' AS id FROM json_each(${json})`

/** {@link byId} of elements without ids: the stored elements stay in their order, the first for the first. */
export const linesByOrder = (json: Placeholder, owner: Owner) =>
  inOrderOf(
    json,
    sql`SELECT id, row_number() OVER (ORDER BY position, id) AS number FROM invoice_items WHERE ${isLineOf(owner)}`,
  )
const paymentsByOrder = (json: Placeholder, owner: Owner) =>
  inOrderOf(json, sql`SELECT id, row_number() OVER (ORDER BY id) AS number FROM payments WHERE ${isPaymentOf(owner)}`)

const inOrderOf = (json: Placeholder, stored: SQL) => sql`SELECT sent.key, sent.value, stored.id
  FROM json_each(${json}) AS sent LEFT JOIN (${stored}) AS stored ON stored.number = sent.key + 1`

/** Selects the positions of lines whose id is not that of a line of the invoice. */
export const unknownLines = (json: Placeholder, owner: Owner) => sql`SELECT item.key FROM (${byId(json)}) AS item
  WHERE item.id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM invoice_items WHERE ${isLineOf(owner)} AND invoice_items.id = item.id)`

/** Replaces the lines of an invoice. Equal lines are not written. @param sent see {@link byId} */
export function lineStatements(owner: Owner, sent: SQL, isAllowed: SQL) {
  const isOfInvoice = isLineOf(owner)
  const lastId = sql`(SELECT max(id) FROM invoice_items WHERE company_id = ${owner.companyId})`
  return {
    linesRemoved: orm
      .update(invoiceItems)
      .set({ deleted: sql`1` })
      .where(sql`${isOfInvoice} AND ${isLeft('invoice_items', sent)} AND ${isAllowed}`),
    linesChanged: orm
      .update(invoiceItems)
      .set(assignments(invoiceItems, LINE))
      .from(kept(sent))
      .where(
        sql`${isOfInvoice} AND invoice_items.id = item.id AND ${areDifferent('invoice_items', LINE)} AND ${isAllowed}`,
      ),
    linesAdded: insertRow(
      invoiceItems,
      { ...LINE, company_id: owner.companyId, id: sql`coalesce(${lastId}, 0) + ${NUMBER}`, invoice_id: owner.invoice },
      sql`FROM (${sent}) AS item WHERE item.id IS NULL AND ${isAllowed}`,
    ),
  }
}

/** Replaces the payments of an invoice, the first by the first. Equal ones are not written. */
export function paymentStatements(owner: Owner, json: Placeholder, isAllowed: SQL) {
  const sent = paymentsByOrder(json, owner)
  const isOfInvoice = isPaymentOf(owner)
  return {
    paymentsRemoved: orm.delete(payments).where(sql`${isOfInvoice} AND ${isLeft('payments', sent)} AND ${isAllowed}`),
    paymentsChanged: orm
      .update(payments)
      .set(assignments(payments, PAYMENT))
      .from(kept(sent))
      .where(sql`${isOfInvoice} AND payments.id = item.id AND ${areDifferent('payments', PAYMENT)} AND ${isAllowed}`),
    paymentsAdded: insertRow(
      payments,
      { ...PAYMENT, company_id: owner.companyId, id: sql`last_payment_id + ${NUMBER}`, invoice_id: owner.invoice },
      sql`FROM ${companies} CROSS JOIN (${sent}) AS item
        WHERE ${companies.id} = ${owner.companyId} AND item.id IS NULL AND ${isAllowed}`,
    ),
  }
}

const NUMBER = sql`row_number() OVER (ORDER BY item.key)`

const isLeft = (table: string, sent: SQL) =>
  sql`${sql.raw(table)}.id NOT IN (SELECT id FROM (${sent}) WHERE id IS NOT NULL)`

/** With a limit the list is read once and indexed, not parsed again for each stored row. */
const kept = (sent: SQL) => sql`(SELECT * FROM (${sent}) WHERE id IS NOT NULL LIMIT -1) AS item`

/** Selects the JSON of an invoice's lines, in their order, as {@link LISTS} decodes them. */
export const storedLines = (owner: Owner) => sql`(SELECT json_group_array(json(line))
  FROM (SELECT ${LISTS.invoice_items.row} AS line FROM invoice_items WHERE ${isLineOf(owner)} ORDER BY position, id))`

/** Selects the JSON of an invoice's payments, in their order. */
export const storedPayments = (owner: Owner) => sql`(SELECT json_group_array(json(payment))
  FROM (SELECT ${LISTS.payments.row} AS payment FROM payments WHERE ${isPaymentOf(owner)} ORDER BY id))`

/** The elements of an order's lists, as JSON parsed from a result; null for a list that was not sent. */
export type ListJson = unknown[][] | null

export function decodeLists({
  invoice_items,
  payments,
}: {
  invoice_items?: ListJson
  payments?: ListJson
}): Partial<Lists> {
  return {
    ...(invoice_items && { invoice_items: invoice_items.map(LISTS.invoice_items.decode) }),
    ...(payments && { payments: payments.map(LISTS.payments.decode) }),
  }
}
