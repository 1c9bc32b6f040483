/** Milliseconds since the epoch as UTC with milliseconds and `Z`. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}

/** The UTC calendar date, `YYYY-MM-DD`. */
export function isoDate(ms: number): string {
  return isoTime(ms).slice(0, 10)
}
