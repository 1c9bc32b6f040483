/** The allowance of one token. */
export const LIMIT = 300
export const WINDOW_MS = 60_000

/** A call takes at most one in 30 of what is left: 10 requests at first, 1 at the end. */
const SHARE = 30

/** One fixed window: it begins with its first request. */
export interface Window {
  startedAt: number
  /** Requests given out. */
  count: number
}

/** What one call of the limiter brings. */
export interface Grant {
  /** Requests that the caller may let through until `resetAt`; none when the allowance is used up. */
  units: number
  /** Requests of this window that nobody holds yet. */
  remaining: number
  /** When the window ends and the whole allowance is back, in milliseconds since the epoch. */
  resetAt: number
}

/** What one request is told. */
export interface Verdict {
  allowed: boolean
  /** Requests left in this window. */
  remaining: number
  resetAt: number
}

/** Gives out requests at `now`, at most `wanted`. The count never passes the limit. */
export function take(window: Window | undefined, now: number, wanted: number): { window: Window; grant: Grant } {
  // A clock that went backwards gives no second allowance, and keeps no one waiting for more than one window.
  const current =
    window && now < window.startedAt + WINDOW_MS
      ? { startedAt: Math.min(window.startedAt, now), count: window.count }
      : { startedAt: now, count: 0 }
  const units = Math.min(wanted, Math.ceil((LIMIT - current.count) / SHARE))
  const next = { ...current, count: current.count + units }
  return { window: next, grant: { units, remaining: LIMIT - next.count, resetAt: next.startedAt + WINDOW_MS } }
}

/**
 * Whole seconds until the reset, never 0: a caller who waits so long is served. No reset is further away than a window,
 * whatever the clocks of two machines say.
 */
export function secondsUntil(resetAt: number, now: number): number {
  return Math.min(Math.max(1, Math.ceil((resetAt - now) / 1000)), WINDOW_MS / 1000)
}
