import type { RequestContext } from '../../kernel/api/context.ts'
import { LruCache } from '../../kernel/http/cache.ts'
import { BUDGET_MS, DeadlineError, withDeadline } from '../../kernel/http/deadline.ts'
import { log, unusable } from '../../kernel/http/errors.ts'
import { keyPrefix } from './keys.ts'
import { findStorage } from './queries.ts'
import { type FilePage, type FileStorage, StorageError, type StorageProblem } from './s3.ts'
import { openStorage, type StorageRow } from './storage.ts'

/** The last seen storage by company id: a hint for the first call. */
const lastSeen = new LruCache<number, StorageRow | null>({ maxWeight: 1_000 })

/** A storage, and the result of the first call to it. */
interface Reached<T> {
  storage: FileStorage
  first: T
}

/**
 * Works with the storage of an order's files; null if none is configured. The first call must change nothing: it runs
 * beside the check of the order, on the last seen storage, and is repeated if the check finds another one.
 *
 * @throws ApiError 404 if the company does not have the order, 502 when its own storage fails
 */
export async function useStorage<First, Result>(
  context: RequestContext,
  orderId: number,
  call: (storage: FileStorage) => Promise<First>,
  use: (reached: Reached<First>) => Promise<Result>,
): Promise<Result | null> {
  const { companyId, requestId } = context
  const callFirst = async (row: StorageRow | null): Promise<Reached<First> | null> => {
    const storage = await openStorage(context, row)
    return storage && { storage, first: await call(storage) }
  }
  const expected = lastSeen.get(companyId) ?? null
  const prefetched = callFirst(expected)
  // If it is discarded, its failure must not end the request.
  prefetched.catch(() => undefined)
  const row = await findStorage(context, orderId)
  lastSeen.set(companyId, row)
  const isExpected = JSON.stringify(row) === JSON.stringify(expected)
  try {
    const reached = await (isExpected ? prefetched : callFirst(row))
    return reached && (await use(reached))
  } catch (error) {
    if (!(error instanceof StorageError)) throw error
    const { problem, status, code } = error
    log('storage_failed', { request_id: requestId, company_id: companyId, problem, status, code })
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

const PROBLEMS: Record<StorageProblem, string> = {
  timeout: 'did not respond in time',
  network: 'cannot be reached',
  address: 'has an address that is not allowed: it must be https, and resolve to public addresses only',
  malformed: 'sent a malformed response',
  refused: 'refused the request',
}

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
