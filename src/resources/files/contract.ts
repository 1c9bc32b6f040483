import { Buffer } from 'node:buffer'
import * as z from 'zod/mini'
import { component, contractsOf, type Documentation, dateTime, idText, text } from '../../kernel/api/contract.ts'
import { baseNameOf, LEGACY_THREAD_ID, MAX_KEY_BYTES, MAX_NAME_BYTES } from './keys.ts'
import { EXPIRES_SECONDS } from './s3.ts'

export const MAX_FILE_BYTES = 150 * 1024 * 1024

/** Type and subtype in their registered form (RFC 6838, section 4.2), and parameters of printable ASCII. */
const CONTENT_TYPE = /^[A-Za-z0-9][\w!#$&^.+-]{0,126}\/[A-Za-z0-9][\w!#$&^.+-]{0,126}( *;[\x20-\x7e]*)?$/

const orderKey = z.strictObject({ orderId: idText.check(z.describe('The order, which must not be deleted.')) })

export const legacyThreadId = z
  .string()
  .check(
    z.regex(LEGACY_THREAD_ID, 'must be 1 to 255 characters of A-Z a-z 0-9 _ : . = + -, and not only dots'),
    z.describe('The mailbox’s legacy thread id.'),
  )

const IN_NAME = `must end in a file name of at most ${MAX_NAME_BYTES} bytes of UTF-8`
// Browsers may send the folders with the name.
const baseName = z.pipe(text(1, 4_096), z.transform(baseNameOf)).check(
  z.refine((name) => name.trim() !== '' && !/^\.{1,2}$/.test(name), 'must end in a file name'),
  z.refine((name) => Buffer.byteLength(name) <= MAX_NAME_BYTES, IN_NAME),
)

const sizeBytes = z
  .int()
  .check(z.minimum(0), z.maximum(MAX_FILE_BYTES, `must be at most ${MAX_FILE_BYTES} bytes (150 MiB)`))

const FILE_NAME = `What follows the last slash or backslash, in Unicode NFC and without control characters, ends the key: at most ${MAX_NAME_BYTES} bytes of UTF-8, not blank, not \`.\` or \`..\`.`

const upload = component('NewFile', 'A file to upload.', {
  fileName: baseName.check(z.describe(FILE_NAME)),
  contentType: z
    .optional(z.string().check(z.maxLength(255), z.regex(CONTENT_TYPE, 'must be a media type, such as image/png')))
    .check(z.describe('The upload must carry exactly this `Content-Type`; `application/octet-stream` when left out.')),
  size: sizeBytes.check(z.describe('Bytes. The upload must have exactly this `Content-Length`.')),
  legacyThreadId: z
    .optional(legacyThreadId)
    .check(z.describe('Of the mail thread with the file; without one left out.')),
})

const presigned = component('PresignedUpload', 'A URL to upload one file to.', {
  uploadUrl: z.string().check(z.describe('The URL to PUT the bytes to, without the token.')),
  key: z.string().check(z.describe('The key of the uploaded file: the `storage_key` of its attachment.')),
  contentType: z.string(),
  expiresIn: z.literal(EXPIRES_SECONDS).check(z.describe('Seconds.')),
})

const fileFields = {
  path: z.string().check(z.describe('The whole key.')),
  objectName: z.string().check(z.describe('The last part of the key.')),
  length: z.int().check(z.nonnegative(), z.describe('Bytes.')),
  lastChanged: dateTime,
  source: z.enum(['email', 'manual']).check(z.describe('`email` when the key contains `/email/`.')),
}
const file = component('OrderFile', 'A stored file of an order.', fileFields)

const storedKey = text(1, MAX_KEY_BYTES).check(
  z.refine((key) => Buffer.byteLength(key) <= MAX_KEY_BYTES, `must have at most ${MAX_KEY_BYTES} bytes of UTF-8`),
  z.meta({ 'x-max-bytes': MAX_KEY_BYTES }),
  z.describe(
    `The whole key: the \`path\` of a listed file, the \`key\` of an upload, the \`storage_key\` of an attachment. At most ${MAX_KEY_BYTES} bytes of UTF-8.`,
  ),
)

const presignedDownload = component('PresignedDownload', 'A URL to download one file from, and the file.', {
  downloadUrl: z.string().check(z.describe('The URL to GET the bytes from, without the token.')),
  expiresIn: z.literal(EXPIRES_SECONDS).check(z.describe('Seconds.')),
  contentType: z.string(),
  ...fileFields,
})

const define = contractsOf('Files', 'files')
const stored = { params: orderKey, errors: ['not_found', 'conflict', 'upstream_failed'] } as const
const query = z.strictObject({ path: storedKey })

export const presignUpload = define('presignUpload', 'POST /orders/{orderId}/files/presign', {
  params: orderKey,
  isReadOnly: true,
  body: upload,
  response: presigned,
  errors: ['not_found', 'conflict'],
})

export const listFiles = define('listFiles', 'GET /orders/{orderId}/files', {
  ...stored,
  query: z.strictObject({
    legacyThreadId: z.optional(legacyThreadId).check(z.describe('Only files of this mail thread.')),
  }),
  response: z.strictObject({
    files: z.array(file),
    configured: z.boolean().check(z.describe('Whether a storage is configured.')),
    truncated: z.boolean().check(z.describe('Whether there are more files than listed here.')),
  }),
})

export const presignDownload = define('presignDownload', 'GET /orders/{orderId}/files/download', {
  ...stored,
  query,
  response: presignedDownload,
})

export const deleteFile = define('deleteFile', 'DELETE /orders/{orderId}/files', {
  ...stored,
  query,
  response: z.strictObject({ file }),
})

export const published = {
  tags: {
    Files: `The stored files of an order. To store an attachment of a mail thread: request an upload URL; \`PUT\` the bytes to its \`uploadUrl\` with the \`contentType\` of the response and without the token (200 when stored; errors are the storage's own, in XML); then store the thread again with the response's \`key\` as the \`storage_key\` of that attachment. Names within a thread must differ, or the later file replaces the earlier. Stored files can be listed, read from a download URL, and deleted.`,
  },
  document: (): Record<string, Documentation> => {
    /** A thread and an order of the sample company. */
    const thread = '19cce455887af494'
    const exampleKey = `orders/1/44/email/${thread}/logo front.png`

    return {
      presignUpload: {
        summary: 'Get a URL to upload a file to',
        description:
          'The key is `orders/<company>/<order>/email/<thread>/<name>`, or `orders/<company>/<order>/files/<name>` without a thread, so uploading the same name again overwrites the file. Type and length are signed: the storage refuses an upload of another type or length with 403. The URL is valid for 600 seconds, and each request signs a new one: an `Idempotency-Key` has no effect. 409 with the reason `storage_not_configured` where no storage is configured.',
        example: {
          params: { orderId: '44' },
          body: { fileName: 'logo front.png', contentType: 'image/png', size: 48_211, legacyThreadId: thread },
        },
      },
      presignDownload: {
        summary: 'Get a URL to download a file from',
        description:
          'The URL is valid for 600 seconds and saves the file under its own name: its response has `Content-Disposition: attachment`. 404 for a key that is not one of this order’s files. 409 with the reason `storage_not_configured` where no storage is configured, 502 when the company’s own storage fails.',
        example: { params: { orderId: '44' }, query: { path: exampleKey } },
      },
      listFiles: {
        summary: 'List the files of an order',
        description:
          'All files of the order, or of one of its mail threads, by key, up to 10,000; `truncated` is true where there are more, or where the storage needs more than 25 seconds or 40 pages. `configured` is false, and `files` empty, where no storage is configured. 502 when the company’s own storage fails or rejects its keys; `details.storage_code` is then its own error code.',
        example: { params: { orderId: '44' }, query: { legacyThreadId: thread } },
      },
      deleteFile: {
        summary: 'Delete a file of an order',
        description:
          'Deletes the file for good and returns what it was; messages that name its key keep it. 404 for a key that is not one of this order’s files, a second time too. 409 and 502 as for a download.',
        example: { params: { orderId: '44' }, query: { path: exampleKey } },
      },
    }
  },
}
