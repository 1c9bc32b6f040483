import type { RequestContext } from '../../context.ts'
import { isoTime, isoTimeOrNull } from '../../http/contract.ts'
import { bodyBudgetMs } from '../../http/deadline.ts'
import { log } from '../../http/log.ts'
import { type Lease, releaseBytes, SMALL_BODY_BYTES } from '../../http/memory.ts'
import { jsonAnswer, jsonStream } from '../raw-json.ts'
import { contentText, TEXT_FIELDS, type TextField, type ThreadInput } from './input.ts'
import { IN_SEGMENTS, READ_AT_ONCE_BYTES, readSegments, type Segment, type ThreadRow } from './queries.ts'
import { fromSegment, SEGMENT_BYTES } from './segments.ts'

/** JSON text, or what it is stored as. */
type Part = string | Uint8Array | Segment

/** What a response takes while it reads segments: as JSON, as text and as bytes. */
const READING_BYTES = 10_000_000

/** What it holds while the caller takes a part. */
const SENDING_BYTES = 2_000_000

/** A stored thread with the JSON that was sent. */
export function presentStored(
  context: RequestContext,
  row: ThreadRow,
  segments: readonly Segment[],
  lease: Lease,
  headers: Record<string, string> = {},
): Promise<Response> {
  const content = segments.filter(({ field }) => field === 'content')
  return respond(context, row, partsOf(row, textsOf(row, segments), content), lease, headers)
}

/** What was sent as it was written, and of what was left out what is stored. */
export function presentWritten(
  context: RequestContext,
  row: ThreadRow,
  segments: readonly Segment[],
  input: ThreadInput,
  lease: Lease,
): Promise<Response> {
  const sent = TEXT_FIELDS.flatMap((field) => {
    const text = input.texts[field]
    return text ? [[field, [text]]] : []
  })
  const texts = { ...textsOf(row, segments), ...Object.fromEntries(sent) }
  return respond(context, row, partsOf(row, texts, contentText(input.content)), lease)
}

async function respond(
  context: RequestContext,
  row: ThreadRow,
  parts: Part[],
  lease: Lease,
  headers: Record<string, string> = {},
): Promise<Response> {
  const isSmall = row.content_bytes < SMALL_BODY_BYTES && parts.every(isSmallPart)
  if (isSmall) return jsonAnswer(parts.map(textOf), headers)

  // A request that holds its body has room for the parts of it.
  const sendingBytes = Math.max(lease.bytes, SENDING_BYTES)
  await lease.resize(Math.max(lease.bytes, parts.some(isUnread) ? READING_BYTES : SENDING_BYTES))
  return jsonStream(readParts(context, row, parts, lease, sendingBytes), {
    headers,
    lease,
    deadlineMs: bodyBudgetMs(sizeOf(parts)),
    waitUntil: context.waitUntil,
    onFailure: (error) => {
      const reason = error instanceof Error ? error.name : typeof error
      log('stream_failed', { request_id: context.requestId, reason })
    },
  })
}

/**
 * The text of each part. Segments that were not read are read when their turn comes, some at a time; a wait for memory
 * then ends with the response's deadline. A part is dropped as soon as its text is made.
 */
async function* readParts(
  context: RequestContext,
  row: ThreadRow,
  parts: Part[],
  lease: Lease,
  sendingBytes: number,
): AsyncGenerator<string | Uint8Array> {
  for (const [index, part] of parts.entries()) {
    if (isUnread(part)) {
      await lease.resize(Math.max(sendingBytes, READING_BYTES), Number.POSITIVE_INFINITY)
      await readSegments(context.db, row, batchFrom(parts, index))
    }
    const text = textOf(part)
    if (isSegment(part)) part.data = null
    await lease.resize(sendingBytes)
    yield text
    if (isSegment(part) && typeof text !== 'string') releaseBytes(text)
  }
}

/** The segment at this place and those of its field behind it that are small enough to be read with it. */
function batchFrom(parts: readonly Part[], index: number): Segment[] {
  const batch: Segment[] = []
  let bytes = 0
  for (const part of parts.slice(index)) {
    if (!isSegment(part) || part.data !== null || part.field !== (batch[0] ?? part).field) break
    bytes += part.bytes
    if (batch.length > 0 && bytes > READ_AT_ONCE_BYTES) break
    batch.push(part)
  }
  return batch
}

function partsOf(row: ThreadRow, texts: Record<TextField, Part[]>, content: readonly Part[]): Part[] {
  const known = JSON.stringify({
    id: row.id,
    account_email: row.account_email,
    legacy_thread_id: row.legacy_thread_id,
    message_count: row.message_count,
    first_message_at: isoTimeOrNull(row.first_message_at),
    last_message_at: isoTimeOrNull(row.last_message_at),
    last_synced_at: isoTimeOrNull(row.last_synced_at),
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
    deleted: row.deleted,
  })
  const fields = TEXT_FIELDS.flatMap((field) => [`,"${field}":`, ...texts[field]])
  return [`{"email_thread":${known.slice(0, -1)}`, ...fields, ',', ...content, '}}']
}

function textsOf(row: ThreadRow, segments: readonly Segment[]): Record<TextField, Part[]> {
  const read = (stored: string | null, field: TextField) =>
    stored === IN_SEGMENTS ? segments.filter((segment) => segment.field === field) : [stored ?? 'null']
  return {
    mail_thread_id: read(row.mail_thread_id, 'mail_thread_id'),
    subject: read(row.subject, 'subject'),
    snippet: read(row.snippet, 'snippet'),
    mail_history_id: read(row.mail_history_id, 'mail_history_id'),
  }
}

function isSegment(part: Part): part is Segment {
  return typeof part === 'object' && 'position' in part
}

function isUnread(part: Part): boolean {
  return isSegment(part) && part.data === null
}

function textOf(part: Part): string | Uint8Array {
  return isSegment(part) ? fromSegment(part.data ?? '') : part
}

/** How much text a segment of a field other than the content holds is not known. */
function isSmallPart(part: Part): boolean {
  return isSegment(part) ? part.field === 'content' && part.data !== null : part.length < SMALL_BODY_BYTES
}

function sizeOf(parts: readonly Part[]): number {
  return parts.reduce((bytes, part) => bytes + (isSegment(part) ? SEGMENT_BYTES : part.length), 0)
}
