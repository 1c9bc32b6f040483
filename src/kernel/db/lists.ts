import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import { LruCache } from '../http/cache.ts'
import type { CursorPlace } from '../http/cursor.ts'
import type { Database, Filled, Placeholders } from './client.ts'

/** An order of a list; elements that are equal in it are ordered by id. */
export interface Sort {
  column: 'id' | 'created_at' | 'updated_at' | 'created_date'
  direction: 'ASC' | 'DESC'
}

/** Which values of `deleted` a list has, by its parameter. */
export const DELETED = { exclude: [0], include: [0, 1], only: [1] } as const

export type Flag = 0 | 1

/** Of what a filter finds, up to so many are gathered and sorted; with more, the list is walked in its order. */
const GATHERED = 1_000

/** A condition that an index has. */
interface Indexed {
  index: string
  condition: SQL
}

/** A search by full-text tables. */
interface Search {
  /** Selects `id` of all hits that are not deleted, maybe of others or twice. Ends with `limit`. */
  hits: (limit: SQL) => SQL
  /** The same as a condition of a row. */
  condition: SQL
  /** Whether no hit is deleted or there twice, and an order by `id` has them in this order. */
  isExact?: boolean
}

/**
 * `limit` rows behind `offset`, or behind the row with `key` and `id` as they were at the company's change `sequence`,
 * which only a list by `updated_at` needs.
 */
export type ListValues = Placeholders<'companyId' | 'limit', 'offset' | 'key' | 'id' | 'sequence'>

/** Where a page begins: after `offset` elements, or after a cursor's place. */
export interface PageStart {
  limit: number
  offset: number
  /** As the list's own queries wrote it; null of a page by number. */
  after: CursorPlace | null
}

/** A page, and the place of its last element when more follow. `total` is null behind a cursor, which has it. */
export interface FoundPage<T> {
  rows: T[]
  total: number | null
  next: CursorPlace | null
}

/** A list in the order of a key. Its pages, by number and by cursor, and its total come from this. */
export interface List {
  table: 'clients' | 'orders'
  sort: Sort
  flags: readonly Flag[]
  /** All filters but the search, as conditions of a row. */
  filters: (SQL | undefined)[]
  search?: Search | undefined
  /** The index that has the rows of a flag in the list's order, or a client's. */
  index: (flag: Flag) => string
  /** The index that has the rows that are not deleted by id. */
  idIndex: string
  /** Finds the rows of a flag when that is likely to be less work. Every filter is tested anyway. */
  source?: (flag: Flag) => Indexed | Search | undefined
  /** Selects `page_id` and `place` of a part of the first `end` rows, in place of {@link index}. */
  walk?: ((flag: Flag, conditions: SQL, end: SQL, limit: SQL) => SQL | undefined) | undefined
  p: ListValues
}

/** The order that a value of `sort` names. */
export function sortOf(sort: string): Sort {
  return { column: sort.replace('-', '') as Sort['column'], direction: sort.startsWith('-') ? 'DESC' : 'ASC' }
}

/** Caches what is built for each variant: a statement's text also depends on its order. */
export function perVariant<V, T extends object>(build: (variant: V) => T): (variant: V) => T {
  const built = new LruCache<string, T>({ maxWeight: 200 })
  return (variant) => {
    const key = JSON.stringify(variant)
    const value = built.get(key) ?? build(variant)
    built.set(key, value)
    return value
  }
}

/** The values of {@link ListValues} that select a page. `limit` has one row more, which tells that a page follows. */
interface Place {
  limit: number
  offset?: number
  key?: string | number
  id?: number
  sequence?: number
}

