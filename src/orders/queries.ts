import { and, asc, eq, type SQL, sql } from 'drizzle-orm'
import { auditEntry } from '../db/audit.ts'
import { type Database, orm, type Results } from '../db/client.ts'
import { aliased, clientColumns, columnsAs, itemColumns, rowOrNull } from '../db/columns.ts'
import { type AccountingRow, accountingNotice, accountingOfOrder } from '../db/outbox.ts'
import {
  artworks,
  clients,
  companies,
  invoiceItems,
  invoices,
  orderStatuses,
  orders,
  payments,
  taxes,
} from '../db/schema.ts'
import type { RequestContext } from '../http/context.ts'
import { invalid } from '../http/errors.ts'
import { isoDate } from '../http/time.ts'
import type { NewOrder, OrderFields } from './contract.ts'
import type { FullOrderRows, OrderRows } from './present.ts'
import { toHundredths } from './totals.ts'

export async function findOrder(db: Database, companyId: number, id: number): Promise<FullOrderRows | undefined> {
  const [accounting, ...parts] = await db.read([
    accountingOfOrder(companyId, sql`${id}`),
    ...orderParts(companyId, sql`${id}`),
  ])
  return withAccounting(assemble(parts), accounting)
}

/** The id that the order made in this batch was given. */
const MADE_ID = sql`(SELECT value FROM sequences WHERE name = 'orders')`

/**
 * Makes an order and its invoice. The checks of what it refers to stand in every statement: inside one transaction they
 * all come out alike, so either everything is written or nothing.
 *
 * @throws ApiError 400 naming each reference that is not the company's or is deleted
 */
export async function createOrder(context: RequestContext, body: NewOrder): Promise<FullOrderRows> {
  const { db, companyId, now } = context
  const checks = referenceChecks(companyId, body)
  const ok = allOf(checks)
  const defaultStatus = sql`(SELECT id FROM ${orderStatuses}
    WHERE company_id = ${companyId} AND is_default = 1 AND deleted = 0 ORDER BY position, id LIMIT 1)`
  const invoice = invoiceColumns(body)

  const [, , , notices, , accounting, core, items, paid, arts, [verdict]] = await db.write([
    orm.insert(orders).select(
      sql`SELECT ${companyId}, (SELECT value + 1 FROM sequences WHERE name = 'orders'), ${body.title}, ${body.client_id},
        ${body.description ?? null}, ${body.start_date ?? null}, ${body.deadline ?? null},
        ${body.status_id ?? defaultStatus}, ${body.client_notes ?? null}, ${isoDate(now)}, ${now}, ${now}, 0 WHERE ${ok}`,
    ),
    orm
      .update(companies)
      .set({ lastInvoiceNumber: sql`${companies.lastInvoiceNumber} + 1` })
      .where(and(eq(companies.id, companyId), ok)),
    orm.insert(invoices).select(
      sql`SELECT ${companyId}, (SELECT value + 1 FROM sequences WHERE name = 'invoices'), ${MADE_ID},
        CAST(last_invoice_number AS TEXT), ${invoice.dueDate ?? null}, ${invoice.taxId ?? null},
        ${Number(invoice.taxExempt ?? false)}, ${invoice.taxExemptReason ?? null}, ${invoice.discountHundredths ?? 0},
        ${invoice.discountAmountType ?? 'percentage'}, ${invoice.discountType ?? 'before_tax'}, 0, ${now}, ${now}
        FROM ${companies} WHERE id = ${companyId} AND ${ok}`,
    ),
    accountingNotice(context, 'create', MADE_ID, body.accounting_sync_enabled, ok),
    auditEntry(context, 'order.create', MADE_ID, ok),
    accountingOfOrder(companyId, MADE_ID),
    ...orderParts(companyId, MADE_ID, ok),
    verdictOf(checks),
  ])
  const rows = withAccounting(assemble([core, items, paid, arts]), accounting)
  if (!rows) throw refused(checks, verdict)
  if (notices.length > 0) context.wakeAccounting()
  return rows
}

/**
 * Sets only the columns that are sent, so that two concurrent updates keep what they did not both set.
 *
 * @returns undefined where there is no such order
 * @throws ApiError 400 naming each field that refers to what is not the company's, or makes the discount impossible
 */
