import { eq, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { OWN_SLOT, orm, type Placeholders, prepare } from '../../kernel/db/client.ts'
import { jsonRow, projectColumns } from '../../kernel/db/columns.ts'
import type { FoundPage, PageStart } from '../../kernel/db/keyset.ts'
import {
  DELETED,
  type Flag,
  type Keyset,
  type KeysetValues,
  pageRows,
  perVariant,
  readKeyset,
  type Sort,
  type Source,
  sortOf,
  totalOf,
} from '../../kernel/db/keyset.ts'
import { companies } from '../../kernel/db/schema.ts'
import { fold, idOf, inSlot, substringMatch } from '../../kernel/db/search.ts'
import type { Expansion, OrderList } from './contract.ts'
import { expansions, type ListedRow } from './expand-queries.ts'
import { hasStatus, inDays, listNewest, type RangePlaceholders, selectTotal } from './newest-queries.ts'

/** One page, and the exact total. Newest orders are found by counts, however far the page; others by their keys. */
export async function listOrders(
  context: RequestContext,
  { page: _page, per_page: _perPage, cursor: _cursor, ...listed }: OrderList,
  { limit, offset, after }: PageStart,
): Promise<FoundPage<ListedRow>> {
  const { db, companyId } = context
  const { sort, deleted, status, q = '', client_id, from, to, expand = [], ...filters } = listed
  const { updated_since, external_id, ...unused } = filters
  unused satisfies Record<string, never>
  const [one, ...others] = status ?? []
  const search = fold(q.trim())
  const isFiltered =
    deleted !== 'exclude' || search !== '' || Object.values(filters).some((value) => value !== undefined)
  if (!after && !sort && !isFiltered && others.length === 0) {
    const { rows, total } = await listNewest(context, { client_id, from, to, status: one }, expand, { limit, offset })
    const last = rows.at(-1)
    return { rows, total, next: last && offset + rows.length < total ? [last.created_date, last.id] : null }
  }
  const text = search === '' ? {} : { search, match: substringMatch(search), slot: OWN_SLOT }
  const statuses = others.length > 0 ? { statuses: JSON.stringify(status) } : { status: one }
  const values = { companyId, client_id, from, to, ...statuses, updated_since, external_id, ...text }
  const { page, whole } = statements({ sort, deleted, expand })
  const found = await readKeyset(
    db,
    orderOf(sort),
    { limit, offset, after },
    (place) => page({ ...values, ...place }),
    () => whole({ ...values, limit: 0 }),
  )
  return { ...found, rows: found.rows.map(({ row, totals, client }) => ({ ...row, totals, client })) }
}

type Variant = Pick<OrderList, 'sort' | 'deleted'> & { expand: readonly Expansion[] }
type Values = KeysetValues &
  RangePlaceholders &
  Placeholders<never, 'updated_since' | 'external_id' | 'search' | 'match' | 'slot'>

const orderOf = (sort: OrderList['sort']): Sort => (sort ? sortOf(sort) : { column: 'created_date', direction: 'DESC' })

const PROJECT = jsonRow(projectColumns)

const statements = perVariant((variant: Variant) => ({
  page: prepare((p: Values) => {
    const { from, order } = pageRows(keysetOf(variant, p))
    const place = sql<string | number>`place`.as('the_place')
    return orm
      .select({ row: PROJECT.row.as('the_row'), ...expansions(variant.expand), place })
      .from(from)
      .orderBy(order)
  }),
  whole: prepare((p: Values) => {
    const { client_id: _client, status: _status, statuses: _statuses, from: _from, to: _to, ...others } = p
    const isCounted = !keysetOf(variant, others).filters.some(Boolean)
    const total = totalOf(keysetOf(variant, p), isCounted ? sql`${selectTotal(p)}` : undefined).as('total')
    return orm.select({ total, sequence: companies.last_change }).from(companies).where(eq(companies.id, p.companyId))
  }),
}))

function keysetOf({ sort, deleted }: Variant, p: Values): Keyset {
  const order = orderOf(sort)
  const isNewestFirst = order.column === 'created_date'
  const hasChangedSince = p.updated_since && sql`orders.updated_at >= ${p.updated_since}`
  const hasExternalId = p.external_id && sql`orders.external_id = ${p.external_id}`
  const days = inDays(p, sql`orders.created_date`)
  const status = hasStatus(p, sql`orders.order_status_id`)
  const isOfClient = (flag: Flag) => flag === 0 && p.client_id
  const indexOf = (flag: Flag, column: Sort['column']) =>
    `orders_${flag ? 'deleted' : 'live'}${column === 'created_date' ? '' : `_${column.replace('_at', '')}`}`
  return {
    table: 'orders',
    sort: order,
    flags: DELETED[deleted],
    filters: [
      p.client_id && sql`orders.client_id = ${p.client_id}`,
      // An index on it would not have several statuses in the list's order.
      hasStatus(p, sql.raw(p.statuses ? '+orders.order_status_id' : 'orders.order_status_id')),
      ...days,
      hasChangedSince,
      hasExternalId,
      p.search && hasText(p.search),
    ],
    index: (flag) => {
      if (isOfClient(flag)) return p.status && isNewestFirst ? 'orders_of_client_status' : 'orders_of_client'
      return flag === 0 && p.status && isNewestFirst ? 'orders_of_status' : indexOf(flag, order.column)
    },
    source: (flag): Source | undefined => {
      if (hasExternalId) return { index: 'orders_external_id', condition: hasExternalId }
      // A client's orders are few, and no index has deleted ones by client, status or text.
      if (isOfClient(flag)) return undefined
      if (p.search && flag === 0) return { ids: (limit) => idsOfText(p, limit) }
      if (hasChangedSince && order.column !== 'updated_at') {
        return { index: indexOf(flag, 'updated_at'), condition: hasChangedSince }
      }
      if (isNewestFirst) return undefined
      if (status && flag === 0) return { index: 'orders_of_status', condition: status }
      return days.length > 0
        ? { index: indexOf(flag, 'created_date'), condition: sql.join(days, sql` AND `) }
        : undefined
    },
    walk: (flag, conditions, end) =>
      flag === 0 && p.statuses && isNewestFirst ? walkStatuses(p, conditions, end) : undefined,
    p,
  }
}

/** The newest orders of several statuses: of each status the newest, merged. */
function walkStatuses(p: Values, conditions: SQL, end: SQL): SQL {
  const index = sql.raw(p.client_id ? 'orders_of_client_status' : 'orders_of_status')
  return sql`SELECT orders.id AS page_id, orders.created_date AS place
    FROM json_each(${p.statuses}) AS wanted CROSS JOIN orders
    WHERE orders.rowid IN (SELECT orders.rowid FROM orders INDEXED BY ${index}
      WHERE ${conditions} AND orders.order_status_id = wanted.value
      ORDER BY orders.created_date DESC, orders.id DESC LIMIT ${end})
    ORDER BY place DESC, page_id DESC LIMIT ${end}`
}

function hasText(search: SQL | Values['search']): SQL {
  return sql`(instr(orders.title_key, ${search}) > 0 OR instr(orders.number_key, ${search}) > 0
    OR EXISTS (SELECT 1 FROM clients WHERE clients.company_id = orders.company_id AND clients.id = orders.client_id
      AND instr(clients.company_name_key, ${search}) > 0))`
}

/** The orders whose title or number has the text, and those of the clients whose name has it. */
function idsOfText({ companyId, slot, match }: Values, limit: SQL): SQL {
  const hits = (table: string) => sql`SELECT ${idOf(sql`rowid`)} AS id FROM ${sql.raw(table)}
    WHERE ${sql.raw(table)} MATCH ${match} AND rowid ${slot && inSlot(slot)}`
  return sql`SELECT id FROM (${hits('orders_fts')} ${limit})
    UNION ALL SELECT id FROM (SELECT orders.id FROM (${hits('client_names_fts')}) AS named
      CROSS JOIN orders INDEXED BY orders_of_client
      WHERE orders.company_id = ${companyId} AND orders.client_id = named.id AND orders.deleted = 0 ${limit})`
}
