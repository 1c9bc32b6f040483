/** Every line that the Worker logged in this test file, in order: the tests' output stays quiet, and tests can check them. */
export const logLines: Record<string, unknown>[] = []

const ORIGINAL = Symbol.for('original')

/** Takes the lines from now on; the list is emptied. */
export function captureLog(): void {
  logLines.length = 0
  for (const method of ['log', 'error'] as const) {
    // Files that share a worker share its console, which may write to the list of the file before.
    const original: (...args: unknown[]) => void = Reflect.get(console[method], ORIGINAL) ?? console[method]
    const capture = (...args: unknown[]): void => {
      const line = args.length === 1 && typeof args[0] === 'string' ? parseLine(args[0]) : undefined
      if (line) logLines.push(line)
      else original(...args)
    }
    console[method] = Object.assign(capture, { [ORIGINAL]: original })
  }
}

/** The lines of one request. */
export function linesOf(requestId: string | null): Record<string, unknown>[] {
  return logLines.filter((line) => line.request_id === requestId)
}

function parseLine(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith('{"event":')) return undefined
  return JSON.parse(text)
}
