/**
 * Logs one line of JSON, which the platform indexes by field; `npm run dev` prints those of the error level. Callers pass
 * no secret, no body and no query text.
 */
export function log(event: string, fields: Record<string, unknown>, level: 'log' | 'error' = 'log'): void {
  console[level](JSON.stringify({ event, ...fields }))
}

/** The name of an error, which is all that may be logged of one: its message may contain values. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error
}
