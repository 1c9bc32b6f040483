/** One line of JSON, which the platform indexes by field. Callers pass no secret, no body and no query text. */
export function log(event: string, fields: Record<string, unknown>): void {
  console.log(JSON.stringify({ event, ...fields }))
}
