/** The allowances of one token in a window: requests, and milliseconds of database time. */
export const LIMIT = 300
export const DATABASE_LIMIT_MS = 15_000
export const WINDOW_MS = 60_000

/** A call brings at most one in 30 of what is left beyond the requests that wait for it: 10 at first, 1 at the end. */
const PREFETCH_DIVISOR = 30

/** One fixed window: it begins with its first request. */
export interface Window {
  startedAt: number
  /** Requests given out. */
  count: number
  /** Database time used, with what earlier windows used beyond their allowance. */
  databaseMs: number
}

/** What an isolate asks for. */
export interface Demand {
  /** Requests that wait for the response, or were let through already without being counted. */
  waiting: number
  /** Permits that the isolate has a use for, the waiting ones among them. */
  wanted: number
  /** Database time used since the last call. */
  databaseMs: number
}

/** What one call of the limiter brings. */
export interface Lease {
  /** Requests that the isolate may let through until `resetAt`; none when an allowance is used up. */
  permits: number
  /** Requests of this window that no isolate holds yet. */
  remaining: number
  /** When the window ends and all requests are back, in milliseconds since the epoch. */
  resetAt: number
  /** Database time that is left; negative where more was used than the allowance. */
  databaseMs: number
}

/** What one request is told. */
export interface Verdict {
  allowed: boolean
  /** Requests left in this window. */
  remaining: number
  resetAt: number
  databaseMs: number
}

/**
 * Counts the database time that was used and leases permits at `now`: to all requests that wait, and ahead of others
 * only a share of what is left. The count never passes the limit.
 */
export function acquire(window: Window | undefined, now: number, demand: Demand): { window: Window; lease: Lease } {
  const current = advance(window, now)
  const databaseMs = current.databaseMs + demand.databaseMs
  const left = databaseMs < DATABASE_LIMIT_MS ? LIMIT - current.count : 0
  const share = Math.min(demand.wanted, Math.ceil(left / PREFETCH_DIVISOR))
  const permits = Math.min(left, Math.max(demand.waiting, share))
  const next = { startedAt: current.startedAt, count: current.count + permits, databaseMs }
  const lease = {
    permits,
    remaining: LIMIT - next.count,
    resetAt: next.startedAt + WINDOW_MS,
    databaseMs: DATABASE_LIMIT_MS - databaseMs,
  }
  return { window: next, lease }
}

/** The window at `now`. Each window that has passed pays for one allowance of database time. */
function advance(window: Window | undefined, now: number): Window {
  if (!window) return { startedAt: now, count: 0, databaseMs: 0 }
  const passed = Math.floor((now - window.startedAt) / WINDOW_MS)
  // A clock that went backwards gives no second allowance, and keeps no one waiting for longer.
  if (passed < 1) return { ...window, startedAt: Math.min(window.startedAt, now) }
  const debtMs = Math.max(0, window.databaseMs - passed * DATABASE_LIMIT_MS)
  // A debt keeps the rhythm of the windows, so that a time given in `Retry-After` stays right.
  return { startedAt: debtMs > 0 ? window.startedAt + passed * WINDOW_MS : now, count: 0, databaseMs: debtMs }
}

/** When there is database time again: the first window to begin with less than a whole allowance used. */
export function databaseResetAt({ resetAt, databaseMs }: Pick<Verdict, 'resetAt' | 'databaseMs'>): number {
  const windows = Math.floor((DATABASE_LIMIT_MS - databaseMs) / DATABASE_LIMIT_MS)
  return resetAt + Math.max(0, windows - 1) * WINDOW_MS
}

/**
 * Whole seconds until a reset, never 0: a caller who waits so long is served. No reset is further away than `withinMs`,
 * whatever the clocks of two machines say.
 */
export function secondsUntil(resetAt: number, now: number, withinMs = WINDOW_MS): number {
  return Math.min(Math.max(1, Math.ceil((resetAt - now) / 1000)), Math.ceil(withinMs / 1000))
}
