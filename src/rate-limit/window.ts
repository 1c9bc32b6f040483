/** The allowance of one token. */
export const LIMIT = 300
export const WINDOW_MS = 60_000

/** One fixed window: it begins with its first request. */
export interface Window {
  startedAt: number
  count: number
}

export interface Verdict {
  allowed: boolean
  /** Requests left in this window. */
  remaining: number
  /** When the window ends and the whole allowance is back, in milliseconds since the epoch. */
  resetAt: number
}

/** Counts one request at `now`. A refused request is not counted, so the count never passes the limit. */
export function take(window: Window | undefined, now: number): { window: Window; verdict: Verdict } {
  // A clock that went backwards gives no second allowance, and keeps no one waiting for more than one window.
  const current =
    window && now < window.startedAt + WINDOW_MS
      ? { startedAt: Math.min(window.startedAt, now), count: window.count }
      : { startedAt: now, count: 0 }
  const allowed = current.count < LIMIT
  const next = allowed ? { ...current, count: current.count + 1 } : current
  return {
    window: next,
    verdict: { allowed, remaining: LIMIT - next.count, resetAt: next.startedAt + WINDOW_MS },
  }
}

/**
 * Whole seconds until the reset, never 0: a caller who waits so long is served. No reset is further away than a window,
 * whatever the clocks of two machines say.
 */
export function secondsUntil(resetAt: number, now: number): number {
  return Math.min(Math.max(1, Math.ceil((resetAt - now) / 1000)), WINDOW_MS / 1000)
}
