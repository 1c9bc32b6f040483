import type { RequestContext } from '../context.ts'
import type { Contract } from './contract.ts'
import { type CursorPlace, readCursor, writeCursor } from './cursor.ts'
import type { Extras } from './endpoint.ts'
import { invalid } from './errors.ts'

/** How long a list can be walked: the feed of changes, which an order by `updated_at` needs, is kept for 31 days. */
const WALK_MAX_MS = 30 * 86_400_000

/** The part of a list's query that says which page; `expand` changes no order. */
interface PageQuery {
  page?: number | undefined
  per_page: number
  cursor?: string | undefined
  expand?: unknown
}

/** Where a page begins: behind `offset` elements, or behind a cursor's place. */
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

/**
 * Opens a page of a list. A cursor carries the number of its page, and the list's total and time from the first one.
 *
 * @throws ApiError 400 when the query's cursor is not usable
 */
export function openPage({ operationId }: Contract, query: PageQuery, context: RequestContext) {
  const { page: sentPage = 1, per_page, cursor, expand: _, ...listed } = query
  const { companyId, credentialsKey, now } = context
  const scope = { companyId, credentialsKey, now, query: [operationId, Object.entries(listed).sort()] }
  const [page, firstTotal, beganAt, ...after] =
    cursor === undefined ? [sentPage, null, Math.floor(now / 1000)] : readCursor(scope, cursor)
  if (now - Number(beganAt) * 1000 > WALK_MAX_MS) {
    throw invalid([{ path: 'cursor', message: 'is of a list that was begun 30 days ago: begin again without it' }])
  }
  const start = {
    limit: per_page,
    offset: cursor === undefined ? (sentPage - 1) * per_page : 0,
    after: cursor === undefined ? null : after,
  }

  /** The response's `pagination`, and its `Link`. */
  function pagination({ total: counted, next }: Pick<FoundPage<unknown>, 'total' | 'next'>, extras: Extras) {
    const total = Number(counted ?? firstTotal)
    const next_cursor = next && writeCursor(scope, [Number(page) + 1, total, Number(beganAt), ...next])
    if (next_cursor !== null) {
      const link = new URL(extras.url)
      link.searchParams.delete('page')
      link.searchParams.set('cursor', next_cursor)
      extras.headers.Link = `<${link}>; rel="next"`
    }
    return { page: Number(page), per_page, total, next_cursor, has_more: next_cursor !== null }
  }
  return { start, pagination }
}