export async function updateOrder(
  context: RequestContext,
  id: number,
  body: OrderFields,
): Promise<OrderRows | undefined> {
  const { db, companyId, now } = context
  const checks = { ...referenceChecks(companyId, body), ...discountCheck(companyId, id, body) }
  const isThis = sql`company_id = ${companyId} AND id = ${id} AND deleted = 0`
  const ok = sql`${allOf(checks)} AND EXISTS (SELECT 1 FROM orders WHERE ${isThis})`

  const [, , notices, , core, items, paid, arts, [verdict]] = await db.writeRepeatably([
    orm
      .update(orders)
      .set({ ...projectColumns(body), updatedAt: now })
      .where(sql`${isThis} AND ${ok}`),
    orm
      .update(invoices)
      .set({ ...invoiceColumns(body), updatedAt: now })
      .where(sql`company_id = ${companyId} AND order_id = ${id} AND deleted = 0 AND ${ok}`),
    accountingNotice(context, 'update', sql`${id}`, body.accounting_sync_enabled, ok),
    auditEntry(context, 'order.update', sql`${id}`, ok),
    ...orderParts(companyId, sql`${id}`),
    verdictOf(checks),
  ])
  const rows = assemble([core, items, paid, arts])
  if (rows && !Object.values(verdict ?? {}).every(Boolean)) throw refused(checks, verdict)
  if (notices.length > 0) context.wakeAccounting()
  return rows
}

/** @returns undefined where there is no such order, or it is deleted already */
export async function deleteOrder(context: RequestContext, id: number): Promise<OrderRows | undefined> {
  const { db, companyId, now } = context
  const isLive = sql`EXISTS (SELECT 1 FROM orders WHERE company_id = ${companyId} AND id = ${id} AND deleted = 0)`
  const [notices, , , [deleted], core, items, paid, arts] = await db.write([
    accountingNotice(context, 'delete', sql`${id}`, undefined, isLive),
    auditEntry(context, 'order.delete', sql`${id}`, isLive),
    orm
      .update(invoices)
      .set({ deleted: true, updatedAt: now })
      .where(sql`company_id = ${companyId} AND order_id = ${id} AND deleted = 0 AND ${isLive}`),
    orm
      .update(orders)
      .set({ deleted: true, updatedAt: now })
      .where(sql`company_id = ${companyId} AND id = ${id} AND deleted = 0`)
      .returning({ id: orders.id }),
    ...orderParts(companyId, sql`${id}`, sql`1`, true),
  ])
  if (notices.length > 0) context.wakeAccounting()
  return deleted && assemble([core, items, paid, arts])
}

/** The four queries of a whole order: what stands in one row, and the three lists. */
function orderParts(companyId: number, id: SQL, when: SQL = sql`1`, evenDeleted = false) {
  const invoiceId = sql`(SELECT id FROM invoices WHERE company_id = ${companyId} AND order_id = ${id})`
  const isLive = (table: typeof orders | typeof invoices) => (evenDeleted ? undefined : sql`${table.deleted} = 0`)
  return [
    orm
      .select({
        project: columnsAs(orders, 'o'),
        invoice: columnsAs(invoices, 'i'),
        tax: columnsAs(taxes, 't'),
        client: aliased(clientColumns, 'c'),
        status: columnsAs(orderStatuses, 's'),
      })
      .from(orders)
      .innerJoin(clients, and(eq(clients.companyId, orders.companyId), eq(clients.id, orders.clientId)))
      .leftJoin(
        invoices,
        and(eq(invoices.companyId, orders.companyId), eq(invoices.orderId, orders.id), isLive(invoices)),
      )
      .leftJoin(taxes, and(eq(taxes.companyId, invoices.companyId), eq(taxes.id, invoices.taxId)))
      .leftJoin(
        orderStatuses,
        and(eq(orderStatuses.companyId, orders.companyId), eq(orderStatuses.id, orders.orderStatusId)),
      )
      .where(and(eq(orders.companyId, companyId), sql`${orders.id} = ${id}`, isLive(orders), when)),
    orm
      .select(itemColumns)
      .from(invoiceItems)
      .where(sql`company_id = ${companyId} AND invoice_id = ${invoiceId} AND deleted = 0`)
      .orderBy(asc(invoiceItems.position), asc(invoiceItems.id)),
    orm
      .select()
      .from(payments)
      .where(sql`company_id = ${companyId} AND invoice_id = ${invoiceId}`)
      .orderBy(asc(payments.id)),
    orm.select().from(artworks).where(sql`company_id = ${companyId} AND order_id = ${id}`).orderBy(asc(artworks.id)),
  ] as const
}

