import { Buffer } from 'node:buffer'
import { gunzipSync } from 'node:zlib'
import * as z from 'zod/mini'
import type { RequestContext } from '../../kernel/api/context.ts'
import { etagsOf, type Handler } from '../../kernel/api/endpoint.ts'
import { invalidInput } from '../../kernel/api/input.ts'
import type { Administrator } from '../../kernel/db/audit.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { found, unavailable } from '../../kernel/http/errors.ts'
import {
  bodyBudgetMs,
  DeadlineError,
  type Lease,
  log,
  nameOf,
  releaseBytes,
  SMALL_BODY_BYTES,
} from '../../kernel/http/isolate.ts'
import { CHUNK_BYTES, compress, decompress, lengthOf, MAX_DATABASE_BYTES, openObject, storeContent } from './content.ts'
import { exportedFields, type putEmailThread, type readEmailThread } from './contract.ts'
import { scanObject } from './json-scan.ts'
import { findThread, readContent, type ThreadRow } from './queries.ts'
import { HEADERS, summaryText } from './responses.ts'
import { parseThread, shortValue } from './thread-input.ts'
import { findThreadId, insertThread, rememberHash, threadValues, touchThread, writeThread } from './write-queries.ts'

/** The memory of a response while the caller reads it, besides its content. */
const SENDING_BYTES = 2_000_000

/** The memory of large content while it is read: as base64 in JSON, as base64 and as bytes. */
const READING_BYTES = 5_000_000

/** Content may be replaced between the two reads of a large thread. */
const MAX_READS = 3

/**
 * Stores a whole thread: its content in the row, or in R2 if it is large. Unchanged content is not written again. An
 * object is announced, written, and named together with the row; a failure leaves it to the sweep.
 */
export const putThread: Handler<typeof putEmailThread> = async ({ params, body }, context, lease) => {
  const isLarge = body.length >= SMALL_BODY_BYTES
  const { accountEmail, content, columns } = parseThread(body)
  const values = threadValues(context, { ...params, accountEmail }, columns)

  const touched = await touchThread(context, values, isLarge)
  if (touched) {
    if (isLarge) await lease.resize(body.length)
    return threadResponse(context, touched, content, { lease })
  }

  const compressed = await compress(content)
  if (isLarge) {
    // The compressed content replaces the body, whose memory is free for other requests while this one waits.
    releaseBytes(body)
    for (const chunk of compressed) lease.own(chunk)
    // A row has the content as base64, and its batch repeats that as JSON.
    const bytes = lengthOf(compressed)
    await lease.resize(Math.min(lease.bytes, bytes <= MAX_DATABASE_BYTES ? 4 * bytes : bytes))
  }
  const object = { id: values.newId, company_id: context.companyId, content_hash: values.content_hash }
  const row = await writeThread(context, values, await storeContent(context, context.mailContents, object, compressed))
  return threadResponse(context, row, isLarge ? decompress(takeFrom(compressed, lease)) : content, { lease })
}

/** Yields chunks, whose memory is free once the next is taken. */
async function* takeFrom(chunks: Uint8Array[], lease: Lease): AsyncGenerator<Uint8Array> {
  for (let chunk = chunks.shift(); chunk; chunk = chunks.shift()) {
    yield chunk
    lease.disown(chunk)
    await lease.resize(Math.max(Math.min(lease.bytes, lengthOf(chunks)), SENDING_BYTES))
  }
}

export const readThread: Handler<typeof readEmailThread> = async ({ params, query }, context, lease) => {
  const key = { ...params, accountEmail: query.account_email }
  for (let reads = 0; reads < MAX_READS; reads++) {
    const row = found(await findThread(context, key, [etagsOf(context.ifNoneMatch)].flat()), 'Email thread')
    rememberHash(row)
    const headers = { ETag: row.etag, 'Cache-Control': 'private, no-store' }
    if (row.isKnown) return new Response(null, { status: 304, headers })
    const members = await openContent(context, row, lease)
    if (members) return threadResponse(context, row, members, { lease, headers })
  }
  throw unavailable(1)
}

