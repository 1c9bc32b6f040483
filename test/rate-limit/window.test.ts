import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LIMIT, secondsUntil, take, WINDOW_MS, type Window } from '../../src/rate-limit/window.ts'

const START = 1_000_000_000

/** Requests at the given times, one after the other, each with what it was told. */
function run(times: readonly number[], from?: Window) {
  let window = from
  return times.map((now) => {
    const result = take(window, now)
    window = result.window
    return { now, ...result }
  })
}

/** Pauses between requests: mostly none, so that allowances are used up, and some around the length of a window. */
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

describe('the window', () => {
  it('is 300 a minute', () => {
    expect({ LIMIT, WINDOW_MS }).toEqual({ LIMIT: 300, WINDOW_MS: 60_000 })
    const verdicts = run(Array.from({ length: 302 }, () => START)).map(({ verdict }) => verdict)
    expect(verdicts[0]).toEqual({ allowed: true, remaining: 299, resetAt: START + 60_000 })
    expect(verdicts[299]).toEqual({ allowed: true, remaining: 0, resetAt: START + 60_000 })
    expect(verdicts[300]).toEqual({ allowed: false, remaining: 0, resetAt: START + 60_000 })
  })

  it('gives the whole allowance back at its end, not before', () => {
    const full = { startedAt: START, count: LIMIT }
    expect(take(full, START + WINDOW_MS - 1).verdict.allowed).toBe(false)
    expect(take(full, START + WINDOW_MS).verdict).toEqual({
      allowed: true,
      remaining: LIMIT - 1,
      resetAt: START + 2 * WINDOW_MS,
    })
  })

  it('never allows more than the limit between its start and its reset, and counts down by one', () => {
    fc.assert(
      fc.property(fc.array(pause, { minLength: 1, maxLength: 1_000 }), (pauses) => {
        const results = run(timesOf(pauses))
        const allowed = new Map<number, number>()
        let before: (typeof results)[number] | undefined
        for (const each of results) {
          const { now, verdict, window } = each
          expect(verdict.resetAt).toBeGreaterThan(now)
          expect(verdict.resetAt - now).toBeLessThanOrEqual(WINDOW_MS)
          const used = (allowed.get(verdict.resetAt) ?? 0) + (verdict.allowed ? 1 : 0)
          allowed.set(verdict.resetAt, used)
          expect(used).toBeLessThanOrEqual(LIMIT)
          expect(verdict.remaining).toBe(LIMIT - used)
          expect(window.count).toBe(used)
          if (!verdict.allowed) expect(used).toBe(LIMIT)
          if (before && before.verdict.resetAt !== verdict.resetAt)
            expect(now).toBeGreaterThanOrEqual(before.verdict.resetAt)
          before = each
        }
      }),
    )
  })

  it('gives no second allowance and no longer wait when the clock goes backwards', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 1_000 }), (steps) => {
        let spent = 0
        let end = 0
        for (const { now, verdict } of run(timesOf(steps))) {
          expect(verdict.resetAt).toBeGreaterThan(now)
          expect(verdict.resetAt - now).toBeLessThanOrEqual(WINDOW_MS)
          expect(verdict.remaining).toBeGreaterThanOrEqual(0)
          // Whoever was told a reset time gets a new allowance only once a clock has shown that time.
          if (now >= end) spent = 0
          spent += verdict.allowed ? 1 : 0
          end = verdict.resetAt
          expect(spent).toBeLessThanOrEqual(LIMIT)
        }
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
})
