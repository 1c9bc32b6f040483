import { vi } from 'vitest'

/** Every line that the Worker logged in this test file, in order: the tests' output stays quiet, and tests can check them. */
export const logLines: Record<string, unknown>[] = []

/** Takes the lines from now on; the list begins anew. */
export function captureLog(): void {
  logLines.length = 0
  for (const method of ['log', 'error'] as const) {
    const original = console[method]
    vi.spyOn(console, method).mockImplementation((...args: unknown[]) => {
      const line = args.length === 1 && typeof args[0] === 'string' ? parseLine(args[0]) : undefined
      if (line) logLines.push(line)
      else original(...args)
    })
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
