import { sql } from 'drizzle-orm'
import { withIsoTimes } from '../../kernel/api/contract.ts'
import { orm, type Placeholders, prepare, statement } from '../../kernel/db/client.ts'
import { COLUMNS } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { clients } from '../../kernel/db/schema.ts'
import { orderStatements, presentListed } from '../orders/parts-sql.ts'
import { EXPANSIONS } from '../orders/shapes.ts'
import type { ChangeType } from './contract.ts'
import type { ChangeRow } from './present.ts'

/** Limits the rows that one page reads: with a filter it may find none among them. */
const WINDOW = 5_000

export type ChangePage = Awaited<ReturnType<typeof findChanges>>

/** A company that was lost and made again has another `feed`, whose sequences begin again. */
const FEED = 'last_change AS last, created_at AS feed'
const OLDEST = '(SELECT min(sequence) FROM changes WHERE company_id = ?1)'
const ENDS = `SELECT ${FEED}, ${OLDEST} AS oldest FROM companies WHERE id = ?1`
const FIRST = `max(CAST(?2 AS INTEGER), coalesce(${OLDEST}, 1) - 1)`
const PAGE = `SELECT d.sequence, d.type, d.entity_id, d.operation, d.version, d.at, d.old_status_id, d.new_status_id,
    t.account_email, t.legacy_thread_id FROM changes AS d
  LEFT JOIN email_threads AS t ON d.type = 'email_threads' AND t.id = d.entity_id AND t.company_id = d.company_id
  WHERE d.company_id = ?1 AND d.sequence > ${FIRST} AND d.sequence <= ${FIRST} + ${WINDOW}
    AND d.type IN (SELECT value FROM json_each(?3)) ORDER BY d.sequence LIMIT ?4`

type Feed = { last: number; feed: number }

/**
 * Reads a page of the feed and the sequence up to which it was read; `oldest` is the first stored sequence, or the next
 * one where none is stored.
 */
export async function findChanges(
  { db, companyId }: CompanyContext,
  { after, types, limit }: { after: number; types: readonly ChangeType[]; limit: number },
) {
  const [[company], rows] = await db.read([
    statement<Feed & { oldest: number | null }>(ENDS, companyId),
    statement<ChangeRow>(PAGE, companyId, after, JSON.stringify(types), limit + 1),
  ])
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
  const [clientIds, orderIds] = [idsOf('clients', page), idsOf('orders', page)]
  let [clientRows, orders] = await db.read([clientsOf(valuesOf(clientIds)), ordersOf.small(valuesOf(orderIds))])
  if (orders[0]?.isCut) [orders] = await db.read([ordersOf.listed(valuesOf(orderIds))])
  let cut = orders.find(({ isCut }) => isCut)?.row.id
  if (cut !== undefined && cut === orderIds[0]) {
    // The first order alone is over the limits: nothing shorter than it can be sent.
    ;[orders] = await db.read([ordersOf.uncut(valuesOf([cut]))])
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
  const [[company]] = await db.read([statement<Feed>(`SELECT ${FEED} FROM companies WHERE id = ?`, companyId)])
  const { last, feed } = company ?? { last: 0, feed: 0 }
  return { rows: [], readTo: last, hasMore: false, oldest: last + 1, feed }
}
