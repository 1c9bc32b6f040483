import * as z from 'zod/mini'
import { decryptCredentials } from '../auth/credentials.ts'
import type { RequestContext } from '../context.ts'
import type { StorageRow } from './queries.ts'
import { s3Storage } from './s3-storage.ts'
import type { FileStorage } from './storage.ts'

const filled = z.string().check(z.minLength(1))

const settings = z.object({
  bucket: filled,
  region: filled,
  addressing: z._default(z.enum(['path', 'virtual']), 'path'),
})
const credentials = z.object({
  access_key_id: filled,
  secret_access_key: filled,
})

/**
 * The company's own storage where it has one, else the deployment's, else null. The decrypted keys live as long as the
 * request.
 *
 * @param row the company's own, as stored; null where it has none or it is switched off
 * @throws CredentialsError, $ZodError when a row cannot be read: that is the deployment's fault
 */
export async function openStorage(
  { companyId, now, deploymentStorage, credentialsKey }: RequestContext,
  row: StorageRow | null,
): Promise<FileStorage | null> {
  if (!row) return deploymentStorage()
  const { bucket, region, addressing } = settings.parse(JSON.parse(row.settings))
  const keys = credentials.parse(await decryptCredentials(credentialsKey, companyId, 'storage', row.credentials))
  return s3Storage(
    {
      endpoint: row.base_url,
      name: bucket,
      region,
      addressing,
      accessKeyId: keys.access_key_id,
      secretAccessKey: keys.secret_access_key,
    },
    now,
  )
}
