import { sql } from 'drizzle-orm'
import { orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { statusColumns, taxColumns } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { orderStatuses, taxes } from '../../kernel/db/schema.ts'
import { type ListedRow, orderStatements, type Part } from './parts-sql.ts'
import { EXPANSIONS } from './shapes.ts'
import { isAnyOrder } from './write-sql.ts'

/** The parts of the full order, which has no `totals`. */
export const FULL: readonly Part[] = [...EXPANSIONS, 'accounting']

type Key = Placeholders<'companyId' | 'orderId' | 'isDeletedToo'>

const orderWith = (parts: readonly Part[]) =>
  orderStatements(parts, (p: Key) => ({
    ids: sql`SELECT id AS page_id, id AS sort_value FROM orders WHERE ${isAnyOrder(p)} AND deleted <= ${p.isDeletedToo}`,
  }))
const fullOrder = orderWith(FULL)
const paidOrder = orderWith(['payments'])

export async function findOrder(
  { db, companyId }: CompanyContext,
  orderId: number,
  isDeletedToo: boolean,
): Promise<ListedRow | undefined> {
  return (await db.read([fullOrder.whole({ companyId, orderId, isDeletedToo })]))[0][0]
}

/** The payments of an order, by id; undefined where it does not exist. */
export async function findPayments({ db, companyId }: CompanyContext, orderId: number) {
  return (await db.read([paidOrder.whole({ companyId, orderId, isDeletedToo: false })]))[0][0]?.payments
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
