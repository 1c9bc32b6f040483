import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { app } from '../../../src/app.ts'
import { count, type Decision, LIMIT, type Usage, type Window } from '../../../src/kernel/gate/limits.ts'
import { findToken, hashToken } from '../../../src/kernel/gate/tokens.ts'
import { BUDGET_MS, pause } from '../../../src/kernel/http/isolate.ts'
import { mintCompany, request } from '../../support/app.ts'
import { withLimiter } from './support.ts'

/** The delay of every call of a slow object. */
const SLOW_MS = 5_000
/** A step of the clock, which nothing else moves: a busy machine changes nothing. */
const STEP_MS = 50

await mintCompany()

/** How a call reaches its object: `work` counts at once. */
type Way = (work: () => Decision, callNumber: number) => Promise<Decision>

/** A token whose object counts in memory and is called in this way, and the requests that it counted. */
async function open(way: Way) {
  const { token } = await mintCompany()
  // The look-up needs a real database, and none is called while the clock is moved.
  const found = await findToken(env.DB, hashToken(token))
  const seen = { calls: 0, counted: 0 }
  let window: Window | undefined
  const decide = (_: string, cost: Usage) =>
    way(
      () => {
        const result = count(window, Date.now(), cost)
        window = result.window
        seen.counted += result.allowed ? (cost.requests ?? 0) : 0
        return result
      },
      seen.calls++,
    )
  const { bindings } = withLimiter(decide, async () => found)
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() })

  /** Sends so many requests, one each `everyMs`: how many got each status, and how long that took by the clock. */
  const flood = async (requests: number, everyMs: number) => {
    const beganAt = Date.now()
    const statuses: Record<number, number> = {}
    let left = requests
    let endedMs = 0
    const sendOne = async (_: unknown, index: number) => {
      await pause(index * everyMs)
      const context = createExecutionContext()
      const { status } = await app.fetch(request(token, 'GET', '/nowhere'), bindings, context)
      statuses[status] = (statuses[status] ?? 0) + 1
      endedMs = Date.now() - beganAt
      await waitOnExecutionContext(context)
      left--
    }
    const all = Promise.all(Array.from({ length: requests }, sendOne))
    while (left > 0) {
      await scheduler.wait(1)
      vi.advanceTimersByTime(STEP_MS)
    }
    await all
    return { statuses, endedMs }
  }
  return { flood, seen }
}

/** Waits so long before it counts each call. */
const waitThenCount =
  (msOf: (callNumber: number) => number): Way =>
  (work, callNumber) =>
    pause(msOf(callNumber)).then(work)

/** Waits so long after it has counted each call, some of which then fail. */
const countThenWait =
  (msOf: (callNumber: number) => number, fails = (_: number) => false): Way =>
  async (work, callNumber) => {
    const decision = work()
    await pause(msOf(callNumber))
    if (fails(callNumber)) throw new Error('down')
    return decision
  }

const slow = () => SLOW_MS
const differing = (callNumber: number) => (callNumber * 7_919) % 12_000
const rising = (callNumber: number) => callNumber * 40

it.each<[string, number, Way]>([
  ['is delayed by 5 s before it counts requests that come at once', 0, waitThenCount(slow)],
  ['is delayed by 5 s before it counts requests that come one by one', 30, waitThenCount(slow)],
  ['is delayed by 5 s after it has counted requests that come at once', 0, countThenWait(slow)],
  ['is delayed by 5 s after it has counted requests that come one by one', 30, countThenWait(slow)],
  ['has another delay before it counts', 10, waitThenCount(differing)],
  ['has another delay after it has counted', 10, countThenWait(differing)],
  ['is delayed longer than the one before', 10, waitThenCount(rising)],
])('an object that is slow allows exactly 300 of 330: every call %s', async (_, everyMs, way) => {
  const { flood } = await open(way)
  const { statuses, endedMs } = await flood(330, everyMs)
  expect(statuses).toEqual({ 404: LIMIT, 429: 30 })
  // Its calls do not wait for each other.
  expect(endedMs).toBeLessThan(330 * everyMs + 3 * SLOW_MS)
})

describe('an object that is silent', () => {
  it('is replaced after 15 s by a local allowance, and its late answers give none beside it', async () => {
    const { flood, seen } = await open(waitThenCount(() => BUDGET_MS.silence + SLOW_MS))
    const { statuses, endedMs } = await flood(330, 0)
    expect(statuses).toEqual({ 404: LIMIT, 429: 30 })
    expect(endedMs).toBeGreaterThanOrEqual(BUDGET_MS.silence)
    expect(endedMs).toBeLessThan(BUDGET_MS.silence + SLOW_MS)
    vi.advanceTimersByTime(SLOW_MS)
    await scheduler.wait(1)
    // It has counted them as well.
    expect(seen.counted).toBe(LIMIT)
    expect((await flood(1, 0)).statuses).toEqual({ 429: 1 })
  })

  it('is called again after 5 s by one request, which waits for it no longer than 3 s', async () => {
    const { flood, seen } = await open(waitThenCount(() => 2 * BUDGET_MS.silence))
    await flood(1, 0)
    vi.advanceTimersByTime(5_000)
    const { statuses, endedMs } = await flood(20, 0)
    expect(statuses).toEqual({ 404: 20 })
    expect(endedMs).toBeLessThan(3_000)
    expect(seen.calls).toBe(2)
  })

  it.each([3, 50, 150])('gives no second allowance behind its first %i answers', async (answers) => {
    const { flood } = await open(waitThenCount((call) => (call < answers ? 100 : 2 * BUDGET_MS.silence)))
    expect((await flood(330, 20)).statuses).toEqual({ 404: LIMIT, 429: 30 })
  })

  it.each([3, 50, 150])('gives no second allowance when it fails behind its first %i answers', async (answers) => {
    const fails = (call: number) => call >= answers && call % 4 > 0
    const { flood } = await open(countThenWait((call) => (call % 3 === 0 ? SLOW_MS : 100), fails))
    const { statuses } = await flood(400, 20)
    expect(statuses[404]).toBeLessThanOrEqual(LIMIT)
  })

  it('leaves a local allowance only what its calls under way cannot use', async () => {
    const msOf = (call: number) => (call < 290 ? 0 : call === 290 ? 1_000 : 3_000)
    const { flood } = await open(countThenWait(msOf, (call) => call === 290))
    expect((await flood(290, 0)).statuses).toEqual({ 404: 290 })
    expect((await flood(100, 10)).statuses[404]).toBeLessThanOrEqual(10)
  })
})
