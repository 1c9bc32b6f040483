/**
 * Logs one line of JSON, which the platform indexes by field; `npm run dev` prints lines of the error level. Callers
 * pass no secret, no body and no query text.
 */
export function log(event: string, fields: Record<string, unknown>, level: 'log' | 'error' = 'log'): void {
  console[level](JSON.stringify({ event, ...fields }))
}

/** Only the name of an error may be logged, since its message may contain values. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error
}
