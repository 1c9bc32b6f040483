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
  pieces: AsyncIterator<string | Uint8Array>,
  options: {
    headers: Record<string, string>
    lease: Lease
    deadlineMs: number
    onFailure: (error: unknown) => void
  },
): Response {
  const { headers, lease, deadlineMs, onFailure } = options
  lease.isStreaming = true
  let timer: ReturnType<typeof setTimeout> | undefined
  const end = () => {
    clearTimeout(timer)
    lease.release()
  }
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        timer ??= setTimeout(() => fail(controller, new DeadlineError(deadlineMs)), deadlineMs)
        lease.usedAt = Date.now()
        try {
          const { value, done } = await pieces.next()
          if (done) {
            end()
            controller.close()
          } else controller.enqueue(toBytes(value))
        } catch (error) {
          fail(controller, error)
        }
      },
      cancel: end,
    },
    // Nothing is made before it is asked for: a response to HEAD never is.
    { highWaterMark: 0 },
  )
  function fail(controller: ReadableStreamDefaultController, error: unknown) {
    end()
    onFailure(error)
    controller.error(error)
  }
  return respond(body, headers)
}

function toBytes(piece: string | Uint8Array): Uint8Array {
  return typeof piece === 'string' ? encoder.encode(piece) : piece
}

function respond(body: BodyInit, headers: Record<string, string>): Response {
  return new Response(body, {
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'private, no-store', ...headers },
  })
}
