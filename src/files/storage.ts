import * as z from 'zod/mini'
import { CredentialsError, decryptCredentials } from '../auth/credentials.ts'
import type { CompanyContext } from '../db/client.ts'
import type { Env } from '../env.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { unusable } from '../http/errors.ts'
import { log } from '../http/log.ts'
import type { StorageRow } from './queries.ts'
import { LOCAL_S3, RELAY } from './relay.ts'
import { type Bucket, type FilePage, listObjects, PAGE_SIZE, presignPut } from './s3.ts'

/** A place for files: the deployment's R2 or a company's own S3-compatible storage. */
export interface FileStorage {
  /** A URL for one PUT of exactly this many bytes and this content type, valid for `EXPIRES_SECONDS`. Calls nothing. */
  presignPut(key: string, contentType: string, sizeBytes: number): Promise<string>
  /** One page of the files with the prefix, by key. @throws StorageError when a company's own storage fails */
  list(prefix: string, cursor?: string): Promise<FilePage>
}

const filled = z.string().check(z.minLength(1))
const addressing = z._default(z.enum(['path', 'virtual']), 'path')
const Settings = z.object({ bucket: filled, region: filled, addressing })
const Credentials = z.object({ access_key_id: filled, secret_access_key: filled })

interface StorageContext extends Pick<CompanyContext, 'companyId'> {
  requestId: string
  now: number
  credentialsKey: string
  deploymentStorage: () => FileStorage | null
}

/**
 * Opens the company's own storage, or the deployment's where `row` is null; null where there is neither.
 * @throws ApiError 409 when the row cannot be read
 */
export async function openStorage(context: StorageContext, row: StorageRow | null): Promise<FileStorage | null> {
  if (!row) return context.deploymentStorage()
  const { companyId, now, credentialsKey } = context
  try {
    const { bucket: name, region, addressing } = Settings.parse(JSON.parse(row.settings))
    const keys = Credentials.parse(await decryptCredentials(credentialsKey, companyId, 'storage', row.credentials))
    const { access_key_id: accessKeyId, secret_access_key: secretAccessKey } = keys
    return s3Storage({ endpoint: row.base_url, name, region, addressing, accessKeyId, secretAccessKey }, now)
  } catch (error) {
    const reason = error instanceof CredentialsError ? error.message : 'The settings of the storage are not complete.'
    log('credentials_unreadable', { request_id: context.requestId, company_id: companyId, error: `storage: ${reason}` })
    throw unusable('credentials_unreadable')
  }
}

/** @param now milliseconds since the epoch */
export function s3Storage(bucket: Bucket, now: number): FileStorage {
  return {
    presignPut: (key, contentType, sizeBytes) => presignPut(bucket, key, contentType, sizeBytes, now),
    list: (prefix, cursor) => listObjects(bucket, now, prefix, PAGE_SIZE, cursor),
  }
}

/**
 * The deployment's own R2: listed through its binding, uploaded to with account-level S3 keys, since a binding cannot
 * presign; null without such keys. In development uploads go to the host of `requestUrl`, through `relay.ts`.
 */
export function deploymentStorage(env: Env, requestUrl: string, now: number): FileStorage | null {
  const isRelayed = env.STORAGE_RELAY === 'development'
  const endpoint = isRelayed ? new URL(LOCAL_S3, requestUrl).href : env.STORAGE_ENDPOINT
  const { STORAGE_BUCKET: name, STORAGE_ACCESS_KEY_ID: accessKeyId, STORAGE_SECRET_ACCESS_KEY: secretAccessKey } = env
  if (!endpoint || !name || !accessKeyId || !secretAccessKey) return null
  const region = env.STORAGE_REGION || 'auto'
  const s3 = s3Storage({ endpoint, name, region, addressing: 'path', accessKeyId, secretAccessKey }, now)

  return {
    async presignPut(key, contentType, sizeBytes) {
      const url = await s3.presignPut(key, contentType, sizeBytes)
      return isRelayed ? url.replace(LOCAL_S3, RELAY) : url
    },
    async list(prefix, cursor) {
      const listPage = () => env.FILES.list({ prefix, ...(cursor !== undefined && { cursor }) })
      // Listing is safe to retry after any failure.
      const page = await withDeadline(listPage().catch(listPage), BUDGET_MS.storage)
      const toFile = ({ key, size, uploaded }: R2Object) => ({ key, sizeBytes: size, changedAt: uploaded.getTime() })
      return { files: page.objects.map(toFile), cursor: page.truncated ? page.cursor : null }
    },
  }
}
