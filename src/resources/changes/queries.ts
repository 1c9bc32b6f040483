import { getTableColumns, sql } from 'drizzle-orm'
import { withIsoTimes } from '../../kernel/api/contract.ts'
import { mapRows, orm, type Placeholders, prepare, prepareBatch } from '../../kernel/db/client.ts'
import { COLUMNS } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { changes, clients, companies, emailThreads } from '../../kernel/db/schema.ts'
import { orderStatements, presentListed } from '../orders/parts-sql.ts'
import { EXPANSIONS } from '../orders/shapes.ts'
import type { ChangeType } from './contract.ts'
import type { ChangeRow } from './present.ts'

/** Limits the rows that one page reads: with a filter it may find none among them. */
const WINDOW = 5_000

/** A company that was lost and made again has another feed, whose sequences begin again. */
const feedOf = { last: companies.last_change, feed: companies.created_at }

export type ChangePage = Awaited<ReturnType<typeof findChanges>>

const { company_id, previous_updated_at, ...feedColumns } = getTableColumns(changes)
const { account_email, legacy_thread_id } = emailThreads

const page = prepareBatch((p: Placeholders<'companyId' | 'after' | 'types' | 'limit'>) => {
  const oldest = sql`(SELECT min(sequence) FROM changes WHERE company_id = ${p.companyId})`
  const first = sql`max(CAST(${p.after} AS INTEGER), coalesce(${oldest}, 1) - 1)`
  const { sequence, type, entity_id } = feedColumns
  return [
    orm
      .select({ ...feedOf, oldest: sql<number | null>`${oldest}`.as('oldest') })
      .from(companies)
      .where(sql`${companies.id} = ${p.companyId}`),
    orm
      .select({ ...feedColumns, account_email, legacy_thread_id })
      .from(changes)
      .leftJoin(
        emailThreads,
        sql`${type} = 'email_threads' AND ${emailThreads.id} = ${entity_id} AND ${emailThreads.company_id} = ${company_id}`,
      )
      .where(
        sql`${company_id} = ${p.companyId} AND ${sequence} > ${first} AND ${sequence} <= ${first} + ${sql.raw(String(WINDOW))}
          AND ${type} IN (SELECT value FROM json_each(${p.types}))`,
      )
      .orderBy(sequence)
      .limit(p.limit),
  ]
})

/**
 * Reads a page of the feed and the sequence up to which it was read; `oldest` is the first stored sequence, or the next
 * one where none is stored.
 */
export async function findChanges(
  { db, companyId }: CompanyContext,
  { after, types, limit }: { after: number; types: readonly ChangeType[]; limit: number },
) {
  const [ofCompany, ofPage] = page({ companyId, after, types: JSON.stringify(types), limit: limit + 1 })
  const [[company], rows] = await db.read([ofCompany, mapRows(ofPage, (rows: ChangeRow[]) => rows)])
  const last = company?.last ?? 0
  const oldest = company?.oldest ?? last + 1
  const shown = rows.slice(0, limit)
  const isFull = rows.length > limit
  const readTo = isFull ? (shown.at(-1)?.sequence ?? after) : Math.min(Math.max(after, oldest - 1) + WINDOW, last)
  return { rows: shown, readTo: Math.max(readTo, after), hasMore: readTo < last, oldest, feed: company?.feed ?? 0 }
}

const clientsOf = prepare((p: Placeholders<'companyId' | 'ids'>) =>
  orm
    .select(COLUMNS.clients)
    .from(clients)
    .where(sql`${clients.company_id} = ${p.companyId} AND ${clients.id} IN (SELECT value FROM json_each(${p.ids}))`),
)

const ordersOf = orderStatements(EXPANSIONS, (p: Placeholders<'companyId' | 'ids'>) => {
  return { ids: sql`SELECT value AS page_id, key AS sort_value FROM json_each(${p.ids})`, order: sql`sort_value` }
})

/** The page as far as its orders fit into a response, with the clients and orders of its changes. */
export async function withObjects({ db, companyId }: CompanyContext, page: ChangePage) {
  const idsOf = (type: ChangeType, { rows }: ChangePage) => [
    ...new Set(rows.flatMap((row) => (row.type === type ? [Number(row.entity_id)] : []))),
  ]
  const valuesOf = (ids: unknown[]) => ({ companyId, ids: JSON.stringify(ids) })
  const orderIds = idsOf('orders', page)
  let [clientRows, orders] = await db.read([
    clientsOf(valuesOf(idsOf('clients', page))),
    ordersOf.small(valuesOf(orderIds)),
  ])
  if (orders[0]?.isCut) [orders] = await db.read([ordersOf.listed(valuesOf(orderIds))])
  let cut = orders.find(({ isCut }) => isCut)?.row.id
  if (cut !== undefined && cut === orderIds[0]) {
    // The first order alone is over the limits: nothing shorter than it can be sent.
    ;[orders] = await db.read([ordersOf.whole(valuesOf([cut]))])
    cut = orderIds[1]
  }
  const end = page.rows.findIndex(({ type, entity_id }) => type === 'orders' && Number(entity_id) === cut)
  const readTo = page.rows[end - 1]?.sequence ?? 0
  const fits = end < 0 ? page : { ...page, rows: page.rows.slice(0, end), readTo, hasMore: true }
  const shown = { clients: new Set(idsOf('clients', fits)), orders: new Set(idsOf('orders', fits)) }
  return {
    page: fits,
    clients: clientRows.filter(({ id }) => shown.clients.has(id)).map(withIsoTimes),
    orders: orders.filter(({ row }) => shown.orders.has(row.id)).map((order) => presentListed(order, EXPANSIONS)),
  }
}

/** The empty page behind the newest change. */
export async function findEnd({ db, companyId }: CompanyContext): Promise<ChangePage> {
  const [[company]] = await db.read([orm.select(feedOf).from(companies).where(sql`${companies.id} = ${companyId}`)])
  const { last, feed } = company ?? { last: 0, feed: 0 }
  return { rows: [], readTo: last, hasMore: false, oldest: last + 1, feed }
}