/** Reads a page with `page` and, unless a cursor has it, the list's length and the company's newest change with `whole`. */
export async function readPage<R extends { row: { id: number }; place: string | number }>(
  db: Database,
  { column }: Sort,
  { limit, offset, after }: PageStart,
  page: (place: Place) => Filled<R[]>,
  whole: () => Filled<{ total: number; sequence: number }[]>,
): Promise<FoundPage<R>> {
  const [key, id, sequence] = after ?? []
  const since = column === 'updated_at' && after ? { sequence: Number(sequence) } : {}
  const place = after ? { key: key ?? '', id: Number(id), ...since } : { offset }
  const filled = page({ limit: limit + 1, ...place })
  const [found, [list] = []] = after ? await db.read([filled]) : await db.read([filled, whole()])
  const last = found.length > limit ? found[limit - 1] : undefined
  const walk = column === 'updated_at' ? [since.sequence ?? list?.sequence ?? 0] : []
  return {
    rows: found.slice(0, limit),
    total: list?.total ?? null,
    next: last ? [last.place, last.row.id, ...walk] : null,
  }
}

/**
 * Selects `page_id` and `place`, the value of the order, of a page. Each flag is read from its own partial index.
 *
 * In an order by `updated_at`, a row that changed after `sequence` keeps the place it had then, from the feed of changes,
 * and a row created after it has none. So no row is met twice or never, whatever changes between pages.
 */
function pageIds(list: List): SQL {
  const { sort, flags, p } = list
  const { table, id, key, order, ofCompany } = namesOf(list)
  const isAfter = (place: SQL, ofId: SQL) => {
    const sign = sql.raw(sort.direction === 'ASC' ? '>' : '<')
    if (!p.id || !p.key) return undefined
    return sort.column === 'id' ? sql`${ofId} ${sign} ${p.id}` : sql`(${place}, ${ofId}) ${sign} (${p.key}, ${p.id})`
  }
  const page = limitTo(p.limit, p.offset)
  // The rows of several branches are merged in order; one branch selects the page itself, which spares sorting all before.
  const isMerged = flags.length > 1 || p.sequence !== undefined
  const end = p.offset ? sql`${p.limit} + ${p.offset}` : sql`${p.limit}`
  const firstIf = (condition?: SQL) => {
    const number = isMerged ? end : sql`${p.limit}`
    return limitTo(condition ? sql`iif(${condition}, ${number}, 0)` : number, isMerged ? undefined : p.offset)
  }
  const selected = sql`SELECT ${id} AS page_id, ${key} AS place`
  const tables: SQL[] = []
  const branches = flags.flatMap((flag) => {
    const isOnPage = [isAfter(key, id), p.sequence && sql`${id} NOT IN (SELECT id FROM changed)`]
    const conditions = allOf([isListed(list, flag), ...isOnPage])
    const walked = sql`${selected} FROM ${table} INDEXED BY ${sql.raw(list.index(flag))} WHERE ${conditions}`
    const walk = (limit: SQL) =>
      sql`SELECT * FROM (${list.walk?.(flag, conditions, end, limit) ?? sql`${walked} ORDER BY ${order} ${limit}`})`
    const source = list.source?.(flag)
    if (!source) return [isMerged && !list.walk ? walked : walk(firstIf())]
    if (sort.column === 'id' && 'hits' in source && isWhole(list, source)) {
      return [sql`SELECT id AS page_id, id AS place FROM (${source.hits(firstIf())})`]
    }
    const gathered = sql.raw(`hits_${flag}`)
    const some = sql.raw(`LIMIT ${GATHERED + 1}`)
    tables.push(sql`${gathered} AS MATERIALIZED (SELECT DISTINCT id FROM (${hitsOf(list, flag, source, some)}))`)
    const isFew = sql`(SELECT count(*) <= ${sql.raw(`${GATHERED}`)} FROM ${gathered})`
    const isHit = allOf([sql`${id} = ${gathered}.id`, isListed(list, flag, source), ...isOnPage])
    return [
      sql`SELECT * FROM (${selected} FROM ${gathered} CROSS JOIN ${table} WHERE ${isHit} ORDER BY ${order} ${firstIf(isFew)})`,
      walk(firstIf(sql`NOT ${isFew}`)),
    ]
  })
  if (p.sequence) {
    tables.push(sql`changed AS MATERIALIZED (
      SELECT CAST(entity_id AS INTEGER) AS id, previous_updated_at AS place, min(sequence) FROM changes
      WHERE company_id = ${p.companyId} AND sequence > ${p.sequence} AND type = ${sql.raw(`'${list.table}'`)}
      GROUP BY entity_id)`)
    const [changedId, place] = [sql`changed.id`, sql`changed.place`]
    const isChanged = flags.map((flag) => sql`(${isListed(list, flag)})`)
    branches.push(sql`SELECT ${changedId} AS page_id, ${place} AS place FROM changed CROSS JOIN ${table}
      WHERE ${ofCompany} AND ${id} = ${changedId} AND ${place} IS NOT NULL AND (${sql.join(isChanged, sql` OR `)})
        AND ${isAfter(place, changedId)}`)
  }
  return sql`${tables.length > 0 ? sql`WITH ${sql.join(tables, sql`, `)}` : sql``}
    ${sql.join(branches, sql` UNION ALL `)} ${isMerged ? sql`ORDER BY ${order} ${page}` : sql``}`
}

