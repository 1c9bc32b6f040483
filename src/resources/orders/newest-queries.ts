import { and, count, desc, eq, type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders, prepareBatch } from '../../kernel/db/client.ts'
import { projectColumns } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { perVariant } from '../../kernel/db/keyset.ts'
import { OFFSET_MAX, pageOfSpan, spanOfPage } from '../../kernel/db/paging.ts'
import { companies, orderCounts, orders } from '../../kernel/db/schema.ts'
import type { Expansion, OrderList } from './contract.ts'
import { expansions } from './expand-queries.ts'

type Range = Pick<OrderList, 'client_id' | 'from' | 'to'> & { status?: number | undefined }

/** One page by its number, newest first, and the exact total. */
export async function listNewest(
  { db, companyId }: CompanyContext,
  range: Range,
  expand: readonly Expansion[],
  place: { limit: number; offset: number },
) {
  const pageOf = place.offset > OFFSET_MAX ? deepPage(expand) : firstPage(expand)
  const [rows, [count]] = await db.read(pageOf({ companyId, ...place, ...range }))
  return { rows, total: count?.total ?? 0 }
}

export type RangePlaceholders = Placeholders<'companyId', 'client_id' | 'status' | 'statuses' | 'from' | 'to'>
type Page = RangePlaceholders & Placeholders<'limit' | 'offset'>

const firstPage = perVariant((expand: readonly Expansion[]) =>
  prepareBatch((p: Page) => [selectProjects(expand, isListed(p)).limit(p.limit).offset(p.offset), selectTotal(p)]),
)

/** The same for a later page: walked from the nearer end or, when both are far, found by the counts of the months. */
const deepPage = perVariant((expand: readonly Expansion[]) =>
  prepareBatch((p: Page) => {
    const isFar = sql`min(${p.offset}, whole.number - ${p.offset}) > ${OFFSET_MAX}`
    const inSpan = sql`SELECT id FROM orders
    WHERE ${isListed(p)} AND created_date BETWEEN (SELECT low FROM span) AND (SELECT high || '~' FROM span)`
    const ids = sql`WITH whole AS MATERIALIZED (SELECT (${selectTotal(p)}) AS number),
    counted AS MATERIALIZED (
      SELECT '' AS part, number FROM whole WHERE NOT ${isFar}
      UNION ALL ${countsOfMonths(p, isFar)}),
    ${spanOfPage(p.limit, p.offset)}
    ${pageOfSpan(inSpan, ['created_date', 'id'])}`
    return [
      selectProjects(expand, sql`${orders.company_id} = ${p.companyId} AND ${orders.id} IN (${ids})`),
      selectTotal(p),
    ]
  }),
)

function selectProjects(expand: readonly Expansion[], condition: SQL | undefined) {
  return orm
    .select({ ...projectColumns, ...expansions(expand) })
    .from(orders)
    .where(condition)
    .orderBy(desc(orders.created_date), desc(orders.id))
}

function isListed(p: RangePlaceholders): SQL | undefined {
  return and(
    sql`${orders.company_id} = ${p.companyId} AND ${orders.deleted} = 0`,
    p.client_id && eq(orders.client_id, p.client_id),
    hasStatus(p, sql`${orders.order_status_id}`),
    ...inDays(p, sql`${orders.created_date}`),
  )
}

/** One status is compared, so that an index has its rows in order. */
export function hasStatus(p: RangePlaceholders, status: SQL): SQL | undefined {
  if (p.status) return sql`${status} = ${p.status}`
  return p.statuses && sql`${status} IN (SELECT value FROM json_each(${p.statuses}))`
}

export function inDays({ from, to }: RangePlaceholders, day: SQL): SQL[] {
  return [...(from ? [sql`${day} >= ${from}`] : []), ...(to ? [sql`${day} <= ${to}`] : [])]
}

/** Selects the number of orders of each month; a client's are counted, since its days have no counts. */
function countsOfMonths(p: RangePlaceholders, isWanted: SQL): SQL {
  const month = sql`substr(created_date, 1, 7)`
  return p.client_id
    ? sql`SELECT ${month} AS part, count(*) AS number FROM whole CROSS JOIN orders
        WHERE ${isWanted} AND ${isListed(p)} GROUP BY part`
    : sql`SELECT ${month} AS part, sum(count) AS number FROM whole CROSS JOIN ${orderCounts}
        WHERE ${isWanted} AND ${isCounted(p, 'each day')} GROUP BY part`
}

/** The number of orders that are not deleted. They themselves are counted only for a client between days. */
export function selectTotal(p: RangePlaceholders) {
  const days = p.from === undefined && p.to === undefined ? 'all days' : 'each day'
  if (p.client_id && days === 'each day') return orm.select({ total: count() }).from(orders).where(isListed(p))
  const hasStatuses = p.status || p.statuses
  if (!p.client_id && !hasStatuses && days === 'all days') {
    return orm.select({ total: companies.order_count }).from(companies).where(eq(companies.id, p.companyId))
  }
  const total = sql<number>`coalesce(sum(${orderCounts.count}), 0)`.as('total')
  return orm.select({ total }).from(orderCounts).where(isCounted(p, days))
}

/** A client has counts of all days together only. Without a client or status, the index of the days has the rows. */
function isCounted(p: RangePlaceholders, days: 'all days' | 'each day'): SQL | undefined {
  const day = sql`${orderCounts.created_date}`
  return and(
    eq(orderCounts.company_id, p.companyId),
    p.client_id
      ? eq(orderCounts.client_id, p.client_id)
      : (p.status || p.statuses) && sql`${orderCounts.client_id} = 0`,
    hasStatus(p, sql`${orderCounts.status_id}`),
    p.client_id ? undefined : sql`${day} ${sql.raw(days === 'each day' ? '>' : '=')} ''`,
    ...inDays(p, day),
  )
}
