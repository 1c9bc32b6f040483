/** The allowances of one token in a window: requests, and milliseconds of database time. */
export const LIMIT = 300
export const DATABASE_LIMIT_MS = 15_000
export const WINDOW_MS = 60_000

/** Beyond the waiting requests a call leases at most 1 in 30 of what is left: 10 permits at first, 1 at the end. */
const PREFETCH_DIVISOR = 30

/** One fixed window from its first request: requests leased, and database time used with the debt of earlier windows. */
export type Window = { startedAt: number; count: number; databaseMs: number }

/** What an isolate requests of the limiter. */
export interface Demand {
  /** Requests that wait for the response, or were allowed uncounted. */
  waiting: number
  /** Permits that the isolate can use, including those for the waiting requests. */
  wanted: number
  /** Database time used since the last call. */
  databaseMs: number
  /** Requests refused since the last call, where there are any. */
  refused?: number
}

/** What the limiter grants by one call, until the window ends at `resetAt`. */
export interface Lease {
  /** Requests that the isolate may allow; none when an allowance is used up. */
  permits: number
  /** Requests of this window that are not leased yet. */
  remaining: number
  resetAt: number
  /** Database time that is left; negative when overused. */
  databaseMs: number
}

/** The decision on one request; `remaining` includes the permits that the isolate still has. */
export type Verdict = Omit<Lease, 'permits'> & { allowed: boolean }

/** Counts the database time and leases permits: one to each waiting request, ahead of others only a share of the rest. */
export function acquire(window: Window | undefined, now: number, demand: Demand): { window: Window; lease: Lease } {
  const { startedAt, count: leased, databaseMs: usedMs } = advance(window, now)
  const databaseMs = usedMs + demand.databaseMs
  const left = databaseMs < DATABASE_LIMIT_MS ? LIMIT - leased : 0
  const share = Math.min(demand.wanted, Math.ceil(left / PREFETCH_DIVISOR))
  const permits = Math.min(left, Math.max(demand.waiting, share))
  const count = leased + permits
  const resetAt = startedAt + WINDOW_MS
  return {
    window: { startedAt, count, databaseMs },
    lease: { permits, remaining: LIMIT - count, resetAt, databaseMs: DATABASE_LIMIT_MS - databaseMs },
  }
}

/** The window at `now`. Each window that has passed pays off one allowance of database time. */
function advance(window: Window | undefined, now: number): Window {
  if (!window) return { startedAt: now, count: 0, databaseMs: 0 }
  const passed = Math.floor((now - window.startedAt) / WINDOW_MS)
  // A clock that went backwards neither gives a second allowance nor makes the wait longer.
  if (passed < 1) return { ...window, startedAt: Math.min(window.startedAt, now) }
  const debtMs = Math.max(0, window.databaseMs - passed * DATABASE_LIMIT_MS)
  // With a debt the next window begins on schedule, so that a `Retry-After` already sent stays right.
  return { startedAt: debtMs > 0 ? window.startedAt + passed * WINDOW_MS : now, count: 0, databaseMs: debtMs }
}

/** When there is database time again: when the first window begins with less than a whole allowance used. */
export function databaseResetAt({ resetAt, databaseMs }: Pick<Verdict, 'resetAt' | 'databaseMs'>): number {
  const windows = Math.floor((DATABASE_LIMIT_MS - databaseMs) / DATABASE_LIMIT_MS)
  return resetAt + Math.max(0, windows - 1) * WINDOW_MS
}

/** Whole seconds until a reset: at least 1, and at most `withinMs`, however far the clocks of two machines differ. */
export function secondsUntil(resetAt: number, now: number, withinMs = WINDOW_MS): number {
  return Math.min(Math.max(1, Math.ceil((resetAt - now) / 1000)), Math.ceil(withinMs / 1000))
}

const HOUR_MS = 3_600_000
/** The present hour and those of a day before it. */
const HOURS = 25

/** What a token used in one hour, which begins at `at`. */
export type HourOfUsage = { at: number; requests: number; refused: number; databaseMs: number }

/** Adds a call to the hours before it, in ascending order. Leased requests count as sent. */
export function addUsage(
  hours: readonly HourOfUsage[],
  now: number,
  { permits, refused = 0, databaseMs }: Pick<Demand, 'refused' | 'databaseMs'> & Pick<Lease, 'permits'>,
): HourOfUsage[] {
  const at = now - (now % HOUR_MS)
  const last = hours.at(-1)
  const isLast = last !== undefined && last.at >= at
  const hour = isLast ? last : { at, requests: 0, refused: 0, databaseMs: 0 }
  const sum = {
    at: hour.at,
    requests: hour.requests + permits,
    refused: hour.refused + refused,
    databaseMs: hour.databaseMs + databaseMs,
  }
  const earlier = isLast ? hours.slice(0, -1) : hours
  return [...earlier.filter((each) => each.at > at - HOURS * HOUR_MS), sum]
}