/** The rows of {@link pageIds}, to be selected from, and their order. */
export function pageRows(list: List) {
  const { table, id, order, ofCompany } = namesOf(list)
  return { from: sql`(${pageIds(list)}) AS page CROSS JOIN ${table} ON ${ofCompany} AND ${id} = page_id`, order }
}

/** The length of the list. @param counter of the rows that are not deleted, where there is one */
export function totalOf(list: List, counter: SQL): SQL<number> {
  const { table, id } = namesOf(list)
  const isFiltered = list.search || list.filters.some(Boolean)
  const counts = list.flags.map((flag) => {
    if (flag === 0 && !isFiltered) return counter
    const source = list.source?.(flag)
    if (!source || 'index' in source) {
      const index = sql.raw(source?.index ?? list.index(flag))
      return sql`(SELECT count(*) FROM ${table} INDEXED BY ${index} WHERE ${isListed(list, flag)})`
    }
    const hits = source.hits(sql``)
    if (isWhole(list, source)) return sql`(SELECT count(*) FROM (${hits}))`
    const once = source.isExact ? sql`` : sql`DISTINCT`
    return sql`(SELECT count(*) FROM (SELECT ${once} id AS hit FROM (${hits})) CROSS JOIN ${table}
      INDEXED BY ${sql.raw(list.idIndex)} WHERE ${id} = hit AND ${isListed(list, flag, source)})`
  })
  return sql<number>`${sql.join(counts, sql` + `)}`
}

function namesOf({ table, sort, p }: List) {
  const [id, key] = [sql.raw(`${table}.id`), sql.raw(`${table}.${sort.column}`)]
  const order = sql.raw(`place ${sort.direction}${sort.column === 'id' ? '' : `, page_id ${sort.direction}`}`)
  const ofCompany = sql`${sql.raw(`${table}.company_id`)} = ${p.companyId}`
  return { table: sql.raw(table), id, key, order, ofCompany }
}

const allOf = (conditions: (SQL | undefined)[]) =>
  sql.join(
    conditions.filter((condition) => condition !== undefined),
    sql` AND `,
  )

const limitTo = (limit: SQL | Placeholder, offset?: Placeholder) =>
  sql`LIMIT ${limit} ${offset ? sql`OFFSET ${offset}` : sql``}`

/** Whether a source is a search whose hits are the rows that are not deleted, with no other filter. */
function isWhole({ filters }: List, { isExact }: Search): boolean {
  return isExact === true && !filters.some(Boolean)
}

/** The flag is a literal, as in the conditions of partial indexes. The source's own hits are not searched again. */
function isListed(list: List, flag: Flag, source?: Indexed | Search): SQL {
  const search = source === list.search ? undefined : list.search?.condition
  return allOf([namesOf(list).ofCompany, sql.raw(`${list.table}.deleted = ${flag}`), ...list.filters, search])
}

function hitsOf({ table, p }: List, flag: Flag, source: Indexed | Search, limit: SQL): SQL {
  if ('hits' in source) return source.hits(limit)
  return sql`SELECT id FROM ${sql.raw(`${table} INDEXED BY ${source.index}`)}
    WHERE company_id = ${p.companyId} AND ${sql.raw(`deleted = ${flag}`)} AND ${source.condition} ${limit}`
}
