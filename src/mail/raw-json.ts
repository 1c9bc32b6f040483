import { DeadlineError } from '../http/deadline.ts'
import type { Lease } from '../http/memory.ts'
import { joinBytes } from './bytes.ts'

const encoder = new TextEncoder()

/** JSON text of an object whose members' values are JSON text already. */
export function objectText(members: Record<string, string>): string {
  return `{${Object.entries(members)
    .map(([name, value]) => `${JSON.stringify(name)}:${value}`)
    .join(',')}}`
}

/** A JSON response of text in pieces. */
export function jsonAnswer(pieces: Iterable<string | Uint8Array>, headers: Record<string, string> = {}): Response {
  return respond(joinBytes(Array.from(pieces, toBytes)), headers)
}

/**
 * A JSON response that is sent piece by piece, each made when the one before was taken, so that it never stands in
 * memory as a whole. A failure to make one breaks the response off: the caller never takes it for complete.
 *
 * @param lease held until the response was sent, broke or was canceled, which is at most `deadlineMs`
 * @param onFailure gets what broke it
 */
export function jsonStream(
  pieces: AsyncIterable<string | Uint8Array>,
  options: {
    headers: Record<string, string>
    lease: Lease
    deadlineMs: number
    onFailure: (error: unknown) => void
    waitUntil: (work: Promise<unknown>) => void
  },
): Response {
  const { headers, lease, deadlineMs, onFailure, waitUntil } = options
  lease.isStreaming = true
  // Of a stream of the runtime's own, a piece is done with when its write is.
  const { readable, writable } = new IdentityTransformStream()
  const writer = writable.getWriter()
  const abort = (error: unknown) => void writer.abort(error).catch(() => undefined)
  const timer = setTimeout(() => abort(new DeadlineError(deadlineMs)), deadlineMs)
  const send = async () => {
    try {
      for await (const piece of pieces) {
        lease.usedAt = Date.now()
        await writer.write(toBytes(piece))
      }
      await writer.close()
    } catch (error) {
      abort(error)
      onFailure(error)
    } finally {
      clearTimeout(timer)
      lease.release()
    }
  }
  // Kept alive until it ends: only then does it learn that the caller is gone.
  waitUntil(send())
  return respond(readable, headers)
}

function toBytes(piece: string | Uint8Array): Uint8Array {
  return typeof piece === 'string' ? encoder.encode(piece) : piece
}

function respond(body: BodyInit, headers: Record<string, string>): Response {
  return new Response(body, {
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'private, no-store', ...headers },
  })
}