type FoundThread = NonNullable<Awaited<ReturnType<typeof findThread>>>

/** Opens the JSON text of a thread's arrays; nothing if the content was replaced meanwhile. */
async function openContent(context: RequestContext, row: FoundThread, lease: Lease) {
  if (!row.isInRow) {
    const object = { id: row.objectId ?? '', company_id: row.company_id, content_hash: row.content_hash }
    const stored = await openObject(context.mailContents, object, context.requestId)
    if (!stored) throw unavailable(10, { cause: 'R2 does not have mail content that a thread names' })
    return decompress(stored)
  }
  if (row.content === null) await lease.resize(READING_BYTES)
  const base64 = row.content ?? (await readContent(context, row))
  if (base64 === null) return null
  const content = Uint8Array.fromBase64(base64)
  if (row.content_bytes < SMALL_BODY_BYTES) return [gunzipSync(content)]
  await lease.resize(SENDING_BYTES)
  return decompress([content])
}

/**
 * Builds the email thread of the contract. A large one is streamed, so that it is never in memory as a whole, and the
 * lease is held until the end. A failure then aborts the stream: the caller never sees a complete body.
 */
async function threadResponse(
  context: RequestContext,
  row: ThreadRow,
  members: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  { lease, headers }: { lease: Lease; headers?: Record<string, string> },
): Promise<Response> {
  const init = { headers: { ...HEADERS, ...headers } }
  const [head, tail] = [Buffer.from(`{"email_thread":${summaryText(row).slice(0, -1)},`), Buffer.from('}}')]
  if (row.content_bytes < SMALL_BODY_BYTES) {
    return new Response(Buffer.concat([head, ...(await Array.fromAsync(members)), tail]), init)
  }
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
      for (const part of [[head], members, [tail]]) {
        for await (const piece of part) {
          for (let at = 0; at < piece.length; at += CHUNK_BYTES) {
            // The caller still reads. This throws if the memory was given to others, since the content may be gone.
            await lease.resize(lease.bytes)
            await writer.write(piece.subarray(at, at + CHUNK_BYTES))
          }
        }
      }
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
  return new Response(readable, init)
}

/**
 * Loads an exported thread, unless the company has one of this mailbox and legacy id.
 *
 * @param bytes JSON, whose memory is released
 * @throws ApiError 400 for an invalid thread, 503 when R2 fails
 */
export async function importThread(context: CompanyContext & Administrator, bucket: R2Bucket, bytes: Uint8Array) {
  const { accountEmail, content, columns } = parseThread(bytes)
  const exported = parseExported(bytes)
  const { companyId: company_id } = context
  const key = { legacyThreadId: exported.legacy_thread_id, accountEmail }
  const stored = await findThreadId(context, key)
  if (stored !== undefined) return { id: stored, is_new: false }

  const compressed = await compress(content)
  releaseBytes(bytes)
  const object = { id: crypto.randomUUID(), company_id, content_hash: columns.content_hash }
  const base64 = await storeContent(context, bucket, object, compressed)
  const row = { ...columns, ...exported, account_email: accountEmail, content: base64 ?? null }
  const id = await insertThread(context, row, base64 === undefined ? object.id : undefined)
  return { id, is_new: id === exported.id }
}

/** Parses the fields that a PUT does not have. @throws ApiError 400 */
function parseExported(bytes: Uint8Array) {
  const members = scanObject(bytes, Object.keys(exportedFields)) ?? []
  const values = Array.from(members, ([name, member]) => [name, shortValue(member)])
  const parsed = z.object(exportedFields).safeParse(Object.fromEntries(values))
  if (!parsed.success) throw invalidInput('body', parsed.error.issues)
  return parsed.data
}
