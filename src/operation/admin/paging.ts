import type { Contract } from '../../kernel/api/contract.ts'
import { readCursor, writeCursor } from '../../kernel/api/paging.ts'
import type { CursorPosition } from '../../kernel/db/lists.ts'
import type { AdminContext } from './context.ts'

/** Binds a cursor to its list. @param filters of the list, without the page's own parameters */
export function cursorScope(
  { operationId }: Pick<Contract, 'operationId'>,
  context: AdminContext,
  filters: object = {},
) {
  const { companyId, env, now } = context
  const query = ['admin', operationId, Object.entries(filters).sort()]
  return { companyId, credentialsKey: env.CREDENTIALS_KEY, now, query }
}

export interface PageQuery {
  per_page: number
  cursor?: string | undefined
}

/**
 * Opens a page of a list. The query reads one row more than the page has, after the cursor's key `after`, which is null
 * on the first page.
 *
 * @throws ApiError 400 for a cursor that is not of this list
 */
export function openAdminPage(contract: Contract, query: PageQuery, context: AdminContext) {
  const { per_page, cursor, ...filters } = query
  const scope = cursorScope(contract, context, filters)
  const after: CursorPosition | null = cursor === undefined ? null : readCursor(scope, cursor)

  /** @param placeOf the cursor's key of a row */
  function page<Row, Element>(rows: Row[], present: (row: Row) => Element, placeOf: (row: Row) => CursorPosition) {
    const shown = rows.slice(0, per_page)
    const last = rows.length > per_page ? shown.at(-1) : undefined
    const next_cursor = last === undefined ? null : writeCursor(scope, placeOf(last))
    return { data: shown.map(present), pagination: { per_page, next_cursor, has_more: next_cursor !== null } }
  }
  return { after, limit: per_page + 1, page }
}
