import { and, desc, eq, type SQL, sql } from 'drizzle-orm'
import { type Database, orm } from '../db/client.ts'
import { companies, orderCounts, orders } from '../db/schema.ts'
import { offsetOf, type Page } from '../http/pagination.ts'

export interface OrderFilter {
  client_id?: number | undefined
  status?: number | undefined
  from?: string | undefined
  to?: string | undefined
}

/** One page, newest first, and the exact total: counted only where a client's few orders are asked for. */
export async function listOrders(db: Database, companyId: number, page: Page, filter: OrderFilter) {
  const condition = and(
    sql`${orders.companyId} = ${companyId} AND ${orders.deleted} = 0`,
    filter.client_id === undefined ? undefined : eq(orders.clientId, filter.client_id),
    filter.status === undefined ? undefined : eq(orders.orderStatusId, filter.status),
    ...inDays(sql`${orders.createdDate}`, filter),
  )
  const [rows, [count]] = await db.read([
    orm
      .select()
      .from(orders)
      .where(condition)
      .orderBy(desc(orders.createdDate), desc(orders.id))
      .limit(page.per_page)
      .offset(offsetOf(page)),
    totalOf(companyId, filter, condition),
  ])
  return { rows, total: count?.total ?? 0 }
}

function totalOf(companyId: number, filter: OrderFilter, condition: SQL | undefined) {
  if (filter.client_id !== undefined) {
    return orm
      .select({ total: sql<number>`count(*)`.as('total') })
      .from(orders)
      .where(condition)
  }
  if (filter.status === undefined && filter.from === undefined && filter.to === undefined) {
    return orm
      .select({ total: sql<number>`${companies.orderCount}`.as('total') })
      .from(companies)
      .where(eq(companies.id, companyId))
  }
  return orm
    .select({ total: sql<number>`coalesce(sum(${orderCounts.count}), 0)`.as('total') })
    .from(orderCounts)
    .where(
      and(
        eq(orderCounts.companyId, companyId),
        filter.status === undefined ? undefined : eq(orderCounts.statusId, filter.status),
        ...inDays(sql`${orderCounts.createdDate}`, filter),
      ),
    )
}

function inDays(day: SQL, { from, to }: OrderFilter): SQL[] {
  return [...(from === undefined ? [] : [sql`${day} >= ${from}`]), ...(to === undefined ? [] : [sql`${day} <= ${to}`])]
}
