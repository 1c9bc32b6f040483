/** Milliseconds since the epoch as UTC with milliseconds and `Z`. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}

/** {@link isoTime} of what may never have happened. */
export function isoTimeOrNull(ms: number | null): string | null {
  return ms === null ? null : isoTime(ms)
}

/** The UTC calendar date, `YYYY-MM-DD`. */
export function isoDate(ms: number): string {
  return isoTime(ms).slice(0, 10)
}
