import { and, desc, eq, type SQL, sql } from 'drizzle-orm'
import { type CompanyContext, orm, type Placeholders, prepareBatch } from '../db/client.ts'
import { projectColumns } from '../db/columns.ts'
import { OFFSET_MAX, pageOfSpan, spanOfPage } from '../db/paging.ts'
import { companies, orderCounts, orders } from '../db/schema.ts'
import { offsetOf } from '../http/contract.ts'
import type { OrderList } from './contract.ts'

/** One page, newest first, and the exact total. */
export async function listOrders({ db, companyId }: CompanyContext, { page, per_page, ...filter }: OrderList) {
  const offset = offsetOf({ page, per_page })
  const pageOf = offset > OFFSET_MAX ? deepPage : firstPage
  const [rows, [count]] = await db.read(pageOf({ companyId, limit: per_page, offset, ...filter }))
  return { rows, total: count?.total ?? 0 }
}

type Filter = Placeholders<'companyId', 'client_id' | 'status' | 'from' | 'to'>
type Page = Filter & Placeholders<'limit' | 'offset'>

const firstPage = prepareBatch((p: Page) => [
  selectProjects(isListed(p)).limit(p.limit).offset(p.offset),
  selectTotal(p),
])

/**
 * The same for a later page, walked from the end of the list that is nearer. When both are far, the months that hold the
 * page are found by their counts first.
 */
const deepPage = prepareBatch((p: Page) => {
  const isFar = sql`min(${p.offset}, whole.number - ${p.offset}) > ${OFFSET_MAX}`
  const inSpan = sql`SELECT id FROM orders
    WHERE ${isListed(p)} AND created_date BETWEEN (SELECT low FROM span) AND (SELECT high || '~' FROM span)`
  const ids = sql`WITH whole AS MATERIALIZED (SELECT (${selectTotal(p)}) AS number),
    counted AS MATERIALIZED (
      SELECT '' AS part, number FROM whole WHERE NOT ${isFar}
      UNION ALL ${countsOfMonths(p, isFar)}),
    ${spanOfPage(p.limit, p.offset)}
    ${pageOfSpan(inSpan, ['created_date', 'id'])}`
  return [selectProjects(sql`${orders.company_id} = ${p.companyId} AND ${orders.id} IN (${ids})`), selectTotal(p)]
})

function selectProjects(condition: SQL | undefined) {
  return orm.select(projectColumns).from(orders).where(condition).orderBy(desc(orders.created_date), desc(orders.id))
}

function isListed(p: Filter): SQL | undefined {
  return and(
    sql`${orders.company_id} = ${p.companyId} AND ${orders.deleted} = 0`,
    p.client_id && eq(orders.client_id, p.client_id),
    p.status && eq(orders.order_status_id, p.status),
    ...inDays(sql`${orders.created_date}`, p),
  )
}

function inDays(day: SQL, { from, to }: Filter): SQL[] {
  return [...(from ? [sql`${day} >= ${from}`] : []), ...(to ? [sql`${day} <= ${to}`] : [])]
}

/** How many orders each month has; a client's are counted, since there are no counts of its days. */
function countsOfMonths(p: Filter, isWanted: SQL): SQL {
  const month = sql`substr(created_date, 1, 7)`
  if (p.client_id) {
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

/** Orders themselves are counted only for a client between days. */
function selectTotal(p: Filter) {
  const { companyId, client_id, status } = p
  const isAnyDay = p.from === undefined && p.to === undefined
  if (client_id && !isAnyDay)
    return orm
      .select({ total: count(sql`count(*)`) })
      .from(orders)
      .where(isListed(p))
  if (!client_id && !status && isAnyDay) {
    return orm
      .select({ total: count(sql`${companies.order_count}`) })
      .from(companies)
      .where(eq(companies.id, companyId))
  }
  // Without a client or status, the index of the days alone holds the rows of all clients.
  const day = sql`${orderCounts.created_date}`
  return orm
    .select({ total: count(sql`coalesce(sum(${orderCounts.count}), 0)`) })
    .from(orderCounts)
    .where(
      and(
        eq(orderCounts.company_id, companyId),
        client_id ? eq(orderCounts.client_id, client_id) : status && sql`${orderCounts.client_id} = 0`,
        status && eq(orderCounts.status_id, status),
        // A client has rows for all days together only.
        client_id ? undefined : sql`${day} ${isAnyDay ? sql`=` : sql`>`} ''`,
        ...inDays(day, p),
      ),
    )
}

function count(number: SQL) {
  return sql<number>`${number}`.as('total')
}
