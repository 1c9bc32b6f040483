import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  acquire,
  addUsage,
  DATABASE_LIMIT_MS,
  databaseResetAt,
  type HourOfUsage,
  LIMIT,
  secondsUntil,
  WINDOW_MS,
  type Window,
} from '../../src/rate-limit/window.ts'

const START = 1_000_000_000

/** More than a call ever leases ahead. */
const MANY = LIMIT

/** A call of an isolate that requests permits ahead, without a waiting request. */
const ahead = (wanted: number) => ({ waiting: 0, wanted, databaseMs: 0 })

/** Calls at the given times, one after the other, each with its lease. */
function run(times: readonly number[], wanted: readonly number[] = [MANY], waiting: readonly number[] = [0]) {
  let window: Window | undefined
  return times.map((now, index) => {
    const wants = wanted[index % wanted.length] ?? MANY
    const waits = waiting[index % waiting.length] ?? 0
    const result = acquire(window, now, { waiting: waits, wanted: Math.max(wants, waits), databaseMs: 0 })
    window = result.window
    return { now, wants, waits, ...result }
  })
}

const wishes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 20 })
const crowds = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 60 })), { minLength: 1, maxLength: 20 })

/** Pauses between calls: mostly none, so that allowances are used up, and some of about a window. */
const pause = fc.oneof(
  { weight: 20, arbitrary: fc.constant(0) },
  { weight: 10, arbitrary: fc.integer({ min: 0, max: 300 }) },
  { weight: 1, arbitrary: fc.constantFrom(WINDOW_MS - 1, WINDOW_MS, WINDOW_MS + 1) },
)
const step = fc.oneof(
  { weight: 10, arbitrary: pause },
  { weight: 1, arbitrary: fc.integer({ min: -3 * WINDOW_MS, max: 0 }) },
)

function timesOf(steps: readonly number[]): number[] {
  let now = START
  return steps.map((ms) => {
    now += ms
    return now
  })
}

describe('the window of requests', () => {
  it('allows 300 requests a minute, leased ahead in shares that shrink to one', () => {
    expect({ LIMIT, WINDOW_MS }).toEqual({ LIMIT: 300, WINDOW_MS: 60_000 })
    const leases = run(Array.from({ length: 200 }, () => START)).map(({ lease }) => lease)
    const resetAt = START + 60_000
    expect(leases[0]).toEqual({ permits: 10, remaining: 290, resetAt, databaseMs: 15_000 })
    expect(leases.at(-1)).toEqual({ permits: 0, remaining: 0, resetAt, databaseMs: 15_000 })
    const permits = leases.map((lease) => lease.permits).filter((count) => count > 0)
    expect(permits.reduce((sum, count) => sum + count)).toBe(LIMIT)
    expect(permits).toEqual(permits.toSorted((a, b) => b - a))
    expect(permits.slice(-30)).toEqual(Array.from({ length: 30 }, () => 1))
    // Three requests a call and more.
    expect(permits.length).toBeLessThanOrEqual(LIMIT / 3)
  })

  it('leases one permit where one is requested', () => {
    const leases = run(
      Array.from({ length: 302 }, () => START),
      [1],
    ).map(({ lease }) => lease)
    expect(leases.map(({ permits }) => permits)).toEqual(leases.map((_, index) => (index < LIMIT ? 1 : 0)))
  })

  it('leases a permit to each waiting request while there are any, and only a share ahead', () => {
    const full = { startedAt: START, count: 0, databaseMs: 0 }
    const permits = (waiting: number, wanted: number, count = 0) =>
      acquire({ ...full, count }, START, { waiting, wanted, databaseMs: 0 }).lease.permits
    expect(permits(49, 49)).toBe(49)
    expect(permits(299, 299)).toBe(299)
    expect(permits(900, 900)).toBe(300)
    expect(permits(49, 49, 280)).toBe(20)
    expect(permits(3, 50)).toBe(10)
    expect(permits(0, 0)).toBe(0)
  })

  it('restores the whole allowance at its end, not before', () => {
    const full = { startedAt: START, count: LIMIT, databaseMs: 0 }
    expect(acquire(full, START + WINDOW_MS - 1, ahead(1)).lease.permits).toBe(0)
    expect(acquire(full, START + WINDOW_MS, ahead(MANY)).lease).toEqual({
      permits: 10,
      remaining: LIMIT - 10,
      resetAt: START + 2 * WINDOW_MS,
      databaseMs: DATABASE_LIMIT_MS,
    })
  })

  it('never leases more than the limit in a window, and refuses only when all permits are leased', () => {
    fc.assert(
      fc.property(fc.array(pause, { minLength: 1, maxLength: 1_000 }), wishes, crowds, (pauses, wanted, waiting) => {
        const given = new Map<number, number>()
        let before: ReturnType<typeof run>[number] | undefined
        for (const each of run(timesOf(pauses), wanted, waiting)) {
          const { now, wants, waits, lease, window } = each
          expect(lease.permits).toBeLessThanOrEqual(Math.max(wants, waits))
          expect(lease.permits).toBeGreaterThanOrEqual(Math.min(waits, lease.permits + lease.remaining))
          expect(lease.resetAt).toBeGreaterThan(now)
          expect(lease.resetAt - now).toBeLessThanOrEqual(WINDOW_MS)
          const used = (given.get(lease.resetAt) ?? 0) + lease.permits
          given.set(lease.resetAt, used)
          expect(used).toBeLessThanOrEqual(LIMIT)
          expect(lease.remaining).toBe(LIMIT - used)
          expect(window.count).toBe(used)
          if (lease.permits === 0) expect(used).toBe(LIMIT)
          if (before && before.lease.resetAt !== lease.resetAt) expect(now).toBeGreaterThanOrEqual(before.lease.resetAt)
          before = each
        }
      }),
    )
  })

  it('gives neither a second allowance nor a longer wait when the clock goes backwards', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 1_000 }), wishes, crowds, (steps, wanted, waiting) => {
        let spent = 0
        let end = 0
        for (const { now, lease } of run(timesOf(steps), wanted, waiting)) {
          expect(lease.resetAt).toBeGreaterThan(now)
          expect(lease.resetAt - now).toBeLessThanOrEqual(WINDOW_MS)
          expect(lease.remaining).toBeGreaterThanOrEqual(0)
          // A new allowance begins only once a clock has reached the reset that was sent.
          if (now >= end) spent = 0
          spent += lease.permits
          end = lease.resetAt
          expect(spent).toBeLessThanOrEqual(LIMIT)
        }
      }),
    )
  })
})

