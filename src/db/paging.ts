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

/** Whether the page is nearer to the end of its parts: it is then read from there. */
export const IS_NEAR_END = sql`(skipped > available / 2)`

/** The number of rows to read, or 0 unless the condition on the span holds. */
export function takenIf(condition: SQL): SQL {
  return sql`(SELECT iif(${condition}, taken, 0) FROM span)`
}
