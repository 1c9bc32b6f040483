import { and, desc, eq, type SQL, sql } from 'drizzle-orm'
import { type Database, orm, type Placeholders, prepare } from '../db/client.ts'
import { projectColumns } from '../db/columns.ts'
import { isDeep, spanOfPage } from '../db/paging.ts'
import { companies, orderCounts, orders } from '../db/schema.ts'
import { offsetOf, type Page } from '../http/pagination.ts'

export interface OrderFilter {
  client_id?: number | undefined
  status?: number | undefined
  from?: string | undefined
  to?: string | undefined
}

type Filter = Placeholders<'companyId', 'clientId' | 'status' | 'from' | 'to'>

const pageOfOrders = prepare((p: Filter & Placeholders<'limit' | 'offset'>) =>
  orm
    .select(projectColumns)
    .from(orders)
    .where(isListed(p))
    .orderBy(desc(orders.createdDate), desc(orders.id))
    .limit(p.limit)
    .offset(p.offset),
)

/**
 * The same for a later page: the days that hold it are found by their counts, and walked from the end that is nearer.
 */
const deepPageOfOrders = prepare((p: Filter & Placeholders<'limit' | 'offset'>) => {
  const isNearEnd = sql`skipped > available / 2`
  const ids = sql`SELECT id FROM orders
    WHERE ${isListed(p)} AND created_date BETWEEN (SELECT low FROM span) AND (SELECT high FROM span)`
  return orm
    .select(projectColumns)
    .from(orders)
    .where(
      sql`${orders.companyId} = ${p.companyId} AND ${orders.id} IN (
        WITH counted AS MATERIALIZED (${countsOfDays(p)}), ${spanOfPage(p.limit, p.offset)}
        SELECT id FROM (${ids} ORDER BY created_date DESC, id DESC
          LIMIT (SELECT iif(${isNearEnd}, 0, taken) FROM span) OFFSET (SELECT skipped FROM span))
        UNION ALL SELECT id FROM (${ids} ORDER BY created_date, id
          LIMIT (SELECT iif(${isNearEnd}, taken, 0) FROM span) OFFSET (SELECT available - skipped - taken FROM span)))`,
    )
    .orderBy(desc(orders.createdDate), desc(orders.id))
})

/** How many orders each day has; of a client's orders no such counts are kept. */
function countsOfDays(p: Filter): SQL {
  if (p.clientId) {
    return sql`SELECT created_date AS part, count(*) AS number FROM orders WHERE ${isListed(p)} GROUP BY created_date`
  }
  const condition = and(
    sql`company_id = ${p.companyId}`,
    p.status && sql`status_id = ${p.status}`,
    ...inDays(sql`created_date`, p),
  )
  return sql`SELECT created_date AS part, sum(count) AS number FROM ${orderCounts} WHERE ${condition} GROUP BY created_date`
}

/** Rows are counted only where a client's few orders are asked for. */
const countOfOrders = prepare((p: Filter) => {
  if (p.clientId !== undefined) return orm.select({ total: countAll }).from(orders).where(isListed(p))
  const { companyId, status, from, to } = p
  if (status === undefined && from === undefined && to === undefined) {
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
        status && eq(orderCounts.statusId, status),
        ...inDays(sql`${orderCounts.createdDate}`, p),
      ),
    )
})

const countAll = sql<number>`count(*)`.as('total')

/** One page, newest first, and the exact total. */
export async function listOrders(db: Database, companyId: number, page: Page, filter: OrderFilter) {
  const values = { companyId, clientId: filter.client_id, status: filter.status, from: filter.from, to: filter.to }
  const offset = offsetOf(page)
  const pageOf = isDeep(offset) ? deepPageOfOrders : pageOfOrders
  const [rows, [count]] = await db.read([pageOf({ ...values, limit: page.per_page, offset }), countOfOrders(values)])
  return { rows, total: count?.total ?? 0 }
}

function isListed(p: Filter): SQL | undefined {
  return and(
    sql`${orders.companyId} = ${p.companyId} AND ${orders.deleted} = 0`,
    p.clientId && eq(orders.clientId, p.clientId),
    p.status && eq(orders.orderStatusId, p.status),
    ...inDays(sql`${orders.createdDate}`, p),
  )
}

function inDays(day: SQL, { from, to }: Partial<Filter>): SQL[] {
  return [...(from ? [sql`${day} >= ${from}`] : []), ...(to ? [sql`${day} <= ${to}`] : [])]
}
