import { type Placeholder, type SQL, sql } from 'drizzle-orm'

/** OFFSET skips at most this many rows; later pages are found by counts. */
export const OFFSET_MAX = 1_000

/**
 * Common table expressions that find a page of a list by the counts of its parts (days, blocks of ids) without reading
 * the rows before it. They follow one named `counted (part, number)`; parts are listed in descending order.
 *
 * `placed` has the number of rows before each part. `span` has the parts `low` to `high` that contain the page, and how
 * many of their `available` rows are `skipped` and then `taken` (0 when the list ends before the page).
 */
export function spanOfPage(limit: Placeholder, offset: Placeholder): SQL {
  return sql`placed AS MATERIALIZED (
      SELECT part, number, sum(number) OVER (ORDER BY part DESC) - number AS before FROM counted WHERE number > 0),
    span AS MATERIALIZED (
      SELECT min(part) AS low, max(part) AS high, coalesce(${offset} - min(before), 0) AS skipped,
        coalesce(sum(number), 0) AS available,
        coalesce(min(${limit}, sum(number) - ${offset} + min(before)), 0) AS taken
      FROM placed WHERE before < ${offset} + ${limit} AND before + number > ${offset})`
}

/** The length of the whole list. */
export const totalOfCounted = sql<number>`(SELECT coalesce(sum(number), 0) FROM counted)`

/**
 * The page among the rows of its span, read from the nearer end.
 *
 * @param rows a SELECT without its order
 * @param keys the columns that order the list, descending
 */
export function pageOfSpan(rows: SQL, keys: readonly string[]): SQL {
  const isNearEnd = sql`(skipped > available / 2)`
  const orderBy = (direction: 'ASC' | 'DESC') =>
    sql.raw(`ORDER BY ${keys.map((key) => `${key} ${direction}`).join(', ')}`)
  const takenIf = (condition: SQL) => sql`(SELECT iif(${condition}, taken, 0) FROM span)`
  return sql`SELECT * FROM (${rows} ${orderBy('DESC')}
      LIMIT ${takenIf(sql`NOT ${isNearEnd}`)} OFFSET (SELECT skipped FROM span))
    UNION ALL SELECT * FROM (${rows} ${orderBy('ASC')}
      LIMIT ${takenIf(isNearEnd)} OFFSET (SELECT available - skipped - taken FROM span))`
}
