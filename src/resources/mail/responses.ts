import { Buffer } from 'node:buffer'
import type { RequestContext } from '../../kernel/api/context.ts'
import { isoTime, isoTimeOrNull } from '../../kernel/api/contract.ts'
import { bodyBudgetMs, DeadlineError } from '../../kernel/http/deadline.ts'
import { log, nameOf } from '../../kernel/http/log.ts'
import { type Lease, releaseBytes, SMALL_BODY_BYTES } from '../../kernel/http/memory.ts'
import { JSON_COLUMNS, type ThreadContextRow } from './context-queries.ts'
import { findMoved } from './object-queries.ts'
import { openObject, readObject, type StoredObject } from './objects.ts'
import { IN_SEGMENTS, READ_AT_ONCE_BYTES, readSegments, type Segment, type ThreadRow } from './queries.ts'
import { fromSegment, SEGMENT_BYTES } from './segments.ts'
import { CUT, type ThreadSummaryRow } from './summary-queries.ts'
import { contentText, TEXT_FIELDS, type TextField, type ThreadInput, TIME_FIELDS } from './thread-input.ts'

const TIMES = [...TIME_FIELDS, 'created_at', 'updated_at'] as const

/** JSON text, or the stored segment with it. */
type Part = string | Uint8Array | Segment

const CONTENT = 'content'

/**
 * The memory of a response while it reads segments (as JSON, as text and as bytes), and while the caller reads a part.
 */
const READING_BYTES = 10_000_000
const SENDING_BYTES = 2_000_000

const HEADERS = { 'Content-Type': 'application/json', 'Cache-Control': 'private, no-store' }

export function jsonResponse(text: string): Response {
  return new Response(text, { headers: HEADERS })
}

/** Builds a page of a list from elements in JSON text. */
export function listResponse(elements: readonly string[], pagination: object): Response {
  return jsonResponse(`{"data":[${elements.join(',')}],"pagination":${JSON.stringify(pagination)}}`)
}

/** Builds the JSON of the contract's thread context; stored JSON is sent unchanged. */
export function contextText(row: ThreadContextRow): string {
  const times = { fetched_at: isoTime(row.fetched_at), updated_at: isoTime(row.updated_at) }
  const members = Object.entries({ ...row, ...times }).map(([name, value]) => {
    const isJson = value !== null && JSON_COLUMNS.some((column) => column === name)
    return `"${name}":${isJson ? value : JSON.stringify(value)}`
  })
  return `{${members.join(',')}}`
}

/** Builds the JSON of the contract's email thread without its content. */
export function summaryText(row: ThreadSummaryRow): string {
  const texts = TEXT_FIELDS.map((field) => `,"${field}":${row[field] === null ? 'null' : completed(row[field])}`)
  return `${headOf(row)}${texts.join('')}}`
}

/** Completes the JSON of a truncated text, which may end inside an escape. */
function completed(text: string): string {
  if (text.endsWith('"')) return text
  const whole = /^"(?:[^"\\]|\\u[\da-f]{4}|\\["\\/bfnrt])*/i.exec(text)?.[0] ?? '"'
  return whole.endsWith(CUT) ? `${whole}"` : `${whole}${CUT}"`
}

/**
 * Builds the email thread of the contract.
 *
 * @param thread.segments the needed ones: of the content, unless it was sent, and of texts
 * @param thread.input the input of this write: its content and texts need no read
 * @param thread.object of R2, with the content
 * @throws ApiError 503 when R2 does not return the content
 */
export async function threadResponse(context: RequestContext, thread: ShownThread, lease: Lease): Promise<Response> {
  const { row, input, headers, object } = thread
  const segments = object ? await withObject(context, thread, object) : thread.segments
  const parts = partsOf(row, segments, input)
  const isSmall = row.content_bytes < SMALL_BODY_BYTES && parts.every(isSmallPart)
  const body = isSmall ? Buffer.concat(parts.map(textOf)) : await streamParts(context, { row, object }, parts, lease)
  return new Response(body, { headers: { ...HEADERS, ...headers } })
}

interface ShownThread {
  row: ThreadRow
  segments: readonly Segment[]
  input?: ThreadInput
  headers?: Record<string, string>
  object?: StoredObject | null | undefined
}

/** Adds the segments of an object, with their data if the content is small. */
async function withObject({ mailContents }: RequestContext, { row, segments }: ShownThread, object: StoredObject) {
  const isSmall = row.content_bytes < SMALL_BODY_BYTES
  const data = isSmall ? await readObject(mailContents, object) : []
  const content = object.lengths.map((bytes, position): Segment => {
    return { field: CONTENT, position, bytes, data: data[position] ?? null }
  })
  return [...content, ...segments.filter(({ field }) => field !== CONTENT)]
}

