import * as z from 'zod/mini'
import type { Env } from '../../env.ts'
import type { DeploymentStorage, RequestContext } from '../../kernel/api/context.ts'
import type { integrations } from '../../kernel/db/schema.ts'
import { CredentialsError, decryptCredentials } from '../../kernel/gate/credentials.ts'
import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import { log, unusable } from '../../kernel/http/errors.ts'
import type { AddressPolicy } from '../../kernel/http/outbound.ts'
import { LOCAL_S3, RELAY } from './relay.ts'
import { type FileStorage, s3Storage } from './s3.ts'

/** A company's own storage, with encrypted credentials. */
export type StorageRow = Pick<typeof integrations.$inferSelect, 'base_url' | 'settings' | 'credentials'>

const filled = z.string().check(z.minLength(1))
const addressing = z._default(z.enum(['path', 'virtual']), 'path')
const Settings = z.object({ bucket: filled, region: filled, addressing })
const Credentials = z.object({ access_key_id: filled, secret_access_key: filled })

type StorageContext = Pick<
  RequestContext,
  'companyId' | 'requestId' | 'now' | 'credentialsKey' | 'addresses' | 'deploymentStorage'
>

/**
 * Opens the company's own storage, or the deployment's if `row` is null; null without either.
 *
 * @throws ApiError 409 when the row cannot be read
 */
export async function openStorage(context: StorageContext, row: StorageRow | null): Promise<FileStorage | null> {
  const { companyId, now, credentialsKey, addresses, deploymentStorage } = context
  if (!row) return deploymentStorage && openDeploymentStorage(deploymentStorage, addresses, now)
  try {
    const { bucket: name, region, addressing } = Settings.parse(JSON.parse(row.settings))
    const keys = Credentials.parse(await decryptCredentials(credentialsKey, companyId, 'storage', row.credentials))
    const { access_key_id: accessKeyId, secret_access_key: secretAccessKey } = keys
    const endpoint = row.base_url
    return s3Storage({ endpoint, name, region, addressing, accessKeyId, secretAccessKey, addresses }, now)
  } catch (error) {
    const reason = error instanceof CredentialsError ? error.message : 'The settings of the storage are not complete.'
    log('credentials_unreadable', { request_id: context.requestId, company_id: companyId, error: `storage: ${reason}` })
    throw unusable('credentials_unreadable')
  }
}

/**
 * The deployment's storage, null without S3 keys. In development presigned URLs have the host of `requestUrl`, through
 * `relay.ts`.
 */
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
    delete: (key) => callTwice(() => bucket.delete(key)),
    async list(prefix, cursor) {
      const page = await callTwice(() => bucket.list({ prefix, ...(cursor !== undefined && { cursor }) }))
      return { files: page.objects.map(toFile), cursor: page.truncated ? page.cursor : null }
    },
  }
}

const toFile = ({ key, size, uploaded }: R2Object) => ({ key, sizeBytes: size, changedAt: uploaded.getTime() })

/** Calls the binding, and retries once after any failure, which is safe for all of these calls. */
function callTwice<T>(call: () => Promise<T>): Promise<T> {
  return withDeadline(call().catch(call), BUDGET_MS.storage)
}
