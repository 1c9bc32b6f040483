import type { RequestContext } from '../../kernel/api/context.ts'
import { LruCache } from '../../kernel/http/cache.ts'
import { unusable } from '../../kernel/http/errors.ts'
import { log } from '../../kernel/http/log.ts'
import { findStorage } from './queries.ts'
import { StorageError, type StorageProblem } from './s3.ts'
import { type FileStorage, openStorage, type StorageRow } from './storage.ts'

/** The last seen storage by company id: a hint for the first call. */
const lastSeen = new LruCache<number, StorageRow | null>({ maxWeight: 1_000 })

/** A storage, and the result of the first call to it. */
export interface Reached<T> {
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
