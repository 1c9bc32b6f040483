import * as z from 'zod/mini'
import type { Env } from '../../env.ts'
import type { DeploymentStorage, RequestContext } from '../../kernel/api/context.ts'
import { CredentialsError, decryptCredentials } from '../../kernel/db/credentials.ts'
import { ApiError, errorFor, unavailable } from '../../kernel/http/errors.ts'
import { BUDGET_MS, LruCache, log, nameOf, withDeadline } from '../../kernel/http/isolate.ts'
import type { AddressPolicy } from '../../kernel/http/outbound.ts'
import { keyPrefix } from './keys.ts'
import { findStorage, type StorageRow } from './queries.ts'
import { LOCAL_S3, RELAY } from './relay.ts'
import { type FilePage, type FileStorage, StorageError, s3Storage } from './s3.ts'

const filled = z.string().check(z.minLength(1))
const addressing = z._default(z.enum(['path', 'virtual']), 'path')
const Settings = z.object({ bucket: filled, region: z._default(z.string(), ''), addressing })
const Credentials = z.object({ access_key_id: filled, secret_access_key: filled })

type StorageContext = Pick<
  RequestContext,
  'companyId' | 'requestId' | 'now' | 'credentialsKey' | 'addresses' | 'deploymentStorage'
>

/** The company's own storage, or the deployment's if `row` is null. @throws ApiError 409 when the row cannot be read */
export async function openStorage(context: StorageContext, row: StorageRow | null): Promise<FileStorage | null> {
  const { companyId, now, credentialsKey } = context
  const addresses = context.addresses()
  if (!row) {
    const deployment = context.deploymentStorage()
    return deployment && openDeploymentStorage(deployment, addresses, now)
  }
  try {
    const { bucket: name, region, addressing } = Settings.parse(JSON.parse(row.settings))
    const keys = Credentials.parse(await decryptCredentials(credentialsKey, companyId, 'storage', row.credentials))
    const { access_key_id: accessKeyId, secret_access_key: secretAccessKey } = keys
    const endpoint = row.base_url
    return s3Storage({ endpoint, name, region, addressing, accessKeyId, secretAccessKey, addresses }, now)
  } catch (error) {
    const reason = error instanceof CredentialsError ? error.message : 'The settings of the storage are not complete.'
    log('credentials_unreadable', { request_id: context.requestId, company_id: companyId, error: `storage: ${reason}` })
    throw errorFor('credentials_unreadable')
  }
}

/** Null without S3 keys. In development presigned URLs have the host of `requestUrl`, through `relay.ts`. */
export function deploymentStorage(env: Env, requestUrl: string): DeploymentStorage | null {
  const isRelayed = env.STORAGE_RELAY === 'development'
  const endpoint = isRelayed ? new URL(LOCAL_S3, requestUrl).href : env.STORAGE_ENDPOINT
  const { STORAGE_BUCKET: name, STORAGE_ACCESS_KEY_ID: accessKeyId, STORAGE_SECRET_ACCESS_KEY: secretAccessKey } = env
  if (!endpoint || !name || !accessKeyId || !secretAccessKey) return null
  const region = env.STORAGE_REGION || 'auto'
  return { bucket: env.FILES, endpoint, name, region, accessKeyId, secretAccessKey, isRelayed }
}

/** Reads, lists and deletes through the binding, and presigns with the keys, since a binding cannot presign. */
function openDeploymentStorage(settings: DeploymentStorage, addresses: AddressPolicy, now: number): FileStorage {
  const { bucket, isRelayed, ...signed } = settings
  const s3 = s3Storage({ ...signed, addressing: 'path', addresses }, now)
  const relayed = (url: string) => (isRelayed ? url.replace(LOCAL_S3, RELAY) : url)

  return {
    presignPut: async (...upload) => relayed(await s3.presignPut(...upload)),
    presignGet: async (...download) => relayed(await s3.presignGet(...download)),
    async head(key) {
      const object = await callTwice(() => bucket.head(key))
      return object && { ...toFile(object), contentType: object.httpMetadata?.contentType ?? null }
    },
    delete: (key) => callTwice(() => bucket.delete(key), MAY_BE_DELETED),
    async list(prefix, cursor) {
      const page = await callTwice(() => bucket.list({ prefix, ...(cursor !== undefined && { cursor }) }))
      return { files: page.objects.map(toFile), cursor: page.truncated ? page.cursor : null }
    },
  }
}

