import { isUtf8 } from 'node:buffer'
import { bodyBudgetMs, type Lease, releaseBytes, SMALL_BODY_BYTES, withDeadline } from './bounds.ts'
import { ApiError, invalid } from './errors.ts'
import { describeBytes } from './messages.ts'

export const BODY_LIMIT_BYTES = 1_048_576

const JSON_MEDIA_TYPE = /^\s*application\/json\s*(;|$)/i

/** The size of one read. Plain iteration over a body reads 4 KiB at a time and takes four times as long. */
const READ_BYTES = 1_048_576

/** Buffers grow from this size with the received bytes, so a large `Content-Length` alone allocates nothing. */
const FIRST_READ_BYTES = 65_536

/** One read may wait this long: less than the time after which a lease counts as lost. */
const SILENT_MS = 30_000

const DISCARDED_BYTES = 67_108_864
const DISCARDED_MS = 5_000

/**
 * Reads a JSON body as UTF-8 without a byte order mark. The limit is of received bytes: nothing over it is buffered.
 *
 * @throws ApiError 415 for another media type, 413 over the limit, 400 for bytes that are not UTF-8 or arrive too
 *   slowly, 503 when there is no memory for a large body
 */
export async function readJsonBytes(request: Request, limitBytes: number, lease: Lease) {
  if (!JSON_MEDIA_TYPE.test(request.headers.get('content-type') ?? '')) throw new ApiError('unsupported_media_type')
  const announced = Number(request.headers.get('content-length') ?? 0)
  if (announced > limitBytes) {
    if (request.body && announced <= DISCARDED_BYTES) await discard(request.body.getReader({ mode: 'byob' }))
    throw tooLarge(limitBytes)
  }
  const bytes = await readBytes(request, announced, limitBytes, lease)
  if (!isUtf8(bytes)) throw invalid([{ path: '', message: 'is not UTF-8' }])
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  return hasMark ? bytes.subarray(3) : bytes
}

async function readBytes(request: Request, announced: number, limitBytes: number, lease: Lease) {
  if (!request.body) return new Uint8Array()
  if (announced > 0 && announced <= SMALL_BODY_BYTES) {
    // This is faster than reading chunks. The runtime enforces the announced length.
    return new Uint8Array(await withDeadline(request.arrayBuffer(), bodyBudgetMs(announced)).catch(giveUp))
  }
  const { chunks, length } = await readChunks(request.body, limitBytes, lease)
  if (length <= SMALL_BODY_BYTES) return joinChunks(chunks, length)
  // Room for the joined copy, and as much again for the handler's result.
  await lease.resize(2 * length)
  const whole = joinChunks(chunks, length)
  lease.own(whole)
  return whole
}

async function readChunks(body: ReadableStream<Uint8Array>, limitBytes: number, lease: Lease) {
  const reader = body.getReader({ mode: 'byob' })
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let startedAt = Date.now()
  let buffer = new ArrayBuffer(FIRST_READ_BYTES)
  let filled = 0
  let length = 0
  for (;;) {
    const read = reader.read(new Uint8Array(buffer, filled))
    const leftMs = Math.min(SILENT_MS, startedAt + bodyBudgetMs(length) - Date.now())
    const { value, done } = await withDeadline(read, leftMs).catch(giveUp)
    if (!value) break
    // A read detaches the buffer and returns it.
    buffer = value.buffer
    filled += value.byteLength
    length += value.byteLength
    if (length > limitBytes) {
      for (const chunk of [...chunks, value]) releaseBytes(chunk)
      lease.release()
      await discard(reader)
      throw tooLarge(limitBytes)
    }
    if (done) break
    const isFull = filled === buffer.byteLength
    if (isFull || lease.bytes > 0) {
      const waitedFrom = Date.now()
      // With the next buffer: whoever waits holds the first only. Other reads show that the lease is used.
      await lease.resize(isFull ? length + Math.min(READ_BYTES, length) : lease.bytes)
      // The sender's deadline excludes the wait for memory.
      startedAt += Date.now() - waitedFrom
    }
    if (isFull) {
      chunks.push(new Uint8Array(buffer))
      buffer = new ArrayBuffer(Math.min(READ_BYTES, length))
      filled = 0
    }
  }
  return { chunks: [...chunks, new Uint8Array(buffer, 0, filled)], length }
}

function joinChunks(chunks: readonly Uint8Array<ArrayBuffer>[], length: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
    releaseBytes(chunk)
  }
  return whole
}

/** Reads the rest, within bounds: a caller still sending when the response arrives may else see a closed connection. */
async function discard(reader: ReadableStreamBYOBReader): Promise<void> {
  const end = Date.now() + DISCARDED_MS
  let buffer = new ArrayBuffer(FIRST_READ_BYTES)
  try {
    for (let left = DISCARDED_BYTES; left > 0; ) {
      const { value, done } = await withDeadline(reader.read(new Uint8Array(buffer)), end - Date.now())
      if (!value || done) return
      buffer = value.buffer
      left -= value.byteLength
    }
    await reader.cancel()
  } catch {
    // The refusal is the response, even if reading the rest failed.
  }
}

/** The body stalled, or its connection is gone. */
function giveUp(): never {
  throw new ApiError('request_timeout')
}

export function tooLarge(limitBytes: number): ApiError {
  const message = `The body must have at most ${describeBytes(limitBytes)}`
  return new ApiError('too_large', { message, details: { limit_bytes: limitBytes } })
}

/** @returns undefined for a text that is not JSON */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
