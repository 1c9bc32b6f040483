import { and, desc, eq, type SQL, sql } from 'drizzle-orm'
import { type Database, orm, type Placeholders, prepare } from '../db/client.ts'
import { projectColumns } from '../db/columns.ts'
import { IS_NEAR_END, OFFSET_MAX, spanOfPage, takenIf } from '../db/paging.ts'
import { companies, orderCounts, orders } from '../db/schema.ts'
import { offsetOf, type Page } from '../http/contract.ts'

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
    .orderBy(desc(orders.created_date), desc(orders.id))
    .limit(p.limit)
    .offset(p.offset),
)

/**
 * The same for a later page, walked from the end of the list that is nearer; where that is far, too, the months that hold
 * the page are found by their counts first.
 */
const deepPageOfOrders = prepare((p: Filter & Placeholders<'limit' | 'offset'>) => {
  const ids = sql`SELECT id FROM orders
    WHERE ${isListed(p)} AND created_date BETWEEN (SELECT low FROM span) AND (SELECT high || '~' FROM span)`
  const isFar = sql`min(${p.offset}, whole.number - ${p.offset}) > ${sql.raw(`${OFFSET_MAX}`)}`
  return orm
    .select(projectColumns)
    .from(orders)
    .where(
      sql`${orders.company_id} = ${p.companyId} AND ${orders.id} IN (
        WITH whole AS MATERIALIZED (SELECT (${totalOf(p)}) AS number),
        counted AS MATERIALIZED (
          SELECT '' AS part, number FROM whole WHERE NOT ${isFar}
          UNION ALL ${countsOfMonths(p, isFar)}),
        ${spanOfPage(p.limit, p.offset)}
        SELECT id FROM (${ids} ORDER BY created_date DESC, id DESC
          LIMIT ${takenIf(sql`NOT ${IS_NEAR_END}`)} OFFSET (SELECT skipped FROM span))
        UNION ALL SELECT id FROM (${ids} ORDER BY created_date, id
          LIMIT ${takenIf(IS_NEAR_END)} OFFSET (SELECT available - skipped - taken FROM span)))`,
    )
    .orderBy(desc(orders.created_date), desc(orders.id))
})

/** How many orders each month has; a client's are counted, since no days are kept of them. */
function countsOfMonths(p: Filter, isWanted: SQL): SQL {
  const month = sql`substr(created_date, 1, 7)`
  if (p.clientId) {
    return sql`SELECT ${month} AS part, count(*) AS number FROM whole CROSS JOIN orders
      WHERE ${isWanted} AND ${isListed(p)} GROUP BY part`
  }
  const condition = and(
    isWanted,
    sql`company_id = ${p.companyId} AND created_date > ''`,
    p.status && sql`client_id = 0 AND status_id = ${p.status}`,
    ...inDays(sql`created_date`, p),
  )
  return sql`SELECT ${month} AS part, sum(count) AS number FROM whole CROSS JOIN ${orderCounts}
    WHERE ${condition} GROUP BY part`
}

/** Orders are counted only where those of a client between days are asked for. */
function totalOf(p: Filter) {
  const { companyId, clientId, status, from, to } = p
  const isAnyDay = from === undefined && to === undefined
  if (clientId !== undefined && !isAnyDay) return orm.select({ total: countAll }).from(orders).where(isListed(p))
  if (clientId === undefined && status === undefined && isAnyDay) {
    return orm
      .select({ total: sql<number>`${companies.order_count}`.as('total') })
      .from(companies)
      .where(eq(companies.id, companyId))
  }
  // Without a client or status, the index of the days alone holds the rows of all clients.
  const day = sql`${orderCounts.created_date}`
  return orm
    .select({ total: sql<number>`coalesce(sum(${orderCounts.count}), 0)`.as('total') })
    .from(orderCounts)
    .where(
      and(
        eq(orderCounts.company_id, companyId),
        clientId ? eq(orderCounts.client_id, clientId) : status && sql`${orderCounts.client_id} = 0`,
        status && eq(orderCounts.status_id, status),
        // A client has rows for all days together only.
        clientId ? undefined : isAnyDay ? sql`${day} = ''` : sql`${day} > ''`,
        ...inDays(day, p),
      ),
    )
}

const countOfOrders = prepare(totalOf)

const countAll = sql<number>`count(*)`.as('total')

/** One page, newest first, and the exact total. */
export async function listOrders(db: Database, companyId: number, page: Page, filter: OrderFilter) {
  const values = { companyId, clientId: filter.client_id, status: filter.status, from: filter.from, to: filter.to }
  const offset = offsetOf(page)
  const pageOf = offset > OFFSET_MAX ? deepPageOfOrders : pageOfOrders
  const [rows, [count]] = await db.read([pageOf({ ...values, limit: page.per_page, offset }), countOfOrders(values)])
  return { rows, total: count?.total ?? 0 }
}

function isListed(p: Filter): SQL | undefined {
  return and(
    sql`${orders.company_id} = ${p.companyId} AND ${orders.deleted} = 0`,
    p.clientId && eq(orders.client_id, p.clientId),
    p.status && eq(orders.order_status_id, p.status),
    ...inDays(sql`${orders.created_date}`, p),
  )
}

function inDays(day: SQL, { from, to }: Partial<Filter>): SQL[] {
  return [...(from ? [sql`${day} >= ${from}`] : []), ...(to ? [sql`${day} <= ${to}`] : [])]
}
