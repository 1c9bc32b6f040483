import type { RequestContext } from '../http/context.ts'
import { notFound } from '../http/errors.ts'
import { openStorage } from './company-storage.ts'
import { keyPrefix } from './keys.ts'
import { findOrderAndStorage, type StorageRow } from './queries.ts'
import type { FilePage, FileStorage, StoredFile } from './storage.ts'

/** Rows that this isolate saw last, of companies with a storage of their own: only to guess with. */
const lastSeen = new Map<number, StorageRow>()
const MAX_REMEMBERED = 1_000

/**
 * All files of an order, or of one of its threads; null where no storage is set up.
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
): Promise<StoredFile[] | null> {
  const { db, companyId } = context
  const prefix = keyPrefix(companyId, orderId, legacyThreadId)
  const guess = lastSeen.get(companyId) ?? null
  const early = openAndList(context, guess, prefix)
  // Where nobody waits for it any more its failure must not end the request.
  early.catch(() => undefined)

  const { hasOrder, storage: row } = await findOrderAndStorage(db, companyId, orderId)
  remember(companyId, row)
  if (!hasOrder) throw notFound('There is no such order.')
  const { storage, page } = await (isSame(guess, row) ? early : openAndList(context, row, prefix))
  if (!storage) return null

  const files = [...page.files]
  for (let { cursor } = page; cursor !== null; ) {
    const next = await storage.list(prefix, cursor)
    files.push(...next.files)
    cursor = next.cursor
  }
  return files
}

async function openAndList(
  context: RequestContext,
  row: StorageRow | null,
  prefix: string,
): Promise<{ storage: FileStorage | null; page: FilePage }> {
  const storage = await openStorage(context, row)
  return { storage, page: storage ? await storage.list(prefix) : { files: [], cursor: null } }
}

function remember(companyId: number, row: StorageRow | null): void {
  lastSeen.delete(companyId)
  if (lastSeen.size >= MAX_REMEMBERED) lastSeen.clear()
  if (row) lastSeen.set(companyId, row)
}

function isSame(a: StorageRow | null, b: StorageRow | null): boolean {
  return a?.baseUrl === b?.baseUrl && a?.settings === b?.settings && a?.credentials === b?.credentials
}
