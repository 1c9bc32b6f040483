import type { RequestContext } from '../context.ts'
import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, DeadlineError, withDeadline } from '../http/deadline.ts'
import { unusable } from '../http/errors.ts'
import { log } from '../http/log.ts'
import { keyPrefix } from './keys.ts'
import { findStorage, type StorageRow } from './queries.ts'
import { type FilePage, StorageError, type StorageProblem } from './s3.ts'
import { type FileStorage, openStorage } from './storage.ts'

/** The storage that a company had last, by its id: a hint for the prefetch. */
const lastSeen = new LruCache<number, StorageRow | null>({ maxWeight: 1_000 })

/** Of one listing. Ten full pages hold as many files; a storage may send smaller pages. */
const MAX_FILES = 10_000
const MAX_PAGES = 40

/**
 * Lists the files of an order, or of one of its threads; null where no storage is configured. `truncated` when there
 * are more: over 10,000 files or 40 pages, or those that the storage did not list within {@link BUDGET_MS}.listing.
 * The first page is fetched beside the check of the order, from the storage that the company had last; where the check
 * finds another one, the page is discarded and fetched again.
 *
 * @throws ApiError 404 where the company has no such order, 409 and 502 when its own storage cannot be used
 */
export async function listOrderFiles(context: RequestContext, orderId: number, legacyThreadId: string | undefined) {
  const { companyId } = context
  const until = Date.now() + BUDGET_MS.listing
  const prefix = keyPrefix(companyId, orderId, legacyThreadId)
  const expected = lastSeen.get(companyId) ?? null
  const prefetched = listFirst(context, expected, prefix)
  // When it is discarded, its failure must not end the request.
  prefetched.catch(() => undefined)
  const row = await findStorage(context, orderId)
  lastSeen.set(companyId, row)
  const isExpected = JSON.stringify(row) === JSON.stringify(expected)
  try {
    const first = await (isExpected ? prefetched : listFirst(context, row, prefix))
    return first && (await listRest(first.storage, prefix, first.page, until))
  } catch (error) {
    if (!(error instanceof StorageError)) throw error
    const { problem, status, code } = error
    log('storage_failed', { request_id: context.requestId, company_id: companyId, problem, status, code })
    if (status === 401 || status === 403) {
      const message = 'The company’s storage rejected its keys: correct them in the integration'
      throw unusable('supplier_rejected_credentials', { message, storage_code: code })
    }
    throw unusable('supplier_unavailable', {
      message: `The company’s storage ${PROBLEMS[problem]}`,
      storage_code: code,
    })
  }
}

async function listFirst(context: RequestContext, row: StorageRow | null, prefix: string) {
  const storage = await openStorage(context, row)
  return storage && { storage, page: await storage.list(prefix) }
}

/** Lists the pages after the first. At the deadline it returns what has arrived; a failure throws. */
async function listRest(storage: FileStorage, prefix: string, { files, cursor }: FilePage, until: number) {
  const all = [...files]
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

const PROBLEMS: Record<StorageProblem, string> = {
  timeout: 'did not respond in time',
  network: 'cannot be reached',
  malformed: 'sent a response that is not a list of objects',
  refused: 'refused the listing',
}
