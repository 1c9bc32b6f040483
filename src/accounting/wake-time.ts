import type { Standing } from './queries.ts'

/**
 * When a company's accounting system may next be called: 0 for at once, milliseconds since the epoch after a pause, null
 * for not before somebody changes the integration or ends the company's suspension.
 */
export function getOpenTime({ isSuspended, integration, connection }: Standing): number | null {
  if (isSuspended || !integration || connection?.stopped_for === integration.updated_at) return null
  return connection?.paused_until ?? 0
}

const FIRST_RETRY_MS = 30_000
const LAST_RETRY_MS = 3_600_000

/** How long to wait after so many runs in a row that failed. */
export function getRetryDelay(failures: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LAST_RETRY_MS)
}
