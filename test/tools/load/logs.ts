/** A database that times out or is overloaded: the only failures that load may cause. */
const OVERLOAD = /DeadlineError|No \w+ within \d+ ms|overloaded/

/** The failures that the Worker logs. */
export class Logs {
  readonly #failures = new Map<string, string>()

  add(line: string): void {
    if (!line.startsWith('{"event":"failure"')) return
    const { request_id, error }: { request_id?: string; error?: unknown } = JSON.parse(line)
    if (request_id) this.#failures.set(request_id, String(error))
  }

  /** Why a request failed, as logged. */
  failureOf(requestId: string): string | undefined {
    return this.#failures.get(requestId)
  }

  /** Whether a request failed because there was too much to do. */
  isOverload(requestId: string): boolean {
    return OVERLOAD.test(this.failureOf(requestId) ?? '')
  }
}
