/** An allowance of the token in the current window, as far as this client knows. */
export interface Allowance {
  /** For a whole window. */
  limit: number
  remaining: number
  /** Milliseconds since 1970, by this machine's clock. */
  resetsAt: number
}

/** Requests and milliseconds of database time that remain to the token, over all of its clients. */
export interface RateBudget {
  requests: Allowance
  databaseMs: Allowance
  /** Remaining time of all tokens of the company together; null where the service does not limit it. */
  companyMs: Allowance | null
}

/** The `t` of a response is rounded up to seconds, so that one window's ends differ by this much. */
const SAME_WINDOW_MS = 2_000

/** Follows the token's allowances through the `RateLimit` headers of its responses and the requests sent between. */
export function followBudget() {
  let budget: RateBudget | null = null
  let windowMs = 60_000
  let inFlight = 0
  /** The time of the last response. If the clock was set back since, the ends of the windows are too late. */
  let updatedAt = 0

  function update(known: Allowance | undefined, received: Allowance): Allowance {
    const laterMs = known ? known.resetsAt - received.resetsAt : 0
    // One second is left of a window that has ended, too: a long poll that began in it is answered in the next one.
    if (known && laterMs >= SAME_WINDOW_MS && received.resetsAt <= Date.now() + 1_000) return known
    const isSameWindow = known !== undefined && Math.abs(laterMs) < SAME_WINDOW_MS
    // Requests in flight may not be counted in the response yet.
    const remaining = isSameWindow ? Math.min(known.remaining, received.remaining) : received.remaining - inFlight
    return { ...received, remaining: Math.max(0, remaining) }
  }

  return {
    /** Null before the first response that has the headers. */
    read: (): RateBudget | null => budget,

    /** Milliseconds until so many requests can be sent within the allowances: 0 for now. */
    waitMs(count: number): number {
      if (budget === null || Date.now() < updatedAt) return 0
      const { requests, databaseMs, companyMs } = budget
      const resets = [
        ...(requests.remaining < Math.min(count, requests.limit) ? [requests.resetsAt] : []),
        ...[databaseMs, companyMs].flatMap((time) => (time && time.remaining <= 0 ? [time.resetsAt] : [])),
      ]
      return Math.max(0, Math.max(...resets) - Date.now())
    },

    /** Counts a call that is sent, as so many requests. */
    begin(count: number): void {
      inFlight += count
      if (budget === null) return
      const now = Date.now()
      const renew = (allowance: Allowance) =>
        allowance.resetsAt > now ? allowance : { ...allowance, remaining: allowance.limit, resetsAt: now + windowMs }
      const { remaining, ...requests } = renew(budget.requests)
      budget = {
        requests: { ...requests, remaining: Math.max(0, remaining - count) },
        databaseMs: renew(budget.databaseMs),
        companyMs: budget.companyMs && renew(budget.companyMs),
      }
    },

    /** Ends a call that {@link begin} counted as so many; `headers` are those of its response, if there was one. */
    end(count: number, headers: Headers | null): void {
      inFlight -= count
      const now = Date.now()
      const received = headers && readBudget(headers, now)
      if (!received) return
      const { requests, databaseMs, companyMs } = received
      windowMs = received.windowMs
      budget = { requests: update(now < updatedAt ? undefined : budget?.requests, requests), databaseMs, companyMs }
      updatedAt = now
    },
  }
}

/**
 * Reads `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11): null where one of the token's is
 * missing. Policies with other names are ignored.
 */
export function readBudget(headers: Headers, nowMs: number): (RateBudget & { windowMs: number }) | null {
  const policies = readItems(headers.get('ratelimit-policy'))
  const limits = readItems(headers.get('ratelimit'))
  const allowance = (name: string): Allowance | null => {
    const { q, w } = policies.get(name) ?? {}
    const { r, t } = limits.get(name) ?? {}
    if (q === undefined || w === undefined || r === undefined || t === undefined) return null
    return { limit: q, remaining: r, resetsAt: nowMs + t * 1000 }
  }
  const requests = allowance('default')
  const databaseMs = allowance('database')
  const windowMs = (policies.get('default')?.w ?? 60) * 1000
  return requests && databaseMs && { requests, databaseMs, companyMs: allowance('company'), windowMs }
}

/** The integer parameters of a structured field's items (RFC 9651), by item. */
function readItems(header: string | null): Map<string, Record<string, number>> {
  const items = (header ?? '').slice(0, 1_000).matchAll(/"(\w+)"((?:;\w+=(?:\d{1,15}|"\w*"))*)/g)
  return new Map(
    Array.from(items, ([, name = '', parameters = '']) => [
      name,
      Object.fromEntries(
        Array.from(parameters.matchAll(/;(\w+)=(\d+)/g), ([, key = '', value]) => [key, Number(value)]),
      ),
    ]),
  )
}
