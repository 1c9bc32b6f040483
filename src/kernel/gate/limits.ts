import { ApiError } from '../http/errors.ts'
import { LruCache, poll } from '../http/isolate.ts'

/** The allowances of one token in a window: requests, and milliseconds of database time. */
export const LIMIT = 300
export const DATABASE_LIMIT_MS = 15_000
/** Milliseconds of database time that all tokens of one company may use in a window together. */
export const COMPANY_LIMIT_MS = 40_000
export const WINDOW_MS = 60_000

/** One fixed window from its first request: requests counted, and database time used with the debt of earlier windows. */
export type Window = { startedAt: number; count: number; databaseMs: number }

/** The requests of a call, all of which are allowed or none, and the token's use since the last call of its isolate. */
export interface Usage {
  requests?: number
  databaseMs: number
  /** Requests that the isolate refused without a call. */
  refused?: number
  /** Requests that the isolate allowed while the object failed. */
  uncounted?: number
}

/** The windows of a token and of its company, which counts no requests and is absent while unknown. */
export interface Limits {
  window: Window
  company?: Window | undefined
}

export type Decision = Limits & { allowed: boolean }

/** Counts the reported usage, and the requests if there is room for all of them. */
export function count(before: Window | undefined, now: number, usage: Usage, company?: Window): Decision {
  const { requests = 0, uncounted = 0, databaseMs } = usage
  const window = advance(before, now)
  window.count = Math.min(LIMIT, window.count + uncounted)
  window.databaseMs += databaseMs
  const allowed = !isOutOfTime({ window, company }, now) && window.count + requests <= LIMIT
  if (allowed) window.count += requests
  return { allowed, window, company }
}

/** A new object for the window at `now`. Each window that has passed pays off one allowance of database time. */
export function advance(window: Window | undefined, now: number, limitMs = DATABASE_LIMIT_MS): Window {
  if (!window) return { startedAt: now, count: 0, databaseMs: 0 }
  const { startedAt, count, databaseMs } = window
  const passed = Math.floor((now - startedAt) / WINDOW_MS)
  // A clock that went backwards neither gives a second allowance nor makes the wait longer.
  if (passed < 1) return { startedAt: Math.min(startedAt, now), count, databaseMs }
  const debtMs = Math.max(0, databaseMs - passed * limitMs)
  // With a debt the next window begins on schedule, so that a `Retry-After` already sent stays right.
  return { startedAt: debtMs > 0 ? startedAt + passed * WINDOW_MS : now, count: 0, databaseMs: debtMs }
}

export function resetAt({ startedAt }: Window): number {
  return startedAt + WINDOW_MS
}

/** When there is database time again: when the first window begins with less than a whole allowance used. */
export function databaseResetAt({ startedAt, databaseMs }: Window, limitMs = DATABASE_LIMIT_MS): number {
  return startedAt + Math.max(1, Math.floor(databaseMs / limitMs)) * WINDOW_MS
}

/** Whether there is no database time at `now`. */
export function isOutOfTime({ window, company }: Limits, now: number): boolean {
  const isUsedUp = (used: Window | undefined, limitMs: number) => advance(used, now, limitMs).databaseMs >= limitMs
  return isUsedUp(window, DATABASE_LIMIT_MS) || isUsedUp(company, COMPANY_LIMIT_MS)
}

/** Whole seconds until a reset: at least 1, and at most `withinMs`, however far the clocks of two machines differ. */
export function secondsUntil(resetAt: number, now: number, withinMs = WINDOW_MS): number {
  return Math.min(Math.max(1, Math.ceil((resetAt - now) / 1000)), Math.ceil(withinMs / 1000))
}

const HOUR_MS = 3_600_000
/** The present hour and a day before it. */
const HOURS = 25

/** A token's use in the hour that begins at `at`. */
export type HourOfUsage = { at: number; requests: number; refused: number; databaseMs: number }

/** Adds the usage of a call to the hours, which are in ascending order. */
export function addUsage(hours: readonly HourOfUsage[], now: number, usage: Usage, allowed: boolean): HourOfUsage[] {
  const { requests = 0, refused = 0, uncounted = 0, databaseMs } = usage
  const last = hours.at(-1)
  // A clock that went backwards counts for the last hour.
  const at = Math.max(now - (now % HOUR_MS), last?.at ?? 0)
  const before = last?.at === at ? last : { requests: 0, refused: 0, databaseMs: 0 }
  const sum = {
    at,
    requests: before.requests + uncounted + (allowed ? requests : 0),
    refused: before.refused + refused + (allowed ? 0 : requests),
    databaseMs: before.databaseMs + databaseMs,
  }
  return [...hours.filter((each) => each.at < at && each.at > at - HOURS * HOUR_MS), sum]
}

