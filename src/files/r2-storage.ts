import type { Env } from '../env.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { presignPut } from './presign.ts'
import { localEndpoint, toRelay } from './relay.ts'
import type { FileStorage } from './storage.ts'

/**
 * The deployment's own R2: listed by its binding, uploaded to with account-level S3 keys, since a binding cannot
 * presign. In development the address leads through the relay of `relay.ts`.
 *
 * @param requestUrl how the caller reached this Worker: in development the upload goes to the same host
 * @param now milliseconds since the epoch
 * @returns null where the deployment has no such keys
 */
export function deploymentStorage(env: Env, requestUrl: string, now: number): FileStorage | null {
  const isRelayed = env.STORAGE_RELAY === 'development'
  const endpoint = isRelayed ? localEndpoint(requestUrl) : env.STORAGE_ENDPOINT
  const { STORAGE_BUCKET: name, STORAGE_ACCESS_KEY_ID: accessKeyId, STORAGE_SECRET_ACCESS_KEY: secretAccessKey } = env
  if (!endpoint || !name || !accessKeyId || !secretAccessKey) return null
  const region = env.STORAGE_REGION || 'auto'
  const bucket = { endpoint, name, accessKeyId, secretAccessKey, region, addressing: 'path' as const }

  return {
    async presignPut(key, contentType, sizeBytes) {
      const url = await presignPut(bucket, key, contentType, sizeBytes, now)
      return isRelayed ? toRelay(url) : url
    },
    async list(prefix, cursor) {
      const ask = () => env.FILES.list({ prefix, ...(cursor !== undefined && { cursor }) })
      // Listing changes nothing: asked again whatever went wrong.
      const page = await withDeadline(ask().catch(ask), BUDGET_MS.storage)
      return {
        files: page.objects.map(({ key, size, uploaded }) => ({ key, sizeBytes: size, changedAt: uploaded.getTime() })),
        cursor: page.truncated ? page.cursor : null,
      }
    },
  }
}
