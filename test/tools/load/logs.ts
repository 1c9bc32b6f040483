/** A database that times out or is overloaded: the only failures that load may cause. */
const OVERLOAD = /DeadlineError|No \w+ within \d+ ms|overloaded/

/** What the Worker logs beside its line for every request. */
export class Logs {
  /** How often each event came. */
  readonly counts = new Map<string, number>()
  readonly #failures = new Map<string, string>()

  add(line: string): void {
    if (line.startsWith('{"event":"request"')) return
    const { event, request_id, error } = parse(line)
    this.counts.set(event, (this.counts.get(event) ?? 0) + 1)
    if (event === 'failure' && request_id) this.#failures.set(request_id, String(error))
  }

  /** Why a request failed, as logged. */
  failureOf(requestId: string): string | undefined {
    return this.#failures.get(requestId)
  }

  /** The different errors of failed requests. */
  get failures(): string[] {
    return [...new Set(this.#failures.values())]
  }

  /** Whether a request failed because there was too much to do. */
  isOverload(requestId: string): boolean {
    return OVERLOAD.test(this.failureOf(requestId) ?? '')
  }
}

function parse(line: string): { event: string; request_id?: string; error?: unknown } {
  try {
    const fields: unknown = JSON.parse(line)
    if (typeof fields === 'object' && fields !== null && 'event' in fields)
      return { ...fields, event: String(fields.event) }
  } catch {
    // The runtime's own message.
  }
  return { event: line.slice(0, 80) }
}
