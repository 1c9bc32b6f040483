import { and, desc, eq, type SQL, sql } from 'drizzle-orm'
import { type Database, orm, type Placeholders, prepare } from '../db/client.ts'
import { projectColumns } from '../db/columns.ts'
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

/** Orders are counted only where those of a client between days are asked for. */
const countOfOrders = prepare((p: Filter) => {
  const { companyId, clientId, status, from, to } = p
  const isAnyDay = from === undefined && to === undefined
  if (clientId !== undefined && !isAnyDay) return orm.select({ total: countAll }).from(orders).where(isListed(p))
  if (clientId === undefined && status === undefined && isAnyDay) {
    return orm
      .select({ total: sql<number>`${companies.orderCount}`.as('total') })
      .from(companies)
      .where(eq(companies.id, companyId))
  }
  // Without a client or status, the index of the days alone holds the rows of all clients.
  const day = sql`${orderCounts.createdDate}`
  return orm
    .select({ total: sql<number>`coalesce(sum(${orderCounts.count}), 0)`.as('total') })
    .from(orderCounts)
    .where(
      and(
        eq(orderCounts.companyId, companyId),
        clientId ? eq(orderCounts.clientId, clientId) : status && sql`${orderCounts.clientId} = 0`,
        status && eq(orderCounts.statusId, status),
        // A client has rows for all days together only.
        clientId ? undefined : isAnyDay ? sql`${day} = ''` : sql`${day} > ''`,
        ...inDays(day, p),
      ),
    )
})

const countAll = sql<number>`count(*)`.as('total')

/** One page, newest first, and the exact total. */
export async function listOrders(db: Database, companyId: number, page: Page, filter: OrderFilter) {
  const values = { companyId, clientId: filter.client_id, status: filter.status, from: filter.from, to: filter.to }
  const [rows, [count]] = await db.read([
    pageOfOrders({ ...values, limit: page.per_page, offset: offsetOf(page) }),
    countOfOrders(values),
  ])
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
