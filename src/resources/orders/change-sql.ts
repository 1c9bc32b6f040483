import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders } from '../../kernel/db/client.ts'
import { assignments, insertRow } from '../../kernel/db/columns.ts'
import { type KeyName, resultStatement } from '../../kernel/db/idempotency.ts'
import { accountingEvent } from '../../kernel/db/outbox.ts'
import { companies, invoices, orderStatuses, orders } from '../../kernel/db/schema.ts'
import { invalid } from '../../kernel/http/errors.ts'
import { decodeOrder, listJson, type OrderJson, orderJson, type Part, WITH_INVOICE } from './parts-sql.ts'
import {
  byOrder,
  type Checks,
  type Column,
  issuesOf,
  LINES,
  listStatements,
  NEXT_VERSION,
  type Outcomes,
  outcomesOf,
  PAYMENTS,
  type Which,
} from './write-sql.ts'

export type Change = Placeholders<Actor, Column | KeyName | 'created_date'>

const LISTS = ['invoice_items', 'payments'] as const

/** The result of a write of an order as JSON for {@link decodeChanged}. Without `condition` the order must be live. */
export function changedJson(
  { companyId, orderId }: Which,
  { checks = {}, parts = ['invoice'], sent = {}, unknown = sql`NULL`, condition = sql`orders.deleted = 0` }: Shown = {},
): SQL {
  const lists = LISTS.map((name) => (sent[name] ? sql`json(${listJson(name)})` : sql`NULL`))
  return sql`json_array(${outcomesOf(checks)}, json((
    SELECT json_array(${orderJson(companyId, parts)}, ${sql.join(lists, sql`, `)})
    FROM orders ${WITH_INVOICE} WHERE orders.company_id = ${companyId} AND orders.id = ${orderId} AND ${condition})), ${unknown})`
}

interface Shown {
  checks?: Checks
  parts?: readonly Part[]
  /** The result has the lists that are here. */
  sent?: { [Name in (typeof LISTS)[number]]?: unknown }
  /** JSON of the positions of the lines whose id is none of the invoice's. */
  unknown?: SQL | undefined
  condition?: SQL | undefined
}

type ListOrNull = unknown[][] | null
type FoundJson = [order: OrderJson, items: ListOrNull, payments: ListOrNull]
export type ChangedJson = [Outcomes, FoundJson | null, unknown: number[] | null]

export type Changed = NonNullable<ReturnType<typeof decodeChanged>>

/**
 * Decodes {@link changedJson}; undefined where there is no order, whose checks mean nothing unless it `isNew`.
 *
 * @throws ApiError 400 naming each field whose check failed, and each line that is none of the invoice's
 */
export function decodeChanged(result: string | ChangedJson | null, isNew = false, itemsName = 'invoice_items') {
  const parsed: ChangedJson | null = typeof result === 'string' ? JSON.parse(result) : result
  const [outcomes, found, unknown] = parsed ?? [{}, null, null]
  const [json, invoice_items, payments] = found ?? []
  const lists = { invoice_items, payments }
  const order = json && decodeOrder(json, lists)
  const unknownLines = (order?.invoice && unknown) || []
  const issues = [
    ...issuesOf(outcomes),
    ...unknownLines.map((key) => ({ path: `${itemsName}.${key}.id`, message: 'is not a line of this invoice' })),
  ]
  if (issues.length > 0 && (order || isNew)) throw invalid(issues)
  return order && { order, sent: LISTS.filter((name) => lists[name]) }
}

interface Plan extends Shown {
  which: Which
  operation: 'create' | 'update' | Placeholder
  action: string | Placeholder
  /** Selects the id of its invoice. */
  invoice: SQL
  /** Nothing is written unless it holds, before and after each statement. */
  isAllowed: SQL
  changed?: { isOrder: SQL; isInvoice: SQL; order: Values; invoice: Values }
  /** When to insert an order, and its invoice. */
  inserted?: { external_id: Placeholder | undefined; order: SQL; invoice: SQL }
  /** The lines, see {@link byId}. */
  lines?: SQL | undefined
}

type Values = Record<string, Placeholder | SQL | undefined>

export function statementsOf(p: Change, { which, invoice, isAllowed, changed, inserted, lines, ...plan }: Plan) {
  const orderId = sql`${which.orderId}`
  const owner = { companyId: p.companyId, invoice }
  const invoiceValues = assignments(invoices, changed?.invoice ?? {})
  return {
    ...(Object.keys(invoiceValues).length > 0 &&
      changed && {
        changedInvoice: orm
          .update(invoices)
          .set({ ...invoiceValues, updated_at: sql`${p.now}` })
          .where(sql`${changed.isInvoice} AND ${isAllowed}`),
      }),
    ...(changed && {
      changedOrder: orm
        .update(orders)
        .set({ ...assignments(orders, changed.order), updated_at: sql`${p.now}`, version: NEXT_VERSION })
        .where(sql`${changed.isOrder} AND ${isAllowed}`),
    }),
    ...(inserted && insertions(p, inserted)),
    ...(lines && listStatements(LINES, owner, lines, isAllowed, !changed)),
    ...(p.payments && listStatements(PAYMENTS, owner, byOrder(PAYMENTS, p.payments, owner), isAllowed, !changed)),
    event: accountingEvent(p, plan.operation, orderId, isAllowed),
    audit: auditEntry(p, sql`${plan.action}`, orderId, isAllowed),
    result: resultStatement(p, changedJson(which, { ...plan, sent: { invoice_items: lines, payments: p.payments } })),
  }
}

/** The values of an invoice. Omitted fields come from the client; a client's reason belongs to the client's exemption. */
export function invoiceValues(p: Change) {
  const ofClient = (column: SQL) =>
    sql`(SELECT ${column} FROM clients WHERE company_id = ${p.companyId} AND id = ${p.client_id})`
  const tax_exempt_reason = p.tax_exempt ? sql`NULL` : ofClient(sql`tax_exempt_reason`)
  return { tax_exempt: ofClient(sql`tax_exempt`), tax_exempt_reason, ...p }
}

function insertions(p: Change, { external_id, ...when }: NonNullable<Plan['inserted']>) {
  const { companyId } = p
  const fromCounters = (condition: SQL) => sql`FROM ${companies} WHERE ${companies.id} = ${companyId} AND ${condition}`
  const number = sql`CAST(last_invoice_number + 1 AS TEXT)`
  const values = { ...p, number_key: number, company_id: companyId, created_at: p.now, updated_at: p.now }
  const defaultStatus = sql`(SELECT id FROM ${orderStatuses}
    WHERE company_id = ${companyId} AND is_default = 1 AND deleted = 0 ORDER BY position, id LIMIT 1)`
  const order = { order_status_id: defaultStatus, ...values, external_id, id: sql`last_order_id + 1` }
  const ids = { id: sql`last_invoice_id + 1`, project_id: sql`last_order_id` }
  return {
    order: insertRow(orders, order, fromCounters(when.order)),
    invoice: insertRow(invoices, { ...invoiceValues(p), ...values, ...ids, number }, fromCounters(when.invoice)),
  }
}
