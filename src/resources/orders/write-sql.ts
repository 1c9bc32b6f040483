import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { Placeholders } from '../../kernel/db/client.ts'
import { fold } from '../../kernel/db/search.ts'
import { invalid } from '../../kernel/http/errors.ts'
import type { OrderFields } from './contract.ts'
import type { Outcomes } from './queries.ts'
import { toHundredths } from './totals.ts'

export type Column = keyof ReturnType<typeof columnValues>

/** The order, by its key. */
export type Which = { companyId: Placeholder; orderId: Placeholder | SQL }

export const isAnyOrder = (p: Which) => sql`company_id = ${p.companyId} AND id = ${p.orderId}`

/** The order's invoice, which was deleted only with it. */
export const isItsInvoice = (p: Which) => sql`company_id = ${p.companyId} AND project_id = ${p.orderId}
  AND deleted <= (SELECT deleted FROM orders WHERE ${isAnyOrder(p)})`

export const NEXT_VERSION = sql`version + 1`

type Nullable = { start_date?: string | null | undefined; deadline?: string | null | undefined } & Partial<
  Record<'invoice_items' | 'payments', unknown>
>

/** The values of the fields that are sent, by column, and whether an accounting event is requested. */
export function columnValues(body: Omit<OrderFields, 'start_date' | 'deadline' | 'invoice_items'> & Nullable) {
  const { status_id, discount_amount, accounting_sync_enabled, ...sent } = body
  const { invoice_items: _items, payments: _payments, ...fields } = sent
  return {
    ...fields,
    title_key: fields.title === undefined ? undefined : fold(fields.title),
    order_status_id: status_id,
    due_date: fields.deadline,
    tax_id: fields.tax_id === 0 ? null : fields.tax_id,
    discount_hundredths: discount_amount === undefined ? undefined : toHundredths(discount_amount),
    requested: accounting_sync_enabled,
  }
}

export const isOrder = (p: Which) => sql`company_id = ${p.companyId} AND id = ${p.orderId} AND deleted = 0`
export const isInvoice = (p: Which) => sql`company_id = ${p.companyId} AND project_id = ${p.orderId} AND deleted = 0`
export const isLive = (p: Which) => sql`EXISTS (SELECT 1 FROM orders WHERE ${isOrder(p)})`

/** Conditions by the field that each is about. */
type Checks = Record<string, SQL>

/** Each field that refers to another row of the company. */
export function referenceChecks(p: Placeholders<'companyId', Column>): Checks {
  const exists = (table: SQL, id: Placeholder) =>
    sql`EXISTS (SELECT 1 FROM ${table} WHERE company_id = ${p.companyId} AND id = ${id} AND deleted = 0)`
  return {
    ...(p.client_id && { client_id: exists(sql`clients`, p.client_id) }),
    ...(p.order_status_id && { status_id: exists(sql`order_statuses`, p.order_status_id) }),
    ...(p.tax_id && { tax_id: sql`(${p.tax_id} IS NULL OR ${exists(sql`taxes`, p.tax_id)})` }),
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

/** Whether each check holds, as a JSON object. */
export function outcomesOf(checks: Checks): SQL {
  const members = Object.entries(checks).map(([field, check]) => sql`${sql.raw(`'${field}'`)}, ${check}`)
  return sql`json_object(${sql.join(members, sql`, `)})`
}

const MESSAGES: Record<string, string> = {
  client_id: 'must be a client of the company that is not deleted',
  status_id: 'must be an order status of the company: GET /order-statuses lists them',
  tax_id: 'must be a tax of the company, or 0 for none: GET /taxes lists them',
  discount_amount: 'must be at most 100 as a percentage, the stored type: or send discount_amount_type fixed_amount',
  discount_amount_type: 'must be fixed_amount: as a percentage, the stored amount must be at most 100',
}

/** @throws ApiError 400 naming the field of each check that failed */
export function assertPassed(outcomes: Outcomes): void {
  const failed = Object.keys(outcomes).filter((field) => !outcomes[field])
  if (failed.length === 0) return
  throw invalid(failed.map((path) => ({ path, message: MESSAGES[path] ?? 'is invalid' })))
}
