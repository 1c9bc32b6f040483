/**
 * Logs one line of JSON, which the platform indexes by field. A `failure` goes to the error log, which `npm run dev`
 * prints. Callers pass no secret, no body and no query text.
 */
export function log(event: string, fields: Record<string, unknown>): void {
  console[event === 'failure' ? 'error' : 'log'](JSON.stringify({ event, ...fields }))
}
