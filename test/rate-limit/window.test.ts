import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LIMIT, secondsUntil, take, WINDOW_MS, type Window } from '../../src/rate-limit/window.ts'

const START = 1_000_000_000

/** More than a call is ever given. */
const MANY = LIMIT

/** Calls at the given times, one after the other, each with what it was given. */
function run(times: readonly number[], wanted: readonly number[] = [MANY]) {
  let window: Window | undefined
  return times.map((now, index) => {
    const wants = wanted[index % wanted.length] ?? MANY
    const result = take(window, now, wants)
    window = result.window
    return { now, wants, ...result }
  })
}

const wishes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 20 })

/** Pauses between calls: mostly none, so that allowances are used up, and some around the length of a window. */
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
  it('is 300 a minute, given out to whoever wants many in shares that shrink to one', () => {
    expect({ LIMIT, WINDOW_MS }).toEqual({ LIMIT: 300, WINDOW_MS: 60_000 })
    const grants = run(Array.from({ length: 200 }, () => START)).map(({ grant }) => grant)
    const resetAt = START + 60_000
    expect(grants[0]).toEqual({ units: 10, remaining: 290, resetAt })
    expect(grants.at(-1)).toEqual({ units: 0, remaining: 0, resetAt })
    const units = grants.map((grant) => grant.units).filter((count) => count > 0)
    expect(units.reduce((sum, count) => sum + count)).toBe(LIMIT)
    expect(units).toEqual(units.toSorted((a, b) => b - a))
    expect(units.slice(-30)).toEqual(Array.from({ length: 30 }, () => 1))
    // Three requests a call and more.
    expect(units.length).toBeLessThanOrEqual(LIMIT / 3)
  })

  it('gives one where one is wanted', () => {
    const grants = run(
      Array.from({ length: 302 }, () => START),
      [1],
    ).map(({ grant }) => grant)
    expect(grants.map(({ units }) => units)).toEqual(grants.map((_, index) => (index < LIMIT ? 1 : 0)))
  })

  it('gives the whole allowance back at its end, not before', () => {
    const full = { startedAt: START, count: LIMIT }
    expect(take(full, START + WINDOW_MS - 1, 1).grant.units).toBe(0)
    expect(take(full, START + WINDOW_MS, MANY).grant).toEqual({
      units: 10,
      remaining: LIMIT - 10,
      resetAt: START + 2 * WINDOW_MS,
    })
  })

  it('never gives out more than the limit between its start and its reset, and refuses only when all is out', () => {
    fc.assert(
      fc.property(fc.array(pause, { minLength: 1, maxLength: 1_000 }), wishes, (pauses, wanted) => {
        const given = new Map<number, number>()
        let before: ReturnType<typeof run>[number] | undefined
        for (const each of run(timesOf(pauses), wanted)) {
          const { now, wants, grant, window } = each
          expect(grant.units).toBeLessThanOrEqual(wants)
          expect(grant.resetAt).toBeGreaterThan(now)
          expect(grant.resetAt - now).toBeLessThanOrEqual(WINDOW_MS)
          const used = (given.get(grant.resetAt) ?? 0) + grant.units
          given.set(grant.resetAt, used)
          expect(used).toBeLessThanOrEqual(LIMIT)
          expect(grant.remaining).toBe(LIMIT - used)
          expect(window.count).toBe(used)
          if (grant.units === 0) expect(used).toBe(LIMIT)
          if (before && before.grant.resetAt !== grant.resetAt) expect(now).toBeGreaterThanOrEqual(before.grant.resetAt)
          before = each
        }
      }),
    )
  })

  it('gives no second allowance and no longer wait when the clock goes backwards', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 1_000 }), wishes, (steps, wanted) => {
        let spent = 0
        let end = 0
        for (const { now, grant } of run(timesOf(steps), wanted)) {
          expect(grant.resetAt).toBeGreaterThan(now)
          expect(grant.resetAt - now).toBeLessThanOrEqual(WINDOW_MS)
          expect(grant.remaining).toBeGreaterThanOrEqual(0)
          // Whoever was told a reset time gets a new allowance only once a clock has shown that time.
          if (now >= end) spent = 0
          spent += grant.units
          end = grant.resetAt
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
