import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { releaseBytes } from '../../kernel/http/memory.ts'

/** Bytes of text in one segment: at most 1,900,000 in base64, below D1's 2,000,000 for a value. */
export const SEGMENT_BYTES = 1_400_000

/** Larger compressed content is written to R2. The sweep also moves unused smaller content there. */
export const MAX_DATABASE_BYTES = 1_000_000

/** The fastest quality: HTML mail shrinks to a sixth at about 300 MB a second, and the next levels gain little. */
const PARAMS = { [constants.BROTLI_PARAM_QUALITY]: 1 }
/** Spare room gives one output buffer, instead of several that are joined and become garbage. */
const SPARE_BYTES = 16_384

/**
 * Splits the text into values of one row each, lazily. Cuts may fall inside a character: only the joined segments are
 * text.
 */
export function* toSegments(pieces: readonly Uint8Array[]): Generator<string> {
  for (const segment of compressSegments(pieces)) {
    yield segment.toBase64()
    releaseBytes(segment)
  }
}

/** Compresses the segments without base64, each in a buffer of its own length. */
export function* compressSegments(pieces: readonly Uint8Array[]): Generator<Uint8Array> {
  for (const part of cut(pieces, SEGMENT_BYTES)) {
    const compressed = brotliCompressSync(part, { params: PARAMS, chunkSize: part.length + SPARE_BYTES })
    const segment = new Uint8Array(compressed)
    releaseBytes(compressed)
    yield segment
  }
}

/** The text in a segment of {@link toSegments} or of {@link compressSegments}; the latter's memory is released. */
export function fromSegment(segment: string | Uint8Array): Uint8Array {
  const compressed = typeof segment === 'string' ? Uint8Array.fromBase64(segment) : segment
  // Decompressed mail grows about sixfold.
  const chunkSize = Math.min(SEGMENT_BYTES, 8 * compressed.length) + SPARE_BYTES
  const text = brotliDecompressSync(compressed, { maxOutputLength: SEGMENT_BYTES, chunkSize })
  releaseBytes(compressed)
  return text
}

/** SHA-256 of the concatenated pieces, lower-case hex. */
export function hashOf(pieces: readonly Uint8Array[]): string {
  const hash = createHash('sha256')
  for (const piece of pieces) hash.update(piece)
  return hash.digest('hex')
}

/** Splits the bytes into parts of `size`, the last one shorter. At most one part is copied at a time. */
function* cut(pieces: readonly Uint8Array[], size: number): Generator<Uint8Array> {
  let part: Uint8Array[] = []
  let room = size
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; ) {
      const taken = piece.subarray(at, at + room)
      part.push(taken)
      at += taken.length
      room -= taken.length
      if (room > 0) continue
      yield join(part)
      part = []
      room = size
    }
  }
  if (part.length > 0) yield join(part)
}

/** Joins the pieces; a single one is not copied. */
function join(pieces: readonly Uint8Array[]): Uint8Array {
  const [first, ...rest] = pieces
  return first && rest.length === 0 ? first : Buffer.concat(pieces)
}