const WINDOW_PARAMETER = `w=${WINDOW_MS / 1_000}`

/** `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11. */
export const POLICY = [
  `"default";q=${LIMIT};${WINDOW_PARAMETER}`,
  `"database";q=${DATABASE_LIMIT_MS};${WINDOW_PARAMETER};qu="milliseconds"`,
  `"company";q=${COMPANY_LIMIT_MS};${WINDOW_PARAMETER};qu="milliseconds"`,
].join(', ')

/** Each limit: what is left, and the seconds until there is more. */
function limitsOf({ window, company }: Limits, now: number) {
  const ofTime = (name: string, used: Window, limitMs: number, whose: string) => {
    const at = databaseResetAt(used, limitMs)
    const problem = `${whose} may use ${limitMs / 1_000} seconds of database time a minute`
    return { name, left: limitMs - used.databaseMs, seconds: secondsUntil(at, now, at - used.startedAt), problem }
  }
  const seconds = secondsUntil(resetAt(window), now)
  return [
    { name: 'default', left: LIMIT - window.count, seconds, problem: undefined },
    ofTime('database', window, DATABASE_LIMIT_MS, 'The token'),
    ofTime('company', advance(company, now, COMPANY_LIMIT_MS), COMPANY_LIMIT_MS, 'All tokens of the company'),
  ] as const
}

/** `RateLimit` of the same draft, of the windows at `now`. */
export function describeLimits({ window, company }: Limits, now: number): string {
  const describe = ({ name, left, seconds }: ReturnType<typeof limitsOf>[number]) =>
    `"${name}";r=${Math.max(0, Math.floor(left))};t=${seconds}`
  return limitsOf({ window: advance(window, now), company }, now)
    .map(describe)
    .join(', ')
}

/** The 429 of a refusal, by the limit that refuses for longest. */
export function refusalOf(limits: Limits, now: number): ApiError {
  const all = limitsOf(limits, now)
  const refusing = all.filter(({ left }) => left <= 0).sort((a, b) => a.seconds - b.seconds)
  const several = { ...all[0], problem: `It counts as more requests than are left (${all[0].left})` }
  const { seconds, problem } = refusing.at(-1) ?? several
  return rateLimited(seconds, problem)
}

export function rateLimited(seconds: number, problem = `The token may send ${LIMIT} requests a minute`): ApiError {
  return new ApiError('rate_limited', {
    message: `${problem}: retry after ${seconds} second${seconds === 1 ? '' : 's'}`,
    details: { retry_after: seconds },
    headers: { 'Retry-After': String(seconds) },
  })
}

/** `Retry-After` of a request that waited in vain for the company's earlier ones. */
const CROWDED_SECONDS = 5

export function crowded(): ApiError {
  return rateLimited(CROWDED_SECONDS, 'Too many concurrent requests of this company')
}

/** The measured cost of a request for the isolate's thread, and of each MiB of its body, in milliseconds. */
const REQUEST_MS = 3
const BODY_MS = 120
const LARGEST_BODY_BYTES = 8 * 2 ** 20
/** Beside others a company may use this share of the thread, and this much at once. */
const SHARE = 1 / 4
const BURST_MS = 250
/** A company is active for this long after its last request. */
const ACTIVE_MS = 2_000
/** A request waits this long for its share, a batch in the queue: less than its deadline, which runs meanwhile. */
export const LONGEST_WAIT_MS = 8_000

/** Use that a share of the time pays off. All times are milliseconds of a clock that is never set. */
class Debt {
  private usedMs = 0
  private usedAt = 0

  left(share: number, now: number): number {
    return Math.max(0, this.usedMs - (now - this.usedAt) * share)
  }

  /** @param mostMs after which nothing more is owed */
  add(ms: number, share: number, now: number, mostMs = Number.POSITIVE_INFINITY): void {
    this.usedMs = Math.min(this.left(share, now) + ms, mostMs)
    this.usedAt = now
  }
}

/**
 * Shares an isolate's one thread between companies: while others are active, the requests of each start at the pace of
 * its share, in their order. A company that is alone never waits. Workers cannot measure processor time, so requests
 * count by their known cost.
 */
export class FairShare {
  private readonly debts = new LruCache<number, Debt>({ maxWeight: 1_000 })
  private latest = { companyId: 0, at: Number.NEGATIVE_INFINITY }
  /** The last request of a company other than the latest one. */
  private other = this.latest