type Parts = ReturnType<typeof orderParts>
type Fetched = Results<Parts>

function assemble([[core], items, paid, arts]: Fetched): OrderRows | undefined {
  if (!core) return undefined
  const invoice = rowOrNull(core.invoice)
  return {
    project: core.project,
    client: core.client,
    invoice,
    tax: rowOrNull(core.tax),
    status: rowOrNull(core.status),
    items: invoice ? items : [],
    payments: invoice ? paid : [],
    artworks: arts,
  }
}

function withAccounting(rows: OrderRows | undefined, [accounting]: AccountingRow[]): FullOrderRows | undefined {
  return rows && accounting && { ...rows, accounting }
}

function projectColumns(body: OrderFields) {
  return {
    title: body.title,
    clientId: body.client_id,
    description: body.description,
    startDate: body.start_date,
    deadline: body.deadline,
    orderStatusId: body.status_id,
    clientNotes: body.client_notes,
  }
}

function invoiceColumns(body: OrderFields) {
  return {
    dueDate: body.deadline,
    taxId: body.tax_id === undefined ? undefined : body.tax_id || null,
    taxExempt: body.tax_exempt,
    taxExemptReason: body.tax_exempt_reason,
    discountHundredths: body.discount_amount === undefined ? undefined : toHundredths(body.discount_amount),
    discountAmountType: body.discount_amount_type,
    discountType: body.discount_type,
  }
}

type Checks = Record<string, SQL>

/** A condition per field that refers to another row of the company. */
function referenceChecks(companyId: number, body: OrderFields): Checks {
  const exists = (table: SQL, id: number) =>
    sql`EXISTS (SELECT 1 FROM ${table} WHERE company_id = ${companyId} AND id = ${id} AND deleted = 0)`
  return {
    ...(body.client_id !== undefined && { client_id: exists(sql`clients`, body.client_id) }),
    ...(body.status_id !== undefined && { status_id: exists(sql`order_statuses`, body.status_id) }),
    ...(body.tax_id && { tax_id: exists(sql`taxes`, body.tax_id) }),
  }
}

/** An amount or a type that is sent alone must go with the stored other. */
function discountCheck(companyId: number, orderId: number, body: OrderFields): Checks {
  const { discount_amount, discount_amount_type } = body
  if ((discount_amount === undefined) === (discount_amount_type === undefined)) return {}
  const isPercentage =
    discount_amount_type === undefined
      ? sql`discount_amount_type = 'percentage'`
      : sql`${discount_amount_type} = 'percentage'`
  const isOver =
    discount_amount === undefined ? sql`discount_hundredths > 10000` : sql`${toHundredths(discount_amount)} > 10000`
  const field = discount_amount === undefined ? 'discount_amount_type' : 'discount_amount'
  return {
    [field]: sql`NOT EXISTS (SELECT 1 FROM invoices WHERE company_id = ${companyId} AND order_id = ${orderId}
      AND deleted = 0 AND ${isPercentage} AND ${isOver})`,
  }
}

function allOf(checks: Checks): SQL {
  const conditions = Object.values(checks)
  return conditions.length === 0 ? sql`1` : sql`(${sql.join(conditions, sql` AND `)})`
}

/** The outcome of each check, by field. */
function verdictOf(checks: Checks) {
  const columns = Object.entries({ ...checks, ok: sql`1` }).map(([field, check]) => [
    field,
    sql<number>`${check}`.as(field),
  ])
  return orm.select(Object.fromEntries(columns)).from(sql`(SELECT 1)`)
}

function refused(checks: Checks, verdict: Record<string, unknown> | undefined) {
  const failed = Object.keys(checks).filter((field) => !verdict?.[field])
  return invalid(
    failed.map((field) => ({
      path: field,
      message: field.startsWith('discount')
        ? 'a percentage must be at most 100; the stored discount makes this one more'
        : 'is not of this company, or is deleted',
    })),
  )
}
