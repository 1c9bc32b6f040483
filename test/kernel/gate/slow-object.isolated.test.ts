import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { app } from '../../../src/app.ts'
import type { Env } from '../../../src/env.ts'
import type { AdmitRequest, Report } from '../../../src/kernel/gate/limiter.ts'
import { count, type Decision, LIMIT, type Usage, type Window } from '../../../src/kernel/gate/limits.ts'
import { findToken, hashToken } from '../../../src/kernel/gate/tokens.ts'
import { BUDGET_MS, pause } from '../../../src/kernel/http/bounds.ts'
import { mintCompany, request } from '../../support/app.ts'

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
  const { token: known, applied } = await findToken(env.DB, hashToken(token))
  if (!known) throw new Error('There is no token.')
  const seen = { calls: 0, counted: 0 }
  let window: Window | undefined
  const decide = (cost: Usage) =>
    way(
      () => {
        const result = count(window, Date.now(), cost)
        window = result.window
        seen.counted += result.allowed ? (cost.requests ?? 0) : 0
        return result
      },
      seen.calls++,
    )
  const stub = {
    admit: async (_: string, request: AdmitRequest) => {
      const decision = await decide({ ...request, requests: 1 })
      return { kind: 'admitted', token: known, ageMs: 0, applied, decision, constraint: null }
    },
    report: (report: Report) => decide({ ...report, requests: 0 }),
  }
  const namespace = { idFromName: (name: string) => name, get: () => stub }
  const bindings: Env = { ...env, RATE_LIMITER: namespace as unknown as Env['RATE_LIMITER'] }
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

const beforeCounting: Way = (work) => pause(SLOW_MS).then(work)
const afterCounting: Way = async (work) => {
  const decision = work()
  await pause(SLOW_MS)
  return decision
}

describe('an object that is slow', () => {
  it.each<[string, number, Way]>([
    ['before it counts requests that come at once', 0, beforeCounting],
    ['before it counts requests that come one by one', 30, beforeCounting],
    ['after it has counted requests that come at once', 0, afterCounting],
    ['after it has counted requests that come one by one', 30, afterCounting],
  ])('allows exactly 300 of 330: every call is delayed by 5 s %s', async (_, everyMs, way) => {
    const { flood } = await open(way)
    const { statuses, endedMs } = await flood(330, everyMs)
    expect(statuses).toEqual({ 404: LIMIT, 429: 30 })
    // Its calls do not wait for each other.
    expect(endedMs).toBeLessThan(330 * everyMs + 3 * SLOW_MS)
  })

  it('allows exactly 300 when its delays differ, and while its later calls are the slower ones', async () => {
    const ways: Way[] = [
      (work, call) => pause((call * 7_919) % 12_000).then(work),
      async (work, call) => {
        const decision = work()
        await pause((call * 7_919) % 12_000)
        return decision
      },
      (work, call) => pause(call * 40).then(work),
    ]
    for (const way of ways) {
      const { flood } = await open(way)
      expect((await flood(330, 10)).statuses).toEqual({ 404: LIMIT, 429: 30 })
      vi.useRealTimers()
    }
  })
})

describe('an object that is silent', () => {
  it('is replaced after 15 s by a local allowance, and its late answers give none beside it', async () => {
    const { flood, seen } = await open((work) => pause(BUDGET_MS.silence + SLOW_MS).then(work))
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
    const { flood, seen } = await open((work) => pause(2 * BUDGET_MS.silence).then(work))
    await flood(1, 0)
    vi.advanceTimersByTime(5_000)
    const { statuses, endedMs } = await flood(20, 0)
    expect(statuses).toEqual({ 404: 20 })
    expect(endedMs).toBeLessThan(3_000)
    expect(seen.calls).toBe(2)
  })

  it.each([3, 50, 150])('gives no second allowance behind its first %i answers', async (answers) => {
    const { flood } = await open((work, call) => pause(call < answers ? 100 : 2 * BUDGET_MS.silence).then(work))
    expect((await flood(330, 20)).statuses).toEqual({ 404: LIMIT, 429: 30 })
  })

  it.each([3, 50, 150])('gives no second allowance when it fails behind its first %i answers', async (answers) => {
    const { flood } = await open(async (work, call) => {
      const decision = work()
      await pause(call % 3 === 0 ? SLOW_MS : 100)
      if (call >= answers && call % 4 > 0) throw new Error('down')
      return decision
    })
    const { statuses } = await flood(400, 20)
    expect(statuses[404]).toBeLessThanOrEqual(LIMIT)
  })

  it('leaves a local allowance only what its calls under way cannot use', async () => {
    const { flood } = await open(async (work, call) => {
      const decision = work()
      await pause(call < 290 ? 0 : call === 290 ? 1_000 : 3_000)
      if (call === 290) throw new Error('down')
      return decision
    })
    expect((await flood(290, 0)).statuses).toEqual({ 404: 290 })
    expect((await flood(100, 10)).statuses[404]).toBeLessThanOrEqual(10)
  })
})
