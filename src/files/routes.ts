import { route } from '../http/endpoint.ts'
import { notFound, unusable } from '../http/errors.ts'
import { openStorage } from './company-storage.ts'
import * as contract from './contract.ts'
import { emailFileKey } from './keys.ts'
import { listOrderFiles } from './listing.ts'
import { presentFile } from './present.ts'
import { findOrderAndStorage } from './queries.ts'
import { EXPIRES_SECONDS } from './storage.ts'

export const routes = [
  route(contract.presignUpload, async ({ params: { orderId }, body }, context) => {
    const { fileName, contentType = 'application/octet-stream', size, legacyThreadId } = body
    const { hasOrder, storage: row } = await findOrderAndStorage(context.db, context.companyId, orderId)
    if (!hasOrder) throw notFound('Order')
    const storage = await openStorage(context, row)
    if (!storage) throw unusable('storage_not_configured')
    const key = emailFileKey(context.companyId, orderId, legacyThreadId, fileName)
    const uploadUrl = await storage.presignPut(key, contentType, size)
    return { uploadUrl, key, contentType, expiresIn: EXPIRES_SECONDS } as const
  }),

  route(contract.listFiles, async ({ params: { orderId }, query: { legacyThreadId } }, context) => {
    const listing = await listOrderFiles(context, orderId, legacyThreadId)
    if (!listing) return { files: [], configured: false, truncated: false }
    return { files: listing.files.map(presentFile), configured: true, truncated: listing.truncated }
  }),
]
