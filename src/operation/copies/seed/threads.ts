import { Buffer } from 'node:buffer'
import { brotliCompressSync, constants } from 'node:zlib'
import * as z from 'zod/mini'
import { dateTime, version } from '../../../kernel/api/contract.ts'
import { LEGACY_THREAD_ID } from '../../../resources/files/keys.ts'
import { accountEmail } from '../../../resources/mail/contract.ts'
import { fromSegment } from '../../../resources/mail/segments.ts'
import { contentText, parseThread, TEXT_FIELDS } from '../../../resources/mail/thread-input.ts'

// Threads of exports and imports are already in stored segments, so that a thread of any size can be split into parts.

/** The value of a text's column while segments hold the text. */
const IN_SEGMENTS = '@'
const INLINE_BYTES = 100_000
/** Bytes of text in one segment: at most 700,000 in base64, which fit into a part. */
const SEGMENT_TEXT_BYTES = 500_000

const time = z.pipe(dateTime, z.transform(Date.parse))
const count = z.int().check(z.minimum(0))

/** JSON of a text, unchanged. */
const jsonText = z.nullable(
  z.string().check(
    z.maxLength(INLINE_BYTES),
    z.refine((text) => text === IN_SEGMENTS || isJsonString(text), 'must be JSON of a text'),
  ),
)

const segment = z.strictObject({
  field: z.enum(['content', ...TEXT_FIELDS]),
  position: count,
  data: z.string().check(z.maxLength(900_000), z.refine(isSegment, 'must be compressed by Brotli, in base64')),
})

/** A thread with the segments of one part. */
export const storedThread = z.strictObject({
  id: z.uuid(),
  account_email: accountEmail,
  legacy_thread_id: z.string().check(z.regex(LEGACY_THREAD_ID)),
  mail_thread_id: jsonText,
  subject: jsonText,
  snippet: jsonText,
  mail_history_id: jsonText,
  message_count: count,
  first_message_at: z.nullable(time),
  last_message_at: z.nullable(time),
  last_synced_at: time,
  content_hash: z.string().check(z.regex(/^[0-9a-f]{64}$/)),
  content_bytes: count,
  revision: version,
  content_revision: version,
  created_at: time,
  updated_at: time,
  deleted: z.boolean(),
  segment_count: count.check(z.describe('Of all parts: with the last segment the thread becomes visible.')),
  segments: z.array(segment).check(z.maxLength(100)),
})

export type StoredThread = z.output<typeof storedThread>
export type StoredThreadInput = z.input<typeof storedThread>

/**
 * Converts a thread of an export into its stored form.
 *
 * @param json of the thread, whose texts and arrays stay as they were sent
 * @throws ApiError 400 for an invalid thread
 */
export function storeThread(json: string): StoredThreadInput {
  const { id, legacy_thread_id, created_at, updated_at, ...thread } = JSON.parse(json)
  const { accountEmail, texts, content } = parseThread(Buffer.from(json))
  const pieces = contentText(content)
  const segments: StoredThreadInput['segments'] = []
  // The CLI runs in Node, which lacks the base64 functions that `resources/mail/segments.ts` uses.
  const addSegments = (field: 'content' | (typeof TEXT_FIELDS)[number], text: Uint8Array) => {
    for (let position = 0; position * SEGMENT_TEXT_BYTES < text.length; position++) {
      const part = text.subarray(position * SEGMENT_TEXT_BYTES, (position + 1) * SEGMENT_TEXT_BYTES)
      const params = { [constants.BROTLI_PARAM_QUALITY]: 1 }
      segments.push({ field, position, data: brotliCompressSync(part, { params }).toString('base64') })
    }
  }
  addSegments('content', Buffer.concat(pieces))
  const columns = TEXT_FIELDS.map((field) => {
    const text = texts[field]
    if (!text) return [field, null]
    if (text.length <= INLINE_BYTES) return [field, Buffer.from(text).toString()]
    addSegments(field, text)
    return [field, IN_SEGMENTS]
  })
  const { first_message_at, last_message_at, last_synced_at, revision, content_revision, deleted } = thread
  return {
    id,
    account_email: accountEmail,
    legacy_thread_id,
    ...(Object.fromEntries(columns) as Record<(typeof TEXT_FIELDS)[number], string | null>),
    message_count: content.messages.count,
    first_message_at,
    last_message_at,
    last_synced_at,
    content_hash: content.hash,
    content_bytes: pieces.reduce((sum, { length }) => sum + length, 0),
    revision,
    content_revision,
    created_at,
    updated_at,
    deleted,
    segment_count: segments.length,
    segments,
  }
}

function isJsonString(text: string): boolean {
  try {
    return typeof JSON.parse(text) === 'string'
  } catch {
    return false
  }
}

function isSegment(data: string): boolean {
  try {
    return fromSegment(data).length > 0
  } catch {
    return false
  }
}
