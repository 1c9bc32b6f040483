import { type SQL, sql } from 'drizzle-orm'
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

/** How a filter finds rows: a condition that an index has, or ids from elsewhere, of which each may be there twice. */
export type Source = { index: string; condition: SQL } | { ids: (limit: SQL) => SQL; isPage?: boolean }

/**
 * `limit` rows behind `offset`, or behind the row with `key` and `id` as they were at the company's change `sequence`,
 * which only a list by `updated_at` needs.
 */
export type KeysetValues = Placeholders<'companyId' | 'limit', 'offset' | 'key' | 'id' | 'sequence'>

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

/** A list in the order of a key. */
export interface Keyset {
  table: 'clients' | 'orders'
  sort: Sort
  flags: readonly Flag[]
  /** All filters, as conditions of a row. */
  filters: (SQL | undefined)[]
  /** The index that has the rows of a flag in the list's order, or a client's. */
  index: (flag: Flag) => string
  /** What finds the rows of a flag when that is likely to be less work. Every filter is tested anyway. */
  source?: (flag: Flag) => Source | undefined
  /** Selects `page_id` and `place` of the first `end` rows in place of {@link index}. */
  walk?: (flag: Flag, conditions: SQL, end: SQL) => SQL | undefined
  p: KeysetValues
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

/** The values of {@link KeysetValues} that say which page. `limit` has one row more, which tells that a page follows. */
interface Place {
  limit: number
  offset?: number
  key?: string | number
  id?: number
  sequence?: number
}

/** Reads a page with `page` and, unless a cursor has it, the list's length and the company's newest change with `whole`. */
export async function readKeyset<R extends { row: { id: number }; place: string | number }>(
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
function pageIds(list: Keyset): SQL {
  const { sort, flags, p } = list
  const { table, id, key, order, ofCompany } = namesOf(list)
  const isAfter = (place: SQL, ofId: SQL) => {
    const sign = sql.raw(sort.direction === 'ASC' ? '>' : '<')
    if (!p.id || !p.key) return undefined
    return sort.column === 'id' ? sql`${ofId} ${sign} ${p.id}` : sql`(${place}, ${ofId}) ${sign} (${p.key}, ${p.id})`
  }
  const end = p.offset ? sql`${p.limit} + ${p.offset}` : sql`${p.limit}`
  const tables: SQL[] = []
  const isUnchanged = p.sequence && sql`${id} NOT IN (SELECT id FROM changed)`
  const branches = flags.flatMap((flag) => {
    const conditions = allOf([isListed(list, flag), isAfter(key, id), isUnchanged])
    const walked = (limit: SQL) =>
      list.walk?.(flag, conditions, limit) ??
      sql`SELECT ${id} AS page_id, ${key} AS place FROM ${table} INDEXED BY ${sql.raw(list.index(flag))}
        WHERE ${conditions} ORDER BY ${order} LIMIT ${limit}`
    const source = list.source?.(flag)
    if (!source) return [walked(end)]
    const hits = sql.raw(`hits_${flag}`)
    const isPage = 'ids' in source && source.isPage
    tables.push(
      sql`${hits} AS MATERIALIZED (SELECT ${sql.raw('ids' in source ? 'DISTINCT id' : 'id')} FROM (${
        isPage ? source.ids(sql`LIMIT ${end}`) : idsOf(list, flag, source, sql`LIMIT ${sql.raw(`${GATHERED + 1}`)}`)
      }))`,
    )
    const gathered = (limit: SQL) => sql`SELECT ${id} AS page_id, ${key} AS place FROM ${hits} CROSS JOIN ${table}
      WHERE ${sql.raw(list.table)}.id = ${hits}.id AND ${conditions} ORDER BY ${order} LIMIT ${limit}`
    if (isPage) return [gathered(end)]
    const isMany = sql`(SELECT count(*) > ${sql.raw(`${GATHERED}`)} FROM ${hits})`
    return [gathered(sql`iif(${isMany}, 0, ${end})`), walked(sql`iif(${isMany}, ${end}, 0)`)]
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
        AND ${isAfter(place, changedId)} ORDER BY ${order} LIMIT ${end}`)
  }
  const merged = sql.join(
    branches.map((branch) => sql`SELECT * FROM (${branch})`),
    sql` UNION ALL `,
  )
  return sql`${tables.length > 0 ? sql`WITH ${sql.join(tables, sql`, `)}` : sql``}
    SELECT page_id, place FROM (${merged}) ORDER BY ${order} LIMIT ${p.limit} ${p.offset ? sql`OFFSET ${p.offset}` : sql``}`
}

/** The rows of {@link pageIds}, to be selected from, and their order. */
export function pageRows(list: Keyset) {
  const { table, id, order, ofCompany } = namesOf(list)
  return { from: sql`(${pageIds(list)}) AS page CROSS JOIN ${table} ON ${ofCompany} AND ${id} = page_id`, order }
}

/** The length of the list. @param counter of the rows that are not deleted, where there is one */
export function totalOf(list: Keyset, counter?: SQL): SQL<number> {
  const { table, id } = namesOf(list)
  const counts = list.flags.map((flag) => {
    if (flag === 0 && counter) return sql`(${counter})`
    const source = list.source?.(flag)
    const index = source && 'index' in source ? source.index : list.index(flag)
    return source && 'ids' in source
      ? sql`(SELECT count(*) FROM (SELECT DISTINCT id AS hit FROM (${source.ids(sql``)})) CROSS JOIN ${table}
          WHERE ${id} = hit AND ${isListed(list, flag)})`
      : sql`(SELECT count(*) FROM ${table} INDEXED BY ${sql.raw(index)} WHERE ${isListed(list, flag)})`
  })
  return sql<number>`${sql.join(counts, sql` + `)}`
}

function namesOf({ table, sort, p }: Keyset) {
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

/** The flag is a literal, as in the conditions of partial indexes. */
function isListed(list: Keyset, flag: Flag): SQL {
  return allOf([namesOf(list).ofCompany, sql.raw(`${list.table}.deleted = ${flag}`), ...list.filters])
}

function idsOf({ table, p }: Keyset, flag: Flag, source: Source, limit: SQL): SQL {
  if ('ids' in source) return source.ids(limit)
  return sql`SELECT id FROM ${sql.raw(`${table} INDEXED BY ${source.index}`)}
    WHERE company_id = ${p.companyId} AND ${sql.raw(`deleted = ${flag}`)} AND ${source.condition} ${limit}`
}
