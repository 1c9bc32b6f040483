import type { RequestContext } from '../../kernel/api/context.ts'
import { BUDGET_MS, DeadlineError, withDeadline } from '../../kernel/http/deadline.ts'
import { keyPrefix } from './keys.ts'
import { type Reached, useStorage } from './order-storage.ts'
import type { FilePage } from './s3.ts'

/** Limits one listing. Ten full pages have this many files; a storage may send smaller pages. */
const MAX_FILES = 10_000
const MAX_PAGES = 40

/**
 * Lists the files of an order, or of one of its threads; null without a configured storage. `truncated` means more
 * files: over 10,000, over 40 pages, or not listed within {@link BUDGET_MS}.listing.
 *
 * @throws ApiError 404 where the company does not have the order, 409 and 502 when its own storage cannot be used
 */
export function listOrderFiles(context: RequestContext, orderId: number, legacyThreadId: string | undefined) {
  const until = Date.now() + BUDGET_MS.listing
  const prefix = keyPrefix(context.companyId, orderId, legacyThreadId)
  const listFirst = (storage: Reached<FilePage>['storage']) => storage.list(prefix)
  return useStorage(context, orderId, listFirst, (reached) => listRest(reached, prefix, until))
}

/** Lists the pages after the first. At the deadline it returns the pages so far; a failure throws. */
async function listRest({ storage, first }: Reached<FilePage>, prefix: string, until: number) {
  const all = [...first.files]
  let { cursor } = first
  try {
    for (let pages = 1; cursor !== null && all.length < MAX_FILES && pages < MAX_PAGES; pages++) {
      const leftMs = until - Date.now()
      if (leftMs <= 0) break
      const page: FilePage = await withDeadline(storage.list(prefix, cursor), leftMs)
      all.push(...page.files)
      cursor = page.cursor
    }
  } catch (error) {
    if (!(error instanceof DeadlineError) || Date.now() < until) throw error
  }
  return { files: all.slice(0, MAX_FILES), truncated: cursor !== null || all.length > MAX_FILES }
}