describe('the window of database time', () => {
  /** A request that waits at `now`, after one that used `databaseMs`. */
  const call = (window: Window | undefined, now: number, databaseMs: number) =>
    acquire(window, now, { waiting: 1, wanted: 1, databaseMs })

  const rows: [used: number, laterMs: number, permits: number, left: number, resetInMs: number][] = [
    [0, 0, 1, 15_000, 60_000],
    [14_999, 0, 1, 1, 60_000],
    [15_000, 0, 0, 0, 60_000],
    [20_000, 30_000, 0, -5_000, 30_000],
    [29_999, 0, 0, -14_999, 60_000],
    [30_000, 0, 0, -15_000, 120_000],
    [44_999, 59_999, 0, -29_999, 60_001],
    // A window later: each window pays off one allowance.
    [14_999, 60_000, 1, 15_000, 60_000],
    [20_000, 60_000, 1, 10_000, 60_000],
    [29_999, 60_000, 1, 1, 60_000],
    [30_000, 60_000, 0, 0, 60_000],
    [30_000, 119_999, 0, 0, 1],
    [30_000, 120_000, 1, 15_000, 60_000],
    [40_000, 150_000, 1, 5_000, 30_000],
    [100_000, 600_000, 1, 15_000, 60_000],
  ]
  it.each(rows)('with %i ms used, %i ms later', (used, laterMs, permits, left, resetInMs) => {
    const { window } = call({ startedAt: START, count: 5, databaseMs: 0 }, START, used)
    const { lease } = call(window, START + laterMs, 0)
    expect(lease).toMatchObject({ permits, databaseMs: left })
    expect(databaseResetAt(lease) - (START + laterMs)).toBe(resetInMs)
  })

  it('does not count refused requests', () => {
    const { window, lease } = call({ startedAt: START, count: 5, databaseMs: 0 }, START, 15_000)
    expect(window.count).toBe(5)
    expect(lease.remaining).toBe(LIMIT - 5)
  })

  /** Uses of database time; a refused caller waits as long as the response says, or less. */
  const uses = fc.array(
    fc.record({
      databaseMs: fc.oneof(
        fc.constant(0),
        fc.double({ min: 0, max: 2_000, noNaN: true }),
        fc.double({ min: 0, max: 50_000, noNaN: true }),
      ),
      patience: fc.double({ min: 0, max: 1, noNaN: true }),
      pauseMs: fc.integer({ min: 0, max: 20_000 }),
    }),
    { minLength: 1, maxLength: 200 },
  )

  it('allows a caller who has waited until the reset, whatever others used meanwhile', () => {
    fc.assert(
      fc.property(uses, (all) => {
        let now = START
        let window: Window | undefined
        let servedAt = 0
        for (const { databaseMs, patience } of all) {
          const isPromised = now >= servedAt
          const { window: next, lease } = call(window, now, 0)
          if (servedAt > 0 && isPromised) expect(lease.permits).toBe(1)
          window = next
          if (lease.permits === 1) {
            window = acquire(window, now, { waiting: 0, wanted: 0, databaseMs }).window
            servedAt = 0
          } else {
            const resetAt = databaseResetAt(lease)
            expect(resetAt).toBeGreaterThan(now)
            if (servedAt > 0) expect(resetAt).toBe(servedAt)
            servedAt = resetAt
            now = patience > 0.7 ? servedAt : Math.floor(now + patience * (servedAt - now))
          }
        }
      }),
    )
  })

  it('allows one allowance a window in the long run, and the excess of the last batch', () => {
    fc.assert(
      fc.property(uses, (all) => {
        let now = START
        let window: Window | undefined
        let used = 0
        let largest = 0
        for (const { databaseMs, pauseMs } of all) {
          const { window: next, lease } = call(window, now, 0)
          window = next
          if (lease.permits === 1) {
            window = acquire(window, now, { waiting: 0, wanted: 0, databaseMs }).window
            used += databaseMs
            largest = Math.max(largest, databaseMs)
          }
          now += pauseMs
        }
        // Fixed windows: one more may end, and one more begin, within the time.
        const windows = Math.floor((now - START) / WINDOW_MS) + 2
        expect(used).toBeLessThanOrEqual(windows * DATABASE_LIMIT_MS + largest)
      }),
    )
  })
})