const toFile = ({ key, size, uploaded }: R2Object) => ({ key, sizeBytes: size, changedAt: uploaded.getTime() })

const MAY_BE_DELETED = 'The file may have been deleted: repeat with the same Idempotency-Key, or first list the files'

/**
 * Retries once after any failure, which is safe for all of these calls.
 *
 * @param message of a failure that may have changed something
 * @throws ApiError 503 when R2 fails or takes too long, with `Retry-After` unless there is a `message`
 */
function callTwice<T>(call: () => Promise<T>, message?: string): Promise<T> {
  return withDeadline(call().catch(call), BUDGET_MS.storage).catch((error: unknown) => {
    const cause = `R2 did not respond for files: ${nameOf(error)}`
    throw message ? new ApiError('unavailable', { message, cause }) : unavailable(10, { cause })
  })
}

const lastSeen = new LruCache<number, StorageRow | null>({ maxWeight: 1_000 })

/**
 * Null if no storage is configured. `start` must change nothing: it runs beside the check of the order, on the last seen
 * storage, and is repeated if the check finds another one. The function that it returns runs after the check.
 *
 * @throws ApiError 404 if the company does not have the order, 502 when its own storage fails, 503 when R2 does
 */
export async function useStorage<Result>(
  context: RequestContext,
  orderId: number,
  start: (storage: FileStorage) => Promise<() => Promise<Result>>,
): Promise<Result | null> {
  const { companyId, requestId } = context
  const startOn = async (row: StorageRow | null) => {
    const storage = await openStorage(context, row)
    return storage && start(storage)
  }
  const expected = lastSeen.get(companyId) ?? null
  const prefetched = startOn(expected)
  // If it is discarded, its failure must not end the request.
  prefetched.catch(() => undefined)
  const row = await findStorage(context, orderId)
  lastSeen.set(companyId, row)
  const isExpected = JSON.stringify(row) === JSON.stringify(expected)
  try {
    const finish = await (isExpected ? prefetched : startOn(row))
    return finish && (await finish())
  } catch (error) {
    if (!(error instanceof StorageError)) throw error
    const { problem, status, code } = error
    log('storage_failed', { request_id: requestId, company_id: companyId, problem, status, code })
    const isRejected = status === 401 || status === 403
    throw errorFor(isRejected ? 'supplier_rejected_credentials' : 'supplier_unavailable', {
      message: isRejected ? 'The company’s storage rejected its keys: correct them in the integration' : error.message,
      storage_code: code,
    })
  }
}

/** Limits one listing. Ten full pages have this many files; a storage may send smaller pages. */
const MAX_FILES = 10_000
const MAX_PAGES = 40

/**
 * Null without a configured storage. `truncated` means more files: over 10,000, over 40 pages, or not listed in time.
 *
 * @throws ApiError as {@link useStorage}, and 409 when the company's own storage cannot be opened
 */
export function listOrderFiles(context: RequestContext, orderId: number, legacyThreadId: string | undefined) {
  const until = Date.now() + BUDGET_MS.listing
  const prefix = keyPrefix(context.companyId, orderId, legacyThreadId)
  return useStorage(context, orderId, async (storage) => {
    const { files: all, ...first } = await storage.list(prefix)
    return async () => {
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
        // At the deadline, the pages so far are listed.
        if (Date.now() < until) throw error
      }
      return { files: all.slice(0, MAX_FILES), truncated: cursor !== null || all.length > MAX_FILES }
    }
  })
}
