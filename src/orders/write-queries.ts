import { and, eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { type Actor, actorOf, auditEntry } from '../db/audit.ts'
import { orm, type Placeholders, prepare } from '../db/client.ts'
import { given, insertRow } from '../db/columns.ts'
import { accountingEvent } from '../db/outbox.ts'
import { companies, invoices, orderStatuses, orders } from '../db/schema.ts'
import { isoDate } from '../http/contract.ts'
import { invalid } from '../http/errors.ts'
import type { NewOrder, OrderFields } from './contract.ts'
import { orderRows, totalsRow } from './queries.ts'
import { type FullOrderRows, type OrderTotalsRows, readOrder } from './rows.ts'
import { toHundredths } from './totals.ts'

type Field = keyof ReturnType<typeof valuesOf>
type ChangeOf<Name extends string> = Placeholders<Actor | Name, Field>

type Creation = ChangeOf<'today'>

/** The statements of {@link createOrder}. */
const creation = {
  order: prepare((p: Creation) => {
    const defaultStatus = sql`(SELECT id FROM ${orderStatuses}
      WHERE company_id = ${p.companyId} AND is_default = 1 AND deleted = 0 ORDER BY position, id LIMIT 1)`
    return insertRow(
      orders,
      {
        ...given(projectColumns(p)),
        company_id: p.companyId,
        id: sql`last_order_id + 1`,
        order_status_id: p.status_id ?? defaultStatus,
        created_date: p.today,
        created_at: p.now,
        updated_at: p.now,
      },
      isCreatedBy(p),
    )
  }),
  number: prepare((p: Creation) =>
    orm
      .update(companies)
      .set({ last_invoice_number: sql`${companies.last_invoice_number} + 1` })
      .where(and(eq(companies.id, p.companyId), allOf(referenceChecks(p)))),
  ),
  invoice: prepare((p: Creation) => {
    // What the request does not say of the tax is the client's; a reason of the client's belongs to its exemption.
    const ofClient = (column: SQL) =>
      sql`(SELECT ${column} FROM clients WHERE company_id = ${p.companyId} AND id = ${p.client_id})`
    return insertRow(
      invoices,
      {
        tax_exempt: ofClient(sql`tax_exempt`),
        ...(!p.tax_exempt && { tax_exempt_reason: ofClient(sql`tax_exempt_reason`) }),
        ...given(invoiceColumns(p)),
        company_id: p.companyId,
        id: sql`last_invoice_id + 1`,
        project_id: sql`last_order_id`,
        number: sql`CAST(last_invoice_number AS TEXT)`,
        created_at: p.now,
        updated_at: p.now,
      },
      isCreatedBy(p),
    )
  }),
  notice: prepare((p: Creation) => accountingEvent(p, 'create', madeId(p), allOf(referenceChecks(p)))),
  audit: prepare((p: Creation) => auditEntry(p, 'order.create', madeId(p), allOf(referenceChecks(p)))),
  rows: prepare((p: Creation) => orderRows({ ...p, id: madeId(p), when: allOf(referenceChecks(p)) })),
  verdict: prepare((p: Creation) => orm.select(verdictOf(referenceChecks(p))).from(sql`(SELECT 1)`)),
}

/** Behind the values of a row that is made of its company's counters. */
function isCreatedBy(p: Creation): SQL {
  return sql`FROM ${companies} WHERE ${companies.id} = ${p.companyId} AND ${allOf(referenceChecks(p))}`
}

/** The id that the order made in this batch was given. */
function madeId({ companyId }: Creation): SQL {
  return sql`(SELECT last_order_id FROM companies WHERE id = ${companyId})`
}

/**
 * Makes an order and its invoice. The checks of what it refers to stand in every statement: inside one transaction they
 * all come out alike, so either everything is written or nothing.
 *
 * @throws ApiError 400 naming each reference that is not the company's or is deleted
 */
export async function createOrder(context: RequestContext, body: NewOrder): Promise<FullOrderRows> {
  const values = { ...actorOf(context), ...valuesOf(body), today: isoDate(context.now) }
  const [, , , notices, , rows, [verdict]] = await context.db.write([
    creation.order(values),
    creation.number(values),
    creation.invoice(values),
    creation.notice(values),
    creation.audit(values),
    creation.rows(values),
    creation.verdict(values),
  ])
  const order = readOrder(rows)
  if (!order) throw refused(failedOf(verdict))
  if (notices.length > 0) context.deliverAccounting()
  return order
}

type Update = ChangeOf<'id'>

/** The statements of {@link updateOrder}. */
const update = {
  order: prepare((p: Update) =>
    orm
      .update(orders)
      .set(given({ ...projectColumns(p), updated_at: p.now }))
      .where(sql`${isThis(p)} AND ${mayUpdate(p)}`),
  ),
  invoice: prepare((p: Update) =>
    orm
      .update(invoices)
      .set(given({ ...invoiceColumns(p), updated_at: p.now }))
      .where(sql`company_id = ${p.companyId} AND project_id = ${p.id} AND deleted = 0 AND ${mayUpdate(p)}`),
  ),
  notice: prepare((p: Update) => accountingEvent(p, 'update', sql`${p.id}`, mayUpdate(p))),
  audit: prepare((p: Update) => auditEntry(p, 'order.update', sql`${p.id}`, mayUpdate(p))),
  row: prepare((p: Update) => totalsRow(p, verdictOf(updateChecks(p)))),
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
): Promise<OrderTotalsRows | undefined> {
  const values = { ...actorOf(context), ...valuesOf(body), id }
  const statements = [update.order(values), update.notice(values), update.audit(values), update.row(values)] as const
  const isOfInvoice = Object.values(invoiceColumns<unknown>(values)).some((value) => value !== undefined)
  const [, notices, , [row]] = isOfInvoice
    ? await context.db.writeIdempotent([update.invoice(values), ...statements]).then(([, ...results]) => results)
    : await context.db.writeIdempotent(statements)
  if (!row) return undefined
  const failed = failedOf(row.verdict)
  if (failed.length > 0) throw refused(failed)
  if (notices.length > 0) context.deliverAccounting()
  return row
}

type Deletion = Placeholders<Actor | 'id'>

/** The statements of {@link deleteOrder}. */
const deletion = {
  notice: prepare((p: Deletion) => accountingEvent(p, 'delete', sql`${p.id}`, isLive(p))),
  audit: prepare((p: Deletion) => auditEntry(p, 'order.delete', sql`${p.id}`, isLive(p))),
  invoice: prepare((p: Deletion) =>
    orm
      .update(invoices)
      .set(given({ deleted: sql`1`, updated_at: p.now }))
      .where(sql`company_id = ${p.companyId} AND project_id = ${p.id} AND deleted = 0 AND ${isLive(p)}`),
  ),
  order: prepare((p: Deletion) =>
    orm
      .update(orders)
      .set(given({ deleted: sql`1`, updated_at: p.now }))
      .where(isThis(p))
      .returning({ id: orders.id }),
  ),
  row: prepare((p: Deletion) => totalsRow(p)),
}

/** @returns undefined where there is no such order, or it is deleted already */
export async function deleteOrder(context: RequestContext, id: number): Promise<OrderTotalsRows | undefined> {
  const values = { ...actorOf(context), id }
  const [notices, , , [deleted], [row]] = await context.db.write([
    deletion.notice(values),
    deletion.audit(values),
    deletion.invoice(values),
    deletion.order(values),
    deletion.row(values),
  ])
  if (notices.length > 0) context.deliverAccounting()
  return deleted && row
}

/** The values of the fields that are sent, as the columns hold them. */
function valuesOf(body: OrderFields) {
  return {
    title: body.title,
    client_id: body.client_id,
    description: body.description,
    start_date: body.start_date,
    deadline: body.deadline,
    status_id: body.status_id,
    client_notes: body.client_notes,
    tax_id: body.tax_id === 0 ? null : body.tax_id,
    tax_exempt: numberOf(body.tax_exempt),
    tax_exempt_reason: body.tax_exempt_reason,
    discount_hundredths: body.discount_amount === undefined ? undefined : toHundredths(body.discount_amount),
    discount_amount_type: body.discount_amount_type,
    discount_type: body.discount_type,
    requested: numberOf(body.accounting_sync_enabled),
  }
}

function numberOf(flag: boolean | undefined): number | undefined {
  return flag === undefined ? undefined : Number(flag)
}

function projectColumns(p: ChangeOf<never>) {
  return {
    title: p.title,
    client_id: p.client_id,
    description: p.description,
    start_date: p.start_date,
    deadline: p.deadline,
    order_status_id: p.status_id,
    client_notes: p.client_notes,
  }
}

function invoiceColumns<T>(p: { [Name in Field]?: T }) {
  return {
    due_date: p.deadline,
    tax_id: p.tax_id,
    tax_exempt: p.tax_exempt,
    tax_exempt_reason: p.tax_exempt_reason,
    discount_hundredths: p.discount_hundredths,
    discount_amount_type: p.discount_amount_type,
    discount_type: p.discount_type,
  }
}

function isThis(p: Placeholders<'companyId' | 'id'>): SQL {
  return sql`company_id = ${p.companyId} AND id = ${p.id} AND deleted = 0`
}

function isLive(p: Placeholders<'companyId' | 'id'>): SQL {
  return sql`EXISTS (SELECT 1 FROM orders WHERE ${isThis(p)})`
}

function mayUpdate(p: Update): SQL {
  return sql`${allOf(updateChecks(p))} AND ${isLive(p)}`
}

type Checks = Record<string, SQL>

function updateChecks(p: Update): Checks {
  return { ...referenceChecks(p), ...discountCheck(p) }
}

/** A condition per field that refers to another row of the company. */
function referenceChecks({ companyId, client_id, status_id, tax_id }: Placeholders<'companyId', Field>): Checks {
  const exists = (table: SQL, id: Placeholder) =>
    sql`EXISTS (SELECT 1 FROM ${table} WHERE company_id = ${companyId} AND id = ${id} AND deleted = 0)`
  return {
    ...(client_id && { client_id: exists(sql`clients`, client_id) }),
    ...(status_id && { status_id: exists(sql`order_statuses`, status_id) }),
    ...(tax_id && { tax_id: sql`(${tax_id} IS NULL OR ${exists(sql`taxes`, tax_id)})` }),
  }
}

/** An amount or a type that is sent alone must go with the stored other. */
function discountCheck({ companyId, id, discount_hundredths: amount, discount_amount_type: type }: Update): Checks {
  if ((amount === undefined) === (type === undefined)) return {}
  return {
    [amount ? 'discount_amount' : 'discount_amount_type']: sql`NOT EXISTS (SELECT 1 FROM invoices
      WHERE company_id = ${companyId} AND project_id = ${id} AND deleted = 0
      AND ${type ?? sql`discount_amount_type`} = 'percentage' AND ${amount ?? sql`discount_hundredths`} > 10000)`,
  }
}

function allOf(checks: Checks): SQL {
  const conditions = Object.values(checks)
  return conditions.length === 0 ? sql`1` : sql`(${sql.join(conditions, sql` AND `)})`
}

/** The outcome of each check, by field. */
function verdictOf(checks: Checks): Record<string, SQL.Aliased<number>> {
  const columns = Object.entries({ ...checks, ok: sql`1` })
  return Object.fromEntries(columns.map(([field, check]) => [field, sql<number>`${check}`.as(`${field}_holds`)]))
}

function failedOf(verdict: Record<string, number> = {}): string[] {
  return Object.keys(verdict).filter((field) => !verdict[field])
}

function refused(failed: string[]) {
  return invalid(
    failed.map((field) => ({
      path: field,
      message: field.startsWith('discount')
        ? 'a percentage must be at most 100; the stored discount makes this one more'
        : 'is not of this company, or is deleted',
    })),
  )
}
