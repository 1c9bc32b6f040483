import { type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { jsonRow, paymentColumns, statusColumns, taxColumns } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { orderStatuses, payments, taxes } from '../../kernel/db/schema.ts'
import { type ListedRow, orderStatements, type Part } from './parts-sql.ts'
import { EXPANSIONS } from './shapes.ts'
import { isAnyOrder, isOrder } from './write-sql.ts'

/** The parts of the full order, which has no `totals`. */
export const FULL: readonly Part[] = [...EXPANSIONS, 'accounting']

type Key = Placeholders<'companyId' | 'orderId'>

const orderWhere = (isOne: (p: Key) => SQL) =>
  orderStatements(FULL, (p: Key) => ({
    ids: sql`SELECT id AS page_id, id AS sort_value FROM orders WHERE ${isOne(p)}`,
  }))
const liveOrder = orderWhere(isOrder)
const anyOrder = orderWhere(isAnyOrder)

export async function findOrder(
  { db, companyId }: CompanyContext,
  orderId: number,
  isDeletedToo: boolean,
): Promise<ListedRow | undefined> {
  const { whole } = isDeletedToo ? anyOrder : liveOrder
  return (await db.read([whole({ companyId, orderId })]))[0][0]
}

const statuses = prepare((p: Placeholders<'companyId'>) =>
  orm
    .select(statusColumns)
    .from(orderStatuses)
    .where(sql`${orderStatuses.company_id} = ${p.companyId} AND ${orderStatuses.deleted} = 0`)
    .orderBy(orderStatuses.position, orderStatuses.id),
)

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

export async function findTaxes({ db, companyId }: CompanyContext) {
  return (await db.read([allTaxes({ companyId })]))[0]
}

const paymentsOf = prepare((p: Key) =>
  orm
    .select({ payment: jsonRow(paymentColumns).rowOrNull.as('payment') })
    .from(
      sql`(SELECT * FROM orders WHERE ${isOrder(p)}) AS orders
        LEFT JOIN invoices ON invoices.company_id = orders.company_id AND invoices.project_id = orders.id
          AND invoices.deleted = 0
        LEFT JOIN payments ON payments.company_id = invoices.company_id AND payments.invoice_id = invoices.id`,
    )
    .orderBy(payments.id),
)

/** The payments of an order, by id; null where it does not exist. */
export async function findPayments({ db, companyId }: CompanyContext, orderId: number) {
  const [rows] = await db.read([paymentsOf({ companyId, orderId })])
  return rows.length === 0 ? null : rows.flatMap(({ payment }) => payment ?? [])
}
