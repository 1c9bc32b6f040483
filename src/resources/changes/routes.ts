import type { RequestContext } from '../../kernel/api/context.ts'
import { requirePermission, route } from '../../kernel/api/endpoint.ts'
import { readCursor, writeCursor } from '../../kernel/api/paging.ts'
import { errorFor } from '../../kernel/http/errors.ts'
import { pause } from '../../kernel/http/isolate.ts'
import * as contract from './contract.ts'
import { CHANGE_TYPES, type ChangeType, NAMES } from './contract.ts'
import { presentChange } from './present.ts'
import { findChanges, findEnd, withObjects } from './queries.ts'

const LOOK_EVERY_MS = 1_000

export const routes = [
  route(contract.listChanges, async ({ query }, context) => {
    const types = typesOf(context, query.types ?? [])
    const scope = { ...context, query: ['changes', types] }
    // The feed itself knows which cursors are expired.
    const sent = query.cursor === undefined ? [] : readCursor(scope, query.cursor, Number.POSITIVE_INFINITY)
    const [after = null, feedOfCursor] = sent.map(Number)
    const find = async (from: number | null) => {
      const page = await findChanges(context, { after: from ?? 0, types, limit: query.per_page })
      const isOther = feedOfCursor !== undefined && feedOfCursor !== page.feed
      if (isOther || (from !== null && from < page.oldest - 1)) throw errorFor('cursor_expired')
      return page
    }
    let page = query.start ? await findEnd(context) : await find(after)
    const endsAt = Date.now() + (query.start ? 0 : query.wait * 1_000)
    // Until the time is over, an empty page is read again: waiting costs one row a second.
    while (page.rows.length === 0 && Date.now() < endsAt) {
      if (!page.hasMore) {
        await pause(Math.min(LOOK_EVERY_MS, endsAt - Date.now()))
        if ((await findEnd(context)).readTo <= page.readTo) continue
      }
      page = await find(page.readTo)
    }
    const { page: shown, ...objects } = query.expand ? await withObjects(context, page) : { page }
    // A caller that reads a change must not read the older state of its object.
    await context.rememberFreshness()
    const pagination = { next_cursor: writeCursor(scope, [shown.readTo, shown.feed]), has_more: shown.hasMore }
    return { data: shown.rows.map(presentChange), ...objects, pagination }
  }),
]

/** The requested types, or all that the token may read. @throws ApiError 403 */
function typesOf(context: RequestContext, named: readonly ChangeType[]): ChangeType[] {
  const readable = NAMES.filter((type) => context.token.permissions.has(CHANGE_TYPES[type]))
  if (readable.length === 0) requirePermission(context, 'clients:read')
  for (const type of named) requirePermission(context, CHANGE_TYPES[type])
  return readable.filter((type) => named.length === 0 || named.includes(type))
}
