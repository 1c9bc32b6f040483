import { isoTime } from '../http/contract.ts'
import { route } from '../http/endpoint.ts'
import { unusable } from '../http/errors.ts'
import * as contract from './contract.ts'
import { keyPrefix, sourceOf } from './keys.ts'
import { listOrderFiles } from './listing.ts'
import { findStorage } from './queries.ts'
import { EXPIRES_SECONDS, type StoredFile } from './s3.ts'
import { openStorage } from './storage.ts'

const presentFile = ({ key, sizeBytes, changedAt }: StoredFile) => ({
  path: key,
  objectName: key.slice(key.lastIndexOf('/') + 1),
  length: sizeBytes,
  lastChanged: isoTime(changedAt),
  source: sourceOf(key),
})

export const routes = [
  route(contract.presignUpload, async ({ params: { orderId }, body }, context) => {
    const { fileName, contentType = 'application/octet-stream', size, legacyThreadId } = body
    const storage = await openStorage(context, await findStorage(context, orderId))
    if (!storage) throw unusable('storage_not_configured')
    const key = keyPrefix(context.companyId, orderId, legacyThreadId) + fileName
    const uploadUrl = await storage.presignPut(key, contentType, size)
    return { uploadUrl, key, contentType, expiresIn: EXPIRES_SECONDS } as const
  }),

  route(contract.listFiles, async ({ params: { orderId }, query: { legacyThreadId } }, context) => {
    const listing = await listOrderFiles(context, orderId, legacyThreadId)
    if (!listing) return { files: [], configured: false, truncated: false }
    return { files: listing.files.map(presentFile), configured: true, truncated: listing.truncated }
  }),
]
