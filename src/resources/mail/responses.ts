import { Buffer } from 'node:buffer'
import type { RequestContext } from '../../kernel/api/context.ts'
import { isoTime, isoTimeOrNull } from '../../kernel/api/contract.ts'
import { operation } from '../../kernel/api/endpoint.ts'
import { type Lease, SMALL_BODY_BYTES } from '../../kernel/http/body.ts'
import { bodyBudgetMs, DeadlineError } from '../../kernel/http/deadline.ts'
import { log, nameOf } from '../../kernel/http/errors.ts'
import { JSON_COLUMNS, replacementOf, type ThreadContextRow } from './context-queries.ts'
import { putThreadContext } from './contract.ts'
import { CUT, type ThreadRow, type ThreadSummaryRow } from './queries.ts'
import { TEXT_FIELDS, type TextField, TIME_FIELDS } from './thread-input.ts'

const TIMES = [...TIME_FIELDS, 'created_at', 'updated_at'] as const

/** The memory of a response while the caller reads it, besides its content. */
export const SENDING_BYTES = 2_000_000

const TAIL = Buffer.from('}}')

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

/** The changes of mail for batches. A context has no version. */
export const operations = [
  operation(
    putThreadContext,
    ({ params, body }, context) => replacementOf(context, params.legacyThreadId, body),
    (row) => ({ body: JSON.parse(contextText(row)), version: 0 }),
  ),
]

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
 * Builds the email thread of the contract. A large one is streamed, and the lease is held until the end.
 *
 * @param members JSON text of the arrays
 */
export async function threadResponse(
  context: RequestContext,
  row: ThreadRow,
  members: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  { lease, headers }: { lease: Lease; headers?: Record<string, string> },
): Promise<Response> {
  const texts = TEXT_FIELDS.map((field) => `,"${field}":${row[field] ?? 'null'}`)
  const head = Buffer.from(`{"email_thread":${headOf(row)}${texts.join('')},`)
  const body =
    row.content_bytes < SMALL_BODY_BYTES
      ? Buffer.concat([head, ...(await Array.fromAsync(members)), TAIL])
      : await streamThread(context, row, [[head], members, [TAIL]], lease)
  return new Response(body, { headers: { ...HEADERS, ...headers } })
}

/**
 * Streams the pieces, so that the response is never in memory as a whole. A failure aborts the stream: the caller never
 * sees a complete body.
 */
async function streamThread(
  context: RequestContext,
  row: ThreadRow,
  parts: readonly (Iterable<Uint8Array> | AsyncIterable<Uint8Array>)[],
  lease: Lease,
): Promise<ReadableStream> {
  await lease.resize(Math.max(lease.bytes, SENDING_BYTES))
  lease.isStreaming = true
  // A write to the runtime's own stream resolves when the caller has read the piece.
  const { readable, writable } = new IdentityTransformStream()
  const writer = writable.getWriter()
  const abort = (error: unknown) => void writer.abort(error).catch(() => undefined)
  const deadlineMs = bodyBudgetMs(row.content_bytes)
  const timer = setTimeout(() => abort(new DeadlineError(deadlineMs)), deadlineMs)
  const send = async () => {
    try {
      for (const part of parts) for await (const piece of part) await writer.write(piece)
      await writer.close()
    } catch (error) {
      abort(error)
      log('stream_failed', { request_id: context.requestId, reason: nameOf(error) })
    } finally {
      clearTimeout(timer)
      lease.release()
    }
  }
  // `waitUntil` keeps the stream alive until it ends: only then does it notice that the caller has gone.
  context.waitUntil(send())
  return readable
}

/** Builds the JSON of the fields in every response, without the last brace. */
function headOf(row: Omit<ThreadSummaryRow, TextField>): string {
  const times = TIMES.map((name) => [name, isoTimeOrNull(row[name])])
  const { id, account_email, legacy_thread_id, message_count, deleted } = row
  const head = { id, account_email, legacy_thread_id, message_count, ...Object.fromEntries(times), deleted: !!deleted }
  return JSON.stringify(head).slice(0, -1)
}
