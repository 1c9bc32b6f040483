import type { FoundPage } from '../db/lists.ts'
import { type CursorPosition, readCursor, writeCursor } from '../http/cursor.ts'
import { invalid } from '../http/errors.ts'
import type { RequestContext } from './context.ts'
import type { Contract } from './contract.ts'
import type { Extras } from './endpoint.ts'

/** A walk may take this long: the feed of changes, which an order by `updated_at` needs, is kept for 31 days. */
const WALK_MAX_MS = 30 * 86_400_000

/** The parts of a query that select the page; `expand` changes no order. */
interface PageQuery {
  page?: number | undefined
  per_page: number
  cursor?: string | undefined
  expand?: unknown
}

/**
 * Reads the cursor of a list's query and writes the next one; each is valid only with the same filters and order.
 *
 * @throws ApiError 400 when the query's cursor is not usable
 */
export function openList({ operationId }: Contract, query: PageQuery, context: RequestContext, extras: Extras) {
  const { page: _page, per_page: _perPage, cursor, expand: _expand, ...listed } = query
  const { companyId, credentialsKey, now } = context
  const scope = { companyId, credentialsKey, now, query: [operationId, Object.entries(listed).sort()] }

  /** Builds the response's `next_cursor` and `has_more`, and its `Link`. `position` is null when no element follows. */
  function following(position: CursorPosition | null) {
    const next_cursor = position && writeCursor(scope, position)
    extras.nextCursor = next_cursor
    return { next_cursor, has_more: next_cursor !== null }
  }
  return { after: cursor === undefined ? null : readCursor(scope, cursor), following }
}

/**
 * Extends {@link openList} to lists with numbered pages. A cursor contains its page's number, and the total and time of
 * the first page.
 *
 * @throws ApiError 400 when the query's cursor is not usable
 */
export function openPage(contract: Contract, query: PageQuery, context: RequestContext, extras: Extras) {
  const { page: sentPage = 1, per_page } = query
  const list = openList(contract, query, context, extras)
  const [page, firstTotal, beganAt, ...after] = list.after ?? [sentPage, null, Math.floor(context.now / 1000)]
  if (context.now - Number(beganAt) * 1000 > WALK_MAX_MS) {
    throw invalid([{ path: 'cursor', message: 'is of a list that was begun 30 days ago: begin again without it' }])
  }
  const start = {
    limit: per_page,
    offset: list.after ? 0 : (sentPage - 1) * per_page,
    after: list.after && after,
  }

  /** Builds the response's `pagination`. */
  function pagination({ total: counted, next }: Pick<FoundPage<unknown>, 'total' | 'next'>) {
    const total = Number(counted ?? firstTotal)
    const position = next && [Number(page) + 1, total, Number(beganAt), ...next]
    return { page: Number(page), per_page, total, ...list.following(position) }
  }
  return { start, pagination }
}
