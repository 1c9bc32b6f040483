/**
 * Logs one line of JSON, which the platform indexes by field. A `failure` goes to the error log, which `npm run dev`
 * prints. Callers pass no secret, no body and no query text.
 */
export function log(event: string, fields: Record<string, unknown>): void {
  console[event === 'failure' ? 'error' : 'log'](JSON.stringify({ event, ...fields }))
}

/** The name of an error, which is all that may be logged of one: its message may contain values. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error
}
