import { isUtf8 } from 'node:buffer'
import { bodyBudgetMs, DeadlineError, withDeadline } from './deadline.ts'
import { ApiError, invalid } from './errors.ts'

/** The limit of a JSON body where a contract names none. */
export const BODY_LIMIT_BYTES = 1_048_576

const JSON_MEDIA_TYPE = /^\s*application\/json\s*(;|$)/i

/** What is asked for at once. A plain iteration over a body gives 4 KiB at a time and takes four times as long. */
const READ_BYTES = 1_048_576

const FIRST_BUFFER_BYTES = 65_536

/** A body that is announced as no larger is taken whole, which is quicker; the server in front holds it to its length. */
const SMALL_BYTES = 262_144

/** Of a body that is too large, so much is still taken from the caller, and for so long. */
const DISCARDED_BYTES = 67_108_864
const DISCARDED_MS = 5_000

/**
 * Reads a JSON body as text. The limit is counted on the bytes that arrive; what is over it is never held.
 *
 * @throws ApiError 415 for another media type, 413 over the limit, 400 for bytes that are not UTF-8
 *   or come too slowly
 */
export async function readJsonText(request: Request, limitBytes: number): Promise<string> {
  // The one mark that may stand first is cut off already.
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await readJsonBytes(request, limitBytes))
}

/** {@link readJsonText} as UTF-8, without a byte order mark. */
export async function readJsonBytes(request: Request, limitBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  if (!JSON_MEDIA_TYPE.test(request.headers.get('content-type') ?? '')) throw new ApiError('unsupported_media_type')
  const announced = Number(request.headers.get('content-length') ?? 0)
  if (announced > limitBytes) {
    if (request.body && announced <= DISCARDED_BYTES) await discard(request.body.getReader({ mode: 'byob' }))
    throw tooLarge(limitBytes)
  }
  const bytes = await readBytes(request, announced, limitBytes)
  if (!isUtf8(bytes)) throw invalid([{ path: '', message: 'the body is not UTF-8' }])
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  return hasMark ? bytes.subarray(3) : bytes
}

async function readBytes(request: Request, announced: number, limitBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  if (!request.body) return new Uint8Array()
  const isSmall = announced > 0 && announced <= SMALL_BYTES
  if (!isSmall) return readAll(request.body, announced || FIRST_BUFFER_BYTES, limitBytes)
  return new Uint8Array(await withDeadline(request.arrayBuffer(), bodyBudgetMs(announced)).catch(giveUp))
}

/** Fills one buffer, larger by one byte than what is expected: only a body of another length makes it grow. */
async function readAll(
  body: ReadableStream<Uint8Array>,
  expectedBytes: number,
  limitBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader({ mode: 'byob' })
  const startedAt = Date.now()
  let buffer = new ArrayBuffer(expectedBytes + 1)
  let length = 0
  for (;;) {
    if (length === buffer.byteLength) buffer = buffer.transfer(Math.min(length * 2, limitBytes + 1))
    const room = Math.min(READ_BYTES, buffer.byteLength - length)
    const read = reader.read(new Uint8Array(buffer, length, room))
    const { value, done } = await withDeadline(read, startedAt + bodyBudgetMs(length) - Date.now()).catch(giveUp)
    if (!value) break
    // Reading hands the buffer over and gives it back.
    buffer = value.buffer
    length += value.byteLength
    if (length > limitBytes) {
      await discard(reader)
      throw tooLarge(limitBytes)
    }
    if (done) break
  }
  return new Uint8Array(buffer, 0, length)
}

/**
 * Reads on and keeps nothing, within bounds: a caller who still sends when the answer comes may meet a closed
 * connection instead of it.
 */
async function discard(reader: ReadableStreamBYOBReader): Promise<void> {
  const end = Date.now() + DISCARDED_MS
  let buffer = new ArrayBuffer(READ_BYTES)
  try {
    for (let left = DISCARDED_BYTES; left > 0; ) {
      const { value, done } = await withDeadline(reader.read(new Uint8Array(buffer)), end - Date.now())
      if (!value || done) return
      buffer = value.buffer
      left -= value.byteLength
    }
    await reader.cancel()
  } catch {
    // The refusal is the answer, whatever became of the rest.
  }
}

/** A body that stops coming is the caller's fault. What else ends it is not, and nobody is left to be told. */
function giveUp(error: unknown): never {
  if (error instanceof DeadlineError) throw invalid([{ path: '', message: 'the body did not arrive in time' }])
  throw error
}

function tooLarge(limitBytes: number): ApiError {
  return new ApiError('too_large', {
    message: `The body is larger than ${limitBytes} bytes.`,
    details: { limit_bytes: limitBytes },
  })
}
