import { and, eq, or, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { LruCache } from '../http/isolate.ts'
import { type Database, type Filled, orm, type Placeholders } from './client.ts'
import { companies } from './schema.ts'

/** The position in a list. Keep it short, since it is part of URLs. */
export type CursorPosition = readonly (string | number | null)[]

type Column = 'id' | 'created_at' | 'updated_at' | 'created_date'

/** The order of a list, `-` for descending; equal elements are ordered by id. */
export type Sort = Column | `-${Column}`

export const DELETED = { exclude: [0], include: [0, 1], only: [1] } as const

type Flag = 0 | 1

/** The counter of rows that are not deleted, their index by id, and the column of the indexes whose names have none. */
const TABLES = {
  clients: { count: sql`companies.client_count`, byId: 'clients_live', unnamed: 'id' },
  orders: { count: sql`companies.order_count`, byId: 'sqlite_autoindex_orders_1', unnamed: 'created_date' },
}

/** Up to so many hits of a filter are gathered and sorted; with more, the list is walked in its order. */
const GATHERED = 1_000

interface Indexed {
  index: string
  condition: SQL
}

interface Search {
  /** Selects the `id` of all hits, which may include deleted rows and doubles. Ends with `limit`. */
  hits: (limit: SQL) => SQL
  condition: SQL
  /** Hits include no deleted rows and no doubles, and come in the list's order if that is by `id`. */
  isExact?: boolean
}

/**
 * A page starts after `offset`, or after the row with `key` and `id`; by `updated_at` also with `sequence`. `limit` is one
 * row more, which tells whether a page follows.
 */
type PageValues = { limit: number; offset?: number; key?: string | number; id?: number; sequence?: number }

/** `isLong` is given where hits have only the ends of a long text: they must be compared with the condition. */
type Optional = Exclude<keyof PageValues, 'limit'> | 'updated_since' | 'external_id' | 'isLong'

export interface PageStart {
  limit: number
  offset: number
  /** The cursor's position, as this list wrote it; null for a page by number. */
  after: CursorPosition | null
}

export interface List {
  table: keyof typeof TABLES
  sort: Sort
  deleted: keyof typeof DELETED
  /** The filters but the search and those of every list, as conditions of a row. */
  filters: (SQL | undefined)[]
  search?: Search | undefined
  /** An index of a filter, with the rows that are not deleted in the list's order; if they are few, all may be read. */
  live?: { index: string; isFew?: boolean } | undefined
  /** Finds the rows of a flag by a filter of this list where that is likely to be less work. */
  source?: (flag: Flag) => Indexed | undefined
  /** Replaces the walk of `live`: selects `page_id` and `sort_value` of a part of the first `end` rows. */
  walk?: ((conditions: SQL, end: SQL, limit: SQL) => SQL) | undefined
  p: Placeholders<'companyId' | 'limit', Optional>
}

/** Caches the statements of each variant, whose texts differ. */
export function perVariant<V, T extends object>(build: (variant: V) => T): (variant: V) => T {
  const built = new LruCache<string, T>({ maxWeight: 200 })
  return (variant) => built.getOrMake(JSON.stringify(variant), () => build(variant))
}

interface PageStatements<V, R> {
  page: (values: V) => Filled<R[]>
  summary: (values: V) => Filled<{ total: number; sequence: number }[]>
}

/**
 * Reads a page; without a cursor also the summary, which has the list's length and the company's newest change. A row
 * that `isCut` could not be read completely: the page ends before it. `next` is the position of the last element if more
 * follow; `total` is null after a cursor, which carries it.
 */
export async function readPage<V, R extends { row: { id: number }; sortValue: string | number; isCut?: boolean }>(
  db: Database,
  sort: Sort,
  { limit, offset, after }: PageStart,
  { page, summary }: PageStatements<V & PageValues, R>,
  values: V,
) {
  const [key, id, sequence] = after ?? []
  const isByChange = sort.endsWith('updated_at')
  const since = isByChange && after ? { sequence: Number(sequence) } : {}
  const start = after ? { key: key ?? '', id: Number(id), ...since } : { offset }
  const paged = page({ ...values, limit: limit + 1, ...start })
  const [found, [list] = []] = after ? await db.read([paged]) : await db.read([paged, summary({ ...values, limit: 0 })])
  const end = found.slice(0, limit).findIndex(({ isCut }) => isCut)
  const rows = found.slice(0, end < 0 ? limit : end)
  const last = found.length > rows.length ? rows.at(-1) : undefined
  const walk = isByChange ? [since.sequence ?? list?.sequence ?? 0] : []
  const next = last ? [last.sortValue, last.row.id, ...walk] : null
  return { rows, total: list?.total ?? null, next, isCut: end >= 0 }
}

/**
 * Selects `page_id` and `sort_value` of a page, and its order. Each flag is read from its own partial index.
 *
 * Sorted by `updated_at`, a walk uses each row's time as of `sequence`, from the feed of changes, and omits rows created
 * later. So it meets every row exactly once, whatever changes between pages.
 */
export function idsOfPage(list: List) {
  const { p } = list
  const flags = DELETED[list.deleted]
  const { table, id, column, key, direction, order, ofCompany } = namesOf(list)
  const isAfter = (value: SQL, ofId: SQL) => {
    const sign = sql.raw(direction === 'ASC' ? '>' : '<')
    if (!p.id || !p.key) return undefined
    return column === 'id' ? sql`${ofId} ${sign} ${p.id}` : sql`(${value}, ${ofId}) ${sign} (${p.key}, ${p.id})`
  }
  const page = limitTo(p.limit, p.offset)
  // Several branches are merged in order; a single branch selects the page itself, without sorting all rows before it.
  const isMerged = flags.length > 1 || p.sequence !== undefined
  const end = p.offset ? sql`${p.limit} + ${p.offset}` : sql`${p.limit}`
  const firstIf = (condition?: SQL) => {
    const number = isMerged ? end : sql`${p.limit}`
    return limitTo(condition ? sql`iif(${condition}, ${number}, 0)` : number, isMerged ? undefined : p.offset)
  }
  const selected = sql`SELECT ${id} AS page_id, ${key} AS sort_value`
  const tables: SQL[] = []
  const branches = flags.flatMap((flag) => {
    const isOnPage = [isAfter(key, id), p.sequence && sql`${id} NOT IN (SELECT id FROM changed)`]
    const conditions = sql`${and(isListed(list, flag), ...isOnPage)}`
    const walked = sql`${selected} FROM ${table} INDEXED BY ${walkedIndex(list, flag)} WHERE ${conditions}`
    const ownWalk = flag === 0 ? list.walk : undefined
    const walk = (limit: SQL) =>
      sql`SELECT * FROM (${ownWalk?.(conditions, end, limit) ?? sql`${walked} ORDER BY ${order} ${limit}`})`
    const source = sourceOf(list, flag)
    // SQLite merges plain branches in the order of their indexes, and reads no further than the page.
    if (!source) return [isMerged && !list.walk ? walked : walk(firstIf())]
    if (column === 'id' && 'hits' in source && isWhole(list, source)) {
      return [sql`SELECT id AS page_id, id AS sort_value FROM (${source.hits(firstIf())})`]
    }
    const gathered = sql.raw(`hits_${flag}`)
    const some = sql.raw(`LIMIT ${GATHERED + 1}`)
    tables.push(sql`${gathered} AS MATERIALIZED (SELECT DISTINCT id FROM (${hitsOf(list, flag, source, some)}))`)
    const isFew = sql`(SELECT count(*) <= ${sql.raw(`${GATHERED}`)} FROM ${gathered})`
    const isHit = and(sql`${id} = ${gathered}.id`, isListed(list, flag, source), ...isOnPage)
    return [
      sql`SELECT * FROM (${selected} FROM ${gathered} CROSS JOIN ${table} WHERE ${isHit} ORDER BY ${order} ${firstIf(isFew)})`,
      walk(firstIf(sql`NOT ${isFew}`)),
    ]
  })
  if (p.sequence) {
    // Beside min(), SQLite takes other columns from the row with the minimum: the first change after the walk began.
    tables.push(sql`changed AS MATERIALIZED (
      SELECT CAST(entity_id AS INTEGER) AS id, previous_updated_at AS sort_value, min(sequence) FROM changes
      WHERE company_id = ${p.companyId} AND sequence > ${p.sequence} AND type = ${sql.raw(`'${list.table}'`)}
      GROUP BY entity_id)`)
    const [changedId, value] = [sql`changed.id`, sql`changed.sort_value`]
    const isChanged = flags.map((flag) => isListed(list, flag))
    branches.push(sql`SELECT ${changedId} AS page_id, ${value} AS sort_value FROM changed CROSS JOIN ${table}
      WHERE ${ofCompany} AND ${id} = ${changedId} AND ${value} IS NOT NULL AND ${or(...isChanged)}
        AND ${isAfter(value, changedId)}`)
  }
  const ids = sql`${tables.length > 0 ? sql`WITH ${sql.join(tables, sql`, `)}` : sql``}
    ${sql.join(branches, sql` UNION ALL `)} ${isMerged ? sql`ORDER BY ${order} ${page}` : sql``}`
  return { ids, order }
}

/** Selects the list's length and the company's newest change. */
export function summaryOf(list: List) {
  const { table, id } = namesOf(list)
  const { count, byId } = TABLES[list.table]
  const counts = DELETED[list.deleted].map((flag) => {
    if (flag === 0 && !list.search && filtersOf(list).length === 0) return count
    const source = sourceOf(list, flag)
    if (!source || 'index' in source) {
      const index = source ? sql.raw(source.index) : walkedIndex(list, flag)
      return sql`(SELECT count(*) FROM ${table} INDEXED BY ${index} WHERE ${isListed(list, flag)})`
    }
    const hits = source.hits(sql``)
    if (isWhole(list, source)) return sql`(SELECT count(*) FROM (${hits}))`
    const once = source.isExact ? sql`` : sql`DISTINCT`
    return sql`(SELECT count(*) FROM (SELECT ${once} id AS hit FROM (${hits})) CROSS JOIN ${table}
      INDEXED BY ${sql.raw(byId)} WHERE ${id} = hit AND ${isListed(list, flag, source)})`
  })
  const total = sql<number>`${sql.join(counts, sql` + `)}`.as('total')
  const isCompany = eq(companies.id, list.p.companyId)
  return orm.select({ total, sequence: companies.last_change }).from(companies).where(isCompany)
}

function namesOf({ table, sort, p }: List) {
  const column = columnOf(sort)
  const direction = sort.startsWith('-') ? 'DESC' : 'ASC'
  const [id, key] = [sql.raw(`${table}.id`), sql.raw(`${table}.${column}`)]
  const order = sql.raw(`sort_value ${direction}${column === 'id' ? '' : `, page_id ${direction}`}`)
  const ofCompany = sql`${sql.raw(`${table}.company_id`)} = ${p.companyId}`
  return { table: sql.raw(table), id, column, key, direction, order, ofCompany }
}

const columnOf = (sort: Sort) => sort.replace('-', '') as Column

/** The index with the rows of a flag in the order of a column. */
function indexOf(table: List['table'], flag: Flag, column: Column): string {
  const { byId, unnamed } = TABLES[table]
  if (column === 'id' && flag === 0) return byId
  return `${table}_${flag ? 'deleted' : 'live'}${column === unnamed ? '' : `_${column.replace('_at', '')}`}`
}

function walkedIndex({ table, sort, live }: List, flag: Flag): SQL {
  return sql.raw(flag === 0 && live ? live.index : indexOf(table, flag, columnOf(sort)))
}

/** The rows of a flag, where finding them is likely to be less work than a walk. All filters are tested anyway. */
function sourceOf(list: List, flag: Flag): Indexed | Search | undefined {
  const { table, sort, search, live, source } = list
  const { isChanged, isExternal } = commonFilters(list)
  if (isExternal) return { index: `${table}_external_id`, condition: isExternal }
  if (flag === 0 && live?.isFew) return undefined
  if (flag === 0 && search) return search
  if (!isChanged || sort.endsWith('updated_at')) return source?.(flag)
  return { index: indexOf(table, flag, 'updated_at'), condition: isChanged }
}

function commonFilters({ table, p }: List) {
  return {
    isChanged: p.updated_since && sql`${sql.raw(`${table}.updated_at`)} >= ${p.updated_since}`,
    isExternal: p.external_id && sql`${sql.raw(`${table}.external_id`)} = ${p.external_id}`,
  }
}

/** All but the search. */
function filtersOf(list: List): SQL[] {
  const all = [...list.filters, ...Object.values(commonFilters(list))]
  return all.filter((condition) => condition !== undefined)
}

const limitTo = (limit: SQL | Placeholder, offset?: Placeholder) =>
  sql`LIMIT ${limit} ${offset ? sql`OFFSET ${offset}` : sql``}`

/** Whether the hits of a source are the whole list: an exact search without other filters. */
function isWhole(list: List, { isExact }: Search): boolean {
  return isExact === true && !list.p.isLong && filtersOf(list).length === 0
}

/** The flag is a literal, as in the conditions of partial indexes. Hits of the search itself are not searched again. */
function isListed(list: List, flag: Flag, source?: Indexed | Search): SQL | undefined {
  const search = source === list.search && !list.p.isLong ? undefined : list.search?.condition
  return and(namesOf(list).ofCompany, sql.raw(`${list.table}.deleted = ${flag}`), ...filtersOf(list), search)
}

function hitsOf({ table, p }: List, flag: Flag, source: Indexed | Search, limit: SQL): SQL {
  if ('hits' in source) return source.hits(limit)
  return sql`SELECT id FROM ${sql.raw(`${table} INDEXED BY ${source.index}`)}
    WHERE company_id = ${p.companyId} AND ${sql.raw(`deleted = ${flag}`)} AND ${source.condition} ${limit}`
}