  /** @returns the milliseconds that the request must wait; null for one that is refused and not counted */
  enter(companyId: number, bodyBytes: number, now: number): number | null {
    if (companyId !== this.latest.companyId) this.other = this.latest
    this.latest = { companyId, at: now }
    const debt = this.debts.getOrMake(companyId, () => new Debt())
    const waitMs = this.isAlone(now) ? 0 : Math.max(0, debt.left(SHARE, now) - BURST_MS) / SHARE
    if (waitMs > LONGEST_WAIT_MS) return null
    this.charge(companyId, bodyBytes, now, REQUEST_MS)
    return waitMs
  }

  /** Counts a request, or only its body, whose length became known when it was read. */
  charge(companyId: number, bodyBytes: number, now: number, requestMs = 0): void {
    const costMs = requestMs + (BODY_MS * Math.min(bodyBytes, LARGEST_BODY_BYTES)) / 2 ** 20
    // Use while the company is alone does not count against it later.
    this.debts.get(companyId)?.add(costMs, SHARE, now, this.isAlone(now) ? BURST_MS : undefined)
  }

  /** Whether the requests of the last seconds were all of one company. */
  isAlone(now: number): boolean {
    return now - this.other.at >= ACTIVE_MS
  }
}

export const fairShare = new FairShare()

/** Batches of one company that run at once in an isolate. */
export const IN_FLIGHT = 6
/**
 * A company gets this share of the database's time, and this much at once: alone as much as its limit allows in a minute.
 * Beside others its batches run one by one from a lower use on: several heavy ones would be a long queue.
 */
const ALONE = { share: COMPANY_LIMIT_MS / WINDOW_MS, burstMs: 1_000, oneByOneMs: 1_000 }
const BESIDE_OTHERS = { share: 1 / 6, burstMs: 250, oneByOneMs: 50 }
/** A batch in flight for longer was lost with its request. */
const LOST_MS = 20_000

/** A batch, queued or in flight; `startedAt` is 0 while it is queued. */
export type Permit = { startedAt: number }

/**
 * Runs a company's batches in order, a few at once and a share of the time, so that a crowd of its requests cannot fill
 * the database's queue: with equal numbers in flight, another company would get one batch for each slow one.
 */
export class BatchSemaphore {
  private readonly inFlight = new Set<Permit>()
  private queue = new Set<Permit>()
  private readonly debt = new Debt()

  /** @param isBegun of a request that has written: it goes first, since its other half would be refused */
  enter(isBegun = false): Permit {
    const permit = { startedAt: 0 }
    this.queue.add(permit)
    if (isBegun) this.queue = new Set([permit, ...this.queue])
    this.startQueued()
    return permit
  }

  /** Waits until a queued batch starts. @throws ApiError 429 where the earlier ones take too long */
  async wait(permit: Permit): Promise<void> {
    const isStarted = () => {
      this.startQueued()
      return permit.startedAt > 0
    }
    await poll(isStarted, LONGEST_WAIT_MS).catch(() => {
      this.release(permit, 0)
      throw crowded()
    })
  }

  /** Ends a batch, or its wait. @param databaseMs of the batch; 0 for one that did not run */
  release(permit: Permit, databaseMs: number): void {
    const now = performance.now()
    this.debt.add(databaseMs, paceAt(now).share, now)
    this.queue.delete(permit)
    if (this.inFlight.delete(permit)) this.startQueued()
  }

  private startQueued(): void {
    const now = Date.now()
    for (const permit of this.inFlight) if (now - permit.startedAt >= LOST_MS) this.inFlight.delete(permit)
    const paidTo = performance.now()
    const { share, burstMs, oneByOneMs } = paceAt(paidTo)
    const unpaidMs = this.debt.left(share, paidTo)
    if (unpaidMs > burstMs) return
    const most = unpaidMs > oneByOneMs ? 1 : IN_FLIGHT
    for (const permit of this.queue) {
      if (this.inFlight.size >= most) return
      this.queue.delete(permit)
      permit.startedAt = now
      this.inFlight.add(permit)
    }
  }
}

function paceAt(now: number) {
  return fairShare.isAlone(now) ? ALONE : BESIDE_OTHERS
}

const semaphores = new LruCache<number, BatchSemaphore>({ maxWeight: 1_000 })

export const semaphoreOf = (companyId: number) => semaphores.getOrMake(companyId, () => new BatchSemaphore())
