import type { RequestContext } from '../../kernel/api/context.ts'
import { isoTime, type ResponseBody } from '../../kernel/api/contract.ts'
import { route } from '../../kernel/api/endpoint.ts'
import { findResponse, runWrite } from '../../kernel/db/idempotency.ts'
import { ApiError, errorFor, found, notFound } from '../../kernel/http/errors.ts'
import * as contract from './contract.ts'
import { attachmentNamed, isBelow, keyPrefix, objectNameOf, sourceOf } from './keys.ts'
import { deletionRecordOf, findStorage } from './queries.ts'
import { EXPIRES_SECONDS, type FileStorage, type StoredFile, type StoredObject } from './s3.ts'
import { listOrderFiles, openStorage, useStorage } from './storage.ts'

const DEFAULT_TYPE = 'application/octet-stream'

type Deleted = ResponseBody<typeof contract.deleteFile>

const presentFile = ({ key, sizeBytes, changedAt }: StoredFile) => ({
  path: key,
  objectName: objectNameOf(key),
  length: sizeBytes,
  lastChanged: isoTime(changedAt),
  source: sourceOf(key),
})

/** @throws ApiError 404 if the order does not have the file, 409 without a configured storage, 502 or 503 when it fails */
async function useFile<T>(
  context: RequestContext,
  orderId: number,
  key: string,
  use: (storage: FileStorage, file: StoredObject) => Promise<T>,
): Promise<T> {
  // A key must never reach outside of the order's prefix.
  if (!isBelow(keyPrefix(context.companyId, orderId), key)) throw notFound('File')
  const used = await useStorage(context, orderId, async (storage) => {
    const file = await storage.head(key)
    return () => use(storage, found(file, 'File'))
  })
  if (used === null) throw errorFor('storage_not_configured')
  return used
}

export const routes = [
  route(contract.presignUpload, async ({ params: { orderId }, body }, context) => {
    const { fileName, contentType = DEFAULT_TYPE, size, legacyThreadId } = body
    const storage = await openStorage(context, await findStorage(context, orderId))
    if (!storage) throw errorFor('storage_not_configured')
    const prefix = keyPrefix(context.companyId, orderId, legacyThreadId)
    const key = `${prefix}${legacyThreadId === undefined ? 'files/' : ''}${fileName}`
    const uploadUrl = await storage.presignPut(key, contentType, size)
    return { uploadUrl, key, contentType, expiresIn: EXPIRES_SECONDS } as const
  }),
  route(contract.listFiles, async ({ params: { orderId }, query: { legacyThreadId } }, context) => {
    const listing = await listOrderFiles(context, orderId, legacyThreadId)
    if (!listing) return { files: [], configured: false, truncated: false }
    // Not the marker that another program has put for the folder, which is no file.
    const files = listing.files.filter(({ key }) => isBelow(keyPrefix(context.companyId, orderId), key))
    return { files: files.map(presentFile), configured: true, truncated: listing.truncated }
  }),
  route(contract.presignDownload, ({ params: { orderId }, query: { path } }, context) =>
    useFile(context, orderId, path, async (storage, file) => {
      const downloadUrl = await storage.presignGet(path, attachmentNamed(objectNameOf(path)))
      const contentType = file.contentType ?? DEFAULT_TYPE
      return { downloadUrl, expiresIn: EXPIRES_SECONDS, contentType, ...presentFile(file) } as const
    }),
  ),
  route(contract.deleteFile, async ({ params: { orderId }, query: { path } }, context) => {
    const deletion = useFile(context, orderId, path, async (storage, stored) => {
      const file = presentFile(stored)
      const response = await runWrite(context, deletionRecordOf<Deleted>(context, path, { file }))
      // A repetition finishes a deletion that failed, and keeps a file that was uploaded since.
      if (JSON.stringify(response.file) === JSON.stringify(file)) await storage.delete(path)
      return response
    })
    return deletion.catch(async (error) => {
      // The stored response counts even if the file, the order or the storage is gone.
      const isGone = error instanceof ApiError && (error.kind === 'not_found' || error.kind === 'conflict')
      const response = isGone && (await findResponse<Deleted>(context))
      if (!response) throw error
      return response
    })
  }),
]
