import { joinBytes } from './bytes.ts'

const encoder = new TextEncoder()

/** JSON text of an object whose members' values are JSON text already. */
export function objectText(members: Record<string, string>): string {
  return `{${Object.entries(members)
    .map(([name, value]) => `${JSON.stringify(name)}:${value}`)
    .join(',')}}`
}

/** Answers of fewer bytes are sent as one, so that a failure to read them is still a 500. */
const WHOLE_BYTES = 2_000_000

/**
 * A JSON answer of text in pieces. A large one is sent piece by piece, each made when the one before is on its way, and
 * never stands in memory as a whole.
 */
export function jsonAnswer(pieces: Iterable<string | Uint8Array>, headers: Record<string, string> = {}): Response {
  const rest = pieces[Symbol.iterator]()
  const ready: Uint8Array[] = []
  let bytes = 0
  while (bytes < WHOLE_BYTES) {
    const { value, done } = rest.next()
    if (done) return respond(joinBytes(ready), headers)
    const piece = typeof value === 'string' ? encoder.encode(value) : value
    ready.push(piece)
    bytes += piece.length
  }
  return respond(streamOf(ready, rest), headers)
}

function respond(body: BodyInit, headers: Record<string, string>): Response {
  return new Response(body, {
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'private, no-store', ...headers },
  })
}

function streamOf(ready: Uint8Array[], rest: Iterator<string | Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const first = ready.shift()
        if (first) return controller.enqueue(first)
        const { value, done } = rest.next()
        if (done) controller.close()
        else controller.enqueue(typeof value === 'string' ? encoder.encode(value) : value)
      },
    },
    // Nothing is made before it is asked for: an answer to HEAD never is.
    { highWaterMark: 0 },
  )
}