/**
 * Streams the text of each part, so that the response is never in memory as a whole; each segment is read in its turn.
 * A failure aborts the stream: the caller never sees a complete body. The lease is held until the end.
 */
async function streamParts(
  context: RequestContext,
  { row, object }: Pick<ShownThread, 'row' | 'object'>,
  parts: readonly Part[],
  lease: Lease,
) {
  // A request that holds its body or its segments has room for their parts.
  let heldBytes = Math.max(lease.bytes, SENDING_BYTES)
  await lease.resize(Math.max(lease.bytes, parts.some(isUnread) ? READING_BYTES : SENDING_BYTES))
  let reader = object ? await openObject(context.mailContents, object) : null
  /** Reads this part together with the following small ones. */
  const read = async (part: Segment, index: number) => {
    const isContent = part.field === CONTENT
    if (!(isContent && reader) && (await readSegments(context, row, batchFrom(parts, index)))) return
    // The sweep may have moved the content since the thread was read.
    const moved = isContent && !reader ? await findMoved(context, row) : null
    if (moved) reader = await openObject(context.mailContents, moved, part.position)
    if (!isContent || !reader) throw new Error('The thread was replaced while it was sent.')
    part.data = await reader.read()
  }
  lease.isStreaming = true
  // A write to the runtime's own stream resolves when the caller has read the piece.
  const { readable, writable } = new IdentityTransformStream()
  const writer = writable.getWriter()
  const abort = (error: unknown) => void writer.abort(error).catch(() => undefined)
  const size = parts.reduce((sum, part) => sum + (isSegment(part) ? SEGMENT_BYTES : part.length), 0)
  const deadlineMs = bodyBudgetMs(size)
  const timer = setTimeout(() => abort(new DeadlineError(deadlineMs)), deadlineMs)
  const send = async () => {
    try {
      for (const [index, part] of parts.entries()) {
        if (isUnread(part)) {
          // The response's deadline ends this wait.
          await lease.resize(Math.max(heldBytes, READING_BYTES), Number.POSITIVE_INFINITY)
          await read(part, index)
        }
        const text = textOf(part)
        await lease.resize(heldBytes)
        await writer.write(text)
        if (!isSegment(part)) continue
        releaseBytes(text)
        part.data = null
        heldBytes = Math.max(heldBytes - part.bytes, SENDING_BYTES)
      }
      await writer.close()
    } catch (error) {
      abort(error)
      log('stream_failed', { request_id: context.requestId, reason: nameOf(error) })
    } finally {
      clearTimeout(timer)
      reader?.cancel()
      lease.release()
    }
  }
  // `waitUntil` keeps the stream alive until it ends: only then does it notice that the caller has gone.
  context.waitUntil(send())
  return readable
}

/** Collects the segment at this index, and the following unread ones that are small enough for one read. */
function batchFrom(parts: readonly Part[], index: number): Segment[] {
  const batch: Segment[] = []
  let bytes = 0
  for (const part of parts.slice(index)) {
    if (!isUnread(part)) break
    bytes += part.bytes
    if (batch.length > 0 && bytes > READ_AT_ONCE_BYTES) break
    batch.push(part)
  }
  return batch
}

/** Builds the JSON of the fields in every response, without the last brace. */
function headOf(row: Omit<ThreadSummaryRow, TextField>): string {
  const times = TIMES.map((name) => [name, isoTimeOrNull(row[name])])
  const { id, account_email, legacy_thread_id, message_count, deleted } = row
  const head = { id, account_email, legacy_thread_id, message_count, ...Object.fromEntries(times), deleted: !!deleted }
  return JSON.stringify(head).slice(0, -1)
}

function partsOf(row: ThreadRow, segments: readonly Segment[], input?: ThreadInput): Part[] {
  const stored = (name: string) => segments.filter(({ field }) => field === name)
  const texts = TEXT_FIELDS.flatMap((field): Part[] => {
    const text = input?.texts[field] ?? row[field] ?? 'null'
    return [`,"${field}":`, ...(text === IN_SEGMENTS ? stored(field) : [text])]
  })
  const content = input ? contentText(input.content) : stored(CONTENT)
  return [`{"email_thread":${headOf(row)}`, ...texts, ',', ...content, '}}']
}

function isSegment(part: Part): part is Segment {
  return typeof part === 'object' && 'position' in part
}

function isUnread(part: Part): part is Segment {
  return isSegment(part) && part.data === null
}

function textOf(part: Part): Uint8Array {
  if (typeof part === 'string') return Buffer.from(part)
  return isSegment(part) ? fromSegment(part.data ?? '') : part
}

/** The length of other fields' segments is unknown: only content can be a small part. */
function isSmallPart(part: Part): boolean {
  return isSegment(part) ? part.field === CONTENT && part.data !== null : part.length < SMALL_BODY_BYTES
}
