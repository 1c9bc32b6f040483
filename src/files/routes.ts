import type { Hono } from 'hono'
import type { AppEnv } from '../context.ts'
import { mount } from '../http/endpoint.ts'
import { ApiError, notFound } from '../http/errors.ts'
import { openStorage } from './company-storage.ts'
import * as contract from './contract.ts'
import { emailFileKey } from './keys.ts'
import { listOrderFiles } from './listing.ts'
import { presentFile } from './present.ts'
import { findOrderAndStorage } from './queries.ts'
import { RELAY, relayUpload } from './relay.ts'
import { EXPIRES_SECONDS } from './storage.ts'

export function mountFiles(app: Hono<AppEnv>): void {
  mount(app, contract.presignUpload, async ({ params: { orderId }, body }, context) => {
    const { fileName, contentType = 'application/octet-stream', size, legacyThreadId } = body
    const { hasOrder, storage: row } = await findOrderAndStorage(context.db, context.companyId, orderId)
    if (!hasOrder) throw notFound('There is no such order.')
    const storage = await openStorage(context, row)
    if (!storage) throw notConfigured()
    const key = emailFileKey(context.companyId, orderId, legacyThreadId, fileName)
    const uploadUrl = await storage.presignPut(key, contentType, size)
    return { uploadUrl, key, contentType, expiresIn: EXPIRES_SECONDS } as const
  })

  mount(app, contract.listFiles, async ({ params: { orderId }, query: { legacyThreadId } }, context) => {
    const listing = await listOrderFiles(context, orderId, legacyThreadId)
    if (!listing) return { files: [], configured: false, truncated: false }
    return { files: listing.files.map(presentFile), configured: true, truncated: listing.truncated }
  })
}

/** The way of uploads in development. Anywhere else there is no such path. */
export function mountUploadRelay(app: Hono<AppEnv>): void {
  app.put(`${RELAY}*`, (c, next) => {
    c.set('operation', 'relayUpload')
    return c.env.STORAGE_RELAY === 'development' ? relayUpload(c.req.raw) : next()
  })
}

function notConfigured(): ApiError {
  return new ApiError('conflict', {
    message: 'No storage is set up for files.',
    details: { reason: 'storage_not_configured' },
  })
}
