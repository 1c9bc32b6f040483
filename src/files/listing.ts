import type { RequestContext } from '../context.ts'
import { BUDGET_MS, DeadlineError, withDeadline } from '../http/deadline.ts'
import { type ApiError, notFound, unusable } from '../http/errors.ts'
import { log } from '../http/log.ts'
import { openStorage } from './company-storage.ts'
import { keyPrefix } from './keys.ts'
import { findOrderAndStorage, type StorageRow } from './queries.ts'
import { type FilePage, type FileStorage, StorageError, type StorageProblem, type StoredFile } from './storage.ts'

/** Rows that this isolate saw last, of companies with a storage of their own: only to guess with. */
const lastSeen = new Map<number, StorageRow>()
const MAX_REMEMBERED = 1_000

/** Of one listing. Ten full pages would do; a storage may give smaller ones. */
const MAX_FILES = 10_000
const MAX_PAGES = 40

/**
 * The files of an order, or of one of its threads; null where no storage is set up. `truncated` when there are more:
 * beyond 10,000 entries or 40 pages, or what the storage has not listed within {@link BUDGET_MS}.listing.
 *
 * The first page is asked for beside the check of the order, from the storage that the company had last. The check
 * reads the company's storage as well: where the guess was wrong the page is thrown away and asked for again, so the
 * guess costs a wait and never a wrong answer.
 *
 * @throws ApiError 404 where the company has no such order, 502 when its own storage fails
 */
export async function listOrderFiles(
  context: RequestContext,
  orderId: number,
  legacyThreadId: string | undefined,
): Promise<{ files: StoredFile[]; truncated: boolean } | null> {
  const { db, companyId } = context
  const until = Date.now() + BUDGET_MS.listing
  const prefix = keyPrefix(companyId, orderId, legacyThreadId)
  const guess = lastSeen.get(companyId) ?? null
  const early = openAndList(context, guess, prefix)
  // Where nobody waits for it any more its failure must not end the request.
  early.catch(() => undefined)

  const { hasOrder, storage: row } = await findOrderAndStorage(db, companyId, orderId)
  remember(companyId, row)
  if (!hasOrder) throw notFound('Order')
  try {
    const { storage, page } = await (isSame(guess, row) ? early : openAndList(context, row, prefix))
    return storage && (await listRest(storage, prefix, page, until))
  } catch (error) {
    throw error instanceof StorageError ? reportFailure(context, error) : error
  }
}

/** Reads the pages behind the first. A storage that is slow as a whole gives what has come; one that fails throws. */
async function listRest(storage: FileStorage, prefix: string, { files, cursor }: FilePage, until: number) {
  const all = [...files]
  for (let pages = 1; cursor !== null && all.length < MAX_FILES && pages < MAX_PAGES; pages++) {
    const leftMs = until - Date.now()
    if (leftMs <= 0) break
    const page = await withDeadline(storage.list(prefix, cursor), leftMs).catch((error: unknown) => {
      if (error instanceof DeadlineError && Date.now() >= until) return null
      throw error
    })
    if (!page) break
    all.push(...page.files)
    cursor = page.cursor
  }
  return { files: all.slice(0, MAX_FILES), truncated: cursor !== null || all.length > MAX_FILES }
}

async function openAndList(
  context: RequestContext,
  row: StorageRow | null,
  prefix: string,
): Promise<{ storage: FileStorage | null; page: FilePage }> {
  const storage = await openStorage(context, row)
  return { storage, page: storage ? await storage.list(prefix) : { files: [], cursor: null } }
}

function reportFailure({ requestId, companyId }: RequestContext, { problem, status, code }: StorageError): ApiError {
  log('storage_failed', { request_id: requestId, company_id: companyId, problem, status, code })
  const isRefused = status === 401 || status === 403
  return isRefused
    ? unusable('supplier_rejected_credentials', 'The company’s storage rejected its keys', code)
    : unusable('supplier_unavailable', `The company’s storage ${WORDS[problem]}`, code)
}

const WORDS: Record<StorageProblem, string> = {
  timeout: 'did not respond in time',
  network: 'cannot be reached',
  malformed: 'sent a response that is not a list of objects',
  refused: 'refused the listing',
}

function remember(companyId: number, row: StorageRow | null): void {
  lastSeen.delete(companyId)
  if (lastSeen.size >= MAX_REMEMBERED) lastSeen.clear()
  if (row) lastSeen.set(companyId, row)
}

function isSame(a: StorageRow | null, b: StorageRow | null): boolean {
  return a?.base_url === b?.base_url && a?.settings === b?.settings && a?.credentials === b?.credentials
}
