import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { OWN_SLOT, orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { COLUMNS, fold } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { idsOfPage, type List, type PageStart, perVariant, readPage, summaryOf } from '../../kernel/db/lists.ts'
import { orderStatuses, taxes } from '../../kernel/db/schema.ts'
import { idOf, inSlot, isLong, substringMatch } from '../../kernel/db/search.ts'
import type { OrderList } from './contract.ts'
import { orderStatements, type Part } from './parts-sql.ts'
import { EXPANSIONS, type Expansion } from './shapes.ts'
import { isOrder } from './write-sql.ts'

/** The parts of the full order, which has no `totals`. */
export const FULL_PARTS: readonly Part[] = [...EXPANSIONS, 'accounting']

const orderWith = (parts: readonly Part[]) =>
  orderStatements(parts, (p: Placeholders<'companyId' | 'orderId' | 'isDeletedToo'>) => ({
    ids: sql`SELECT id AS page_id, id AS sort_value FROM orders WHERE ${isOrder(p)} AND deleted <= ${p.isDeletedToo}`,
  }))
const fullOrder = orderWith(FULL_PARTS)
const paidOrder = orderWith(['payments'])

export async function findOrder({ db, companyId }: CompanyContext, orderId: number, isDeletedToo: boolean) {
  return (await db.read([fullOrder.uncut({ companyId, orderId, isDeletedToo })]))[0][0]
}

/** The payments of an order, by id; undefined where it does not exist. */
export async function findPayments({ db, companyId }: CompanyContext, orderId: number) {
  return (await db.read([paidOrder.uncut({ companyId, orderId, isDeletedToo: false })]))[0][0]?.payments
}

export async function findStatuses({ db, companyId }: CompanyContext) {
  const { company_id, deleted, position, id } = orderStatuses
  const isListed = sql`${company_id} = ${companyId} AND ${deleted} = 0`
  const query = orm.select(COLUMNS.order_statuses).from(orderStatuses).where(isListed)
  return (await db.read([query.orderBy(position, id)]))[0]
}

export async function findTaxes({ db, companyId }: CompanyContext) {
  const isListed = sql`${taxes.company_id} = ${companyId} AND ${taxes.deleted} = 0`
  return (await db.read([orm.select(COLUMNS.taxes).from(taxes).where(isListed).orderBy(taxes.id)]))[0]
}

/** Up to so many orders of each status are gathered for a page of several. */
const NEAR = 1_000

export async function listOrders(context: RequestContext, query: OrderList, start: PageStart) {
  const { page: _page, per_page: _perPage, cursor: _cursor, ...listed } = query
  const { sort = '-created_date', deleted, expand = [], status, q = '', ...filters } = listed
  const { client_id, from, to, updated_since, external_id, ...unused } = filters
  unused satisfies Record<string, never>
  const { db, companyId } = context
  const [one, ...others] = status ?? []
  const text = fold(q).trim()
  const search = text === '' ? {} : { text, match: substringMatch(text), slot: OWN_SLOT, isLong: isLong([text]) }
  const statuses = others.length > 0 ? { statuses: JSON.stringify(status) } : { status: one }
  const values = { companyId, client_id, from, to, ...statuses, updated_since, external_id, ...search }
  const { page, summary } = statements({ sort, deleted, expand, isFar: start.offset > NEAR })
  const read = (form: keyof typeof page, pageStart: PageStart) =>
    readPage(db, sort, pageStart, { page: page[form], summary }, values)
  for (const form of ['small', 'listed'] as const) {
    const found = await read(form, start)
    if (found.rows.length > 0 || !found.isCut) return found
  }
  // The first order alone is over the limits: nothing shorter than it can be sent.
  const alone = await read('uncut', { ...start, limit: 1 })
  return { ...alone, isCut: start.limit > 1 && alone.next !== null }
}

type Variant = Pick<List, 'sort' | 'deleted'> & { expand: readonly Expansion[]; isFar: boolean }
type Filter = 'client_id' | 'status' | 'statuses' | 'from' | 'to'
type Values = List['p'] & Placeholders<never, Filter | 'text' | 'match' | 'slot'>

const statements = perVariant((variant: Variant) => ({
  page: orderStatements(variant.expand, (p: Values) => idsOfPage(listOf(variant, p))),
  summary: prepare((p: Values) => summaryOf(listOf(variant, p, true))),
}))

function listOf({ sort, deleted, isFar }: Variant, p: Values, isTotal = false): List {
  const isNewestFirst = sort === '-created_date'
  const hasClient = p.client_id && sql`orders.client_id = ${p.client_id}`
  const isFrom = p.from && sql`orders.created_date >= ${p.from}`
  const isTo = p.to && sql`orders.created_date <= ${p.to}`
  const days = [isFrom, isTo].filter((condition) => condition !== undefined)
  const hasStatus = statusCondition(p, isTotal)
  const ofStatus = hasStatus && { index: 'orders_of_status', condition: statusCondition(p, true) ?? hasStatus }
  // No index has deleted orders by client, status or text.
  const ofFilter = hasClient ? { index: 'orders_of_client', isFew: true } : ofStatus
  const isWalked = p.statuses && !hasClient && isNewestFirst && !isFar
  return {
    table: 'orders',
    sort,
    deleted,
    filters: [hasClient, hasStatus, ...days],
    search: p.text && { hits: (limit) => hitsOf(p, limit), condition: hasText(p.text) },
    live: hasClient || isNewestFirst ? ofFilter : undefined,
    source: (flag) => {
      if (isNewestFirst) return undefined
      if (ofStatus && flag === 0) return ofStatus
      if (days.length === 0) return undefined
      return { index: flag ? 'orders_deleted' : 'orders_live', condition: sql.join(days, sql` AND `) }
    },
    walk: isWalked ? (...walked) => walkStatuses(p, ...walked) : undefined,
    p,
  }
}

/** One status is compared, so that an index has its rows in order. */
function statusCondition(p: Values, isUnordered: boolean): SQL | undefined {
  if (p.status) return sql`orders.order_status_id = ${p.status}`
  // Several are in the list's order in no index: only their number, or rows to be sorted, are read from it.
  const id = sql.raw(isUnordered ? 'orders.order_status_id' : '+orders.order_status_id')
  return p.statuses && sql`${id} IN (SELECT value FROM json_each(${p.statuses}))`
}

/** The newest orders of several statuses: of each status the newest, merged. */
function walkStatuses(p: Values, conditions: SQL, end: SQL, limit: SQL): SQL {
  return sql`SELECT orders.id AS page_id, orders.created_date AS sort_value
    FROM json_each(${p.statuses}) AS wanted CROSS JOIN orders
    WHERE orders.company_id = ${p.companyId} AND orders.id IN (SELECT orders.id FROM orders INDEXED BY orders_of_status
      WHERE ${conditions} AND orders.order_status_id = wanted.value
      ORDER BY orders.created_date DESC, orders.id DESC LIMIT ${end})
    ORDER BY sort_value DESC, page_id DESC ${limit}`
}

function hasText(text: Placeholder): SQL {
  return sql`(instr(orders.title_key, ${text}) > 0 OR instr(orders.number_key, ${text}) > 0
    OR EXISTS (SELECT 1 FROM clients WHERE clients.company_id = orders.company_id AND clients.id = orders.client_id
      AND instr(clients.company_name_key, ${text}) > 0))`
}

/** The orders whose title or number has the text, and those of the clients whose name has it. */
function hitsOf({ companyId, slot, match }: Values, limit: SQL): SQL {
  const hits = (table: string) => sql`SELECT ${idOf(sql`rowid`)} AS id FROM ${sql.raw(table)}
    WHERE ${sql.raw(table)} MATCH ${match} AND rowid ${slot && inSlot(slot)}`
  return sql`SELECT id FROM (${hits('orders_fts')} ${limit})
    UNION ALL SELECT id FROM (SELECT orders.id FROM (${hits('client_names_fts')}) AS named
      CROSS JOIN orders INDEXED BY orders_of_client
      WHERE orders.company_id = ${companyId} AND orders.client_id = named.id AND orders.deleted = 0 ${limit})`
}
