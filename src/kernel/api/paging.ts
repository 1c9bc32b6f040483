import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { splitKeys } from '../db/credentials.ts'
import type { CursorPosition } from '../db/lists.ts'
import { type ApiError, invalid } from '../http/errors.ts'
import { LruCache } from '../http/isolate.ts'
import type { RequestContext } from './context.ts'
import type { Contract } from './contract.ts'

/** A walk may take this long: the feed of changes, which an order by `updated_at` needs, is kept for 31 days. */
const WALK_MAX_MS = 30 * 86_400_000

/** The parts of a query that select the page; `expand` changes no order. */
interface PageQuery {
  page?: number | undefined
  per_page: number
  cursor?: string | undefined
  expand?: unknown
  sort?: string | undefined
  updated_since?: unknown
}

/** The part of a request's context that cursors use. The administration, which reads only primaries, has no more. */
type PageContext = Pick<RequestContext, 'companyId' | 'credentialsKey' | 'now'> &
  Partial<Pick<RequestContext, 'nextCursor' | 'rememberFreshness'>>

export function cursorScope({ operationId }: Contract, context: PageContext, filters: object = {}): CursorScope {
  const { companyId, credentialsKey, now } = context
  return { companyId, credentialsKey, now, query: [operationId, Object.entries(filters).sort()] }
}

/** Reads a list's cursor and writes the next one, valid only with the same filters and order. @throws ApiError 400 */
export function openList(contract: Contract, query: PageQuery, context: PageContext) {
  const { page: _page, per_page: _perPage, cursor, expand: _expand, ...listed } = query
  const scope = cursorScope(contract, context, listed)

  /** Builds the response's `next_cursor` and `has_more`, and its `Link`. `position` is null when no element follows. */
  async function following(position: CursorPosition | null) {
    const isByChange = query.updated_since !== undefined || query.sort?.endsWith('updated_at')
    // Read from an older replica, the next page would lack rows whose changes this one has seen.
    if (position && isByChange) await context.rememberFreshness?.()
    const next_cursor = position && writeCursor(scope, position)
    context.nextCursor = next_cursor
    return { next_cursor, has_more: next_cursor !== null }
  }
  return { after: cursor === undefined ? null : readCursor(scope, cursor), following }
}

/**
 * Extends {@link openList} to lists with numbered pages. A cursor contains its page's number, and the total and time of
 * the first page.
 */
export function openPage(contract: Contract, query: PageQuery, context: RequestContext) {
  const { page: sentPage = 1, per_page } = query
  const list = openList(contract, query, context)
  const [page, firstTotal, beganAt, ...after] = list.after ?? [sentPage, null, Math.floor(context.now / 1000)]
  if (context.now - Number(beganAt) * 1000 > WALK_MAX_MS) {
    throw refusal('is of a list that was begun 30 days ago: begin again without it')
  }
  const start = { limit: per_page, offset: (sentPage - 1) * per_page, after: list.after && after }

  async function pagination({ total: counted, next }: { total: number | null; next: CursorPosition | null }) {
    const total = Number(counted ?? firstTotal)
    const position = next && [Number(page) + 1, total, Number(beganAt), ...next]
    return { page: Number(page), per_page, total, ...(await list.following(position)) }
  }
  return { start, pagination }
}

const CURSOR_TTL_MS = 7 * 86_400_000

/**
 * The scope of a cursor: only the same company and query can use it. `query` is the operation with its filters and order,
 * without parameters that differ between pages. The signing key is derived from the first of the `credentialsKey`.
 */
type CursorScope = Pick<RequestContext, 'companyId' | 'credentialsKey' | 'now'> & { query: readonly unknown[] }

/**
 * Writes an opaque cursor: base64url of an HMAC-SHA-256 (22 characters, 132 bits), then of the JSON `[position, time]`. The
 * signature covers the scope, which is not contained.
 */
export function writeCursor(scope: CursorScope, position: CursorPosition): string {
  const payload = JSON.stringify([position, Math.floor(scope.now / 1_000)])
  const [key = ''] = splitKeys(scope.credentialsKey)
  return sign(scope, key, payload) + Buffer.from(payload).toString('base64url')
}

/** @throws ApiError 400 for a cursor that is malformed, expired, or of another company or query */
export function readCursor(scope: CursorScope, cursor: string, ttlMs = CURSOR_TTL_MS): CursorPosition {
  const payload = Buffer.from(cursor.slice(MAC_LENGTH), 'base64url').toString()
  const signature = Buffer.from(cursor.slice(0, MAC_LENGTH).padEnd(MAC_LENGTH))
  const isSignedBy = (key: string) => timingSafeEqual(Buffer.from(sign(scope, key, payload)), signature)
  if (!splitKeys(scope.credentialsKey).some(isSignedBy)) throw refusal(FOREIGN)
  const [position, writtenAt]: [CursorPosition, number] = JSON.parse(payload)
  if (scope.now - writtenAt * 1_000 > ttlMs)
    throw refusal(`has expired, ${Math.round(ttlMs / 86_400_000)} days after it was written: begin again without it`)
  return position
}

const MAC_LENGTH = 22
const FOREIGN =
  'is not one of this query and company: send the `next_cursor` of a response, with the filters and the order of its request, or begin again without it'

function refusal(message: string): ApiError {
  return invalid([{ path: 'cursor', message }])
}

const keys = new LruCache<string, Buffer>({ maxWeight: 10 })

function sign({ companyId, query }: CursorScope, credentialsKey: string, payload: string): string {
  const key = keys.getOrMake(credentialsKey, () => Buffer.from(hkdfSync('sha256', credentialsKey, '', 'cursor', 32)))
  const signed = `${JSON.stringify([companyId, query])}\0${payload}`
  return createHmac('sha256', key).update(signed).digest('base64url').slice(0, MAC_LENGTH)
}
