import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  addUsage,
  count,
  DATABASE_LIMIT_MS,
  type Decision,
  databaseResetAt,
  type HourOfUsage,
  LIMIT,
  resetAt,
  secondsUntil,
  WINDOW_MS,
  type Window,
} from '../../../src/kernel/gate/limits.ts'

const START = 1_000_000_000

/** What a decision leaves of both allowances. */
const leftBy = ({ allowed, window }: Decision) => ({
  allowed,
  remaining: LIMIT - window.count,
  resetAt: resetAt(window),
  databaseMs: DATABASE_LIMIT_MS - window.databaseMs,
})

/** Calls at the given times, one after the other, each with its decision. */
function run(times: readonly number[], requests: readonly number[] = [1]) {
  let window: Window | undefined
  return times.map((now, index) => {
    const wants = requests[index % requests.length] ?? 1
    const result = count(window, now, { requests: wants, databaseMs: 0 })
    window = result.window
    return { now, wants, window, decision: leftBy(result) }
  })
}

const crowds = fc.array(fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.integer({ min: 2, max: 100 })), {
  minLength: 1,
  maxLength: 20,
})

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
  it('counts requests that were allowed without it, up to the limit', () => {
    const of = (uncounted: number) => leftBy(count(undefined, START, { requests: 0, databaseMs: 0, uncounted }))
    expect(of(20)).toMatchObject({ allowed: true, remaining: 280 })
    expect(of(900)).toMatchObject({ allowed: true, remaining: 0 })
  })

  it('never allows more than the limit in a window, and refuses only what does not fit', () => {
    fc.assert(
      fc.property(fc.array(pause, { minLength: 1, maxLength: 1_000 }), crowds, (pauses, requests) => {
        const given = new Map<number, number>()
        let before: ReturnType<typeof run>[number] | undefined
        for (const each of run(timesOf(pauses), requests)) {
          const { now, wants, decision, window } = each
          expect(decision.resetAt).toBeGreaterThan(now)
          expect(decision.resetAt - now).toBeLessThanOrEqual(WINDOW_MS)
          const earlier = given.get(decision.resetAt) ?? 0
          expect(decision.allowed).toBe(earlier + wants <= LIMIT)
          const used = earlier + (decision.allowed ? wants : 0)
          given.set(decision.resetAt, used)
          expect(decision.remaining).toBe(LIMIT - used)
          expect(window.count).toBe(used)
          const isLater = before && before.decision.resetAt !== decision.resetAt
          if (isLater) expect(now).toBeGreaterThanOrEqual(before?.decision.resetAt ?? 0)
          before = each
        }
      }),
    )
  })

  it('gives neither a second allowance nor a longer wait when the clock goes backwards', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 1_000 }), crowds, (steps, requests) => {
        let spent = 0
        let end = 0
        for (const { now, wants, decision } of run(timesOf(steps), requests)) {
          expect(decision.resetAt).toBeGreaterThan(now)
          expect(decision.resetAt - now).toBeLessThanOrEqual(WINDOW_MS)
          expect(decision.remaining).toBeGreaterThanOrEqual(0)
          // A new allowance begins only once a clock has reached the reset that was sent.
          if (now >= end) spent = 0
          spent += decision.allowed ? wants : 0
          end = decision.resetAt
          expect(spent).toBeLessThanOrEqual(LIMIT)
        }
      }),
    )
  })
})

describe('the window of database time', () => {
  /** A request that waits at `now`, after one that used `databaseMs`. */
  const call = (window: Window | undefined, now: number, databaseMs: number) =>
    count(window, now, { requests: 1, databaseMs })

  const rows: [used: number, laterMs: number, isAllowed: 0 | 1, left: number, resetInMs: number][] = [
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
  it.each(rows)('with %i ms used, %i ms later', (used, laterMs, isAllowed, left, resetInMs) => {
    const { window } = call({ startedAt: START, count: 5, databaseMs: 0 }, START, used)
    const decision = call(window, START + laterMs, 0)
    expect(leftBy(decision)).toMatchObject({ allowed: isAllowed === 1, databaseMs: left })
    expect(databaseResetAt(decision.window) - (START + laterMs)).toBe(resetInMs)
  })

  it('does not count refused requests', () => {
    const { window } = call({ startedAt: START, count: 5, databaseMs: 0 }, START, 15_000)
    expect(window.count).toBe(5)
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
          const decision = call(window, now, 0)
          if (servedAt > 0 && isPromised) expect(decision.allowed).toBe(true)
          window = decision.window
          if (decision.allowed) {
            window = count(window, now, { requests: 0, databaseMs }).window
            servedAt = 0
          } else {
            const resetAt = databaseResetAt(decision.window)
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
          const decision = call(window, now, 0)
          window = decision.window
          if (decision.allowed) {
            window = count(window, now, { requests: 0, databaseMs }).window
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
  const used = { requests: 2, refused: 1, databaseMs: 5 }

  it('is summed by hour', () => {
    const hours = [10, 20, hour + 1].reduce((all, at) => addUsage(all, at, used, true), [] as HourOfUsage[])
    expect(hours).toEqual([
      { at: 0, requests: 4, refused: 2, databaseMs: 10 },
      { at: hour, requests: 2, refused: 1, databaseMs: 5 },
    ])
  })

  it('is kept for the present hour and a day before it', () => {
    let all: HourOfUsage[] = []
    for (let i = 0; i < 40; i++) all = addUsage(all, i * hour, used, true)
    expect(all.map(({ at }) => at / hour)).toEqual(Array.from({ length: 25 }, (_, i) => 15 + i))
  })

  it('of a clock that went backwards counts for the last hour', () => {
    expect(addUsage(addUsage([], hour, used, true), 10, used, true)).toMatchObject([{ at: hour, requests: 4 }])
  })
})