describe('the seconds to wait', () => {
  it('are whole, at least one, and enough', () => {
    fc.assert(
      fc.property(fc.integer({ min: -1_000, max: WINDOW_MS }), (ms) => {
        const seconds = secondsUntil(START + ms, START)
        expect(Number.isInteger(seconds)).toBe(true)
        expect(seconds).toBeGreaterThanOrEqual(1)
        expect(seconds * 1_000).toBeGreaterThanOrEqual(ms)
        expect(seconds * 1_000).toBeLessThan(Math.max(ms, 1) + 1_000)
      }),
    )
  })

  it('are never more than a window, though the clocks of two machines differ', () => {
    expect(secondsUntil(START + WINDOW_MS + 1, START)).toBe(60)
  })

  it('are up to as many windows as a debt takes', () => {
    expect(secondsUntil(START + 3 * WINDOW_MS, START, 3 * WINDOW_MS)).toBe(180)
    expect(secondsUntil(START + 9 * WINDOW_MS, START, 3 * WINDOW_MS)).toBe(180)
  })
})

describe('the usage', () => {
  const hour = 3_600_000
  const used = { permits: 2, refused: 1, databaseMs: 5 }

  it('is summed by hour', () => {
    const hours = [10, 20, hour + 1].reduce((all, at) => addUsage(all, at, used), [] as HourOfUsage[])
    expect(hours).toEqual([
      { at: 0, requests: 4, refused: 2, databaseMs: 10 },
      { at: hour, requests: 2, refused: 1, databaseMs: 5 },
    ])
  })

  it('is kept for the present hour and a day before it', () => {
    const all = Array.from({ length: 40 }, (_, i) => i * hour).reduce(
      (sum, at) => addUsage(sum, at, used),
      [] as HourOfUsage[],
    )
    expect(all.map(({ at }) => at / hour)).toEqual(Array.from({ length: 25 }, (_, i) => 15 + i))
  })

  it('of a clock that went backwards counts for the last hour', () => {
    expect(addUsage(addUsage([], hour, used), 10, used)).toMatchObject([{ at: hour, requests: 4 }])
  })
})
