import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { BatchSemaphore, crowded, DATABASE_LIMIT_MS, IN_FLIGHT, type Usage } from '../../../src/kernel/gate/limits.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { mintCompany, request, send } from '../../support/app.ts'
import { moveTime, stopTime } from '../../support/time.ts'
import { markUsed, memory, statusesOf, timedDatabase, withLimiter } from './support.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** A company with so much database time for each statement, and the calls of its limiter. */
async function company(durationMs: number, hold?: () => Promise<unknown>) {
  const { token } = await mintCompany({ home: 'DB' })
  await markUsed(token)
  const { DB, seen } = timedDatabase(durationMs, hold)
  const window = memory()
  const calls: Usage[] = []
  const { bindings: limited } = withLimiter(async (name, cost) => {
    calls.push(cost)
    return window(name, cost)
  })
  const bindings: Env = { ...limited, DB }
  const call = async (method: string, path: string, body?: unknown) => {
    const response = await send(request(token, method, path, body), { env: bindings })
    const [, left, seconds] = /"database";r=(\d+);t=(\d+),/.exec(response.headers.get('ratelimit') ?? '') ?? []
    return { ...response, left: Number(left), seconds: Number(seconds) }
  }
  /** Uses database time in another isolate. */
  const use = (databaseMs: number) => window(hashToken(token), { requests: 0, databaseMs })
  const get = () => request(token, 'GET', '/clients/1')
  return { token, bindings, seen, calls, call, use, get }
}

const reported = (calls: Usage[]) => calls.reduce((sum, { databaseMs }) => sum + databaseMs, 0)

describe('database time', () => {
  it('is counted for every statement of a request, reads and writes', async () => {
    const { call, seen } = await company(1)
    const requests: [string, string, object?][] = [
      ['GET', '/clients'],
      ['POST', '/clients', { company_name: 'a' }],
      ['GET', '/products/search?q=tee'],
      ['PUT', '/mail/email-threads/t', { account_email: 'a@x.example', messages: [{ id: '1' }] }],
      ['GET', '/mail/email-threads/t?account_email=a@x.example'],
    ]
    for (const [method, path, body] of requests) {
      const { status, left } = await call(method, path, body)
      expect(status, path).toBe(200)
      expect(left, path).toBe(DATABASE_LIMIT_MS - seen.statements)
    }
    expect(seen.batches).toBeGreaterThanOrEqual(requests.length)
  })

  it('is reported with the next call while it is little, so that cheap requests cost no call of their own', async () => {
    const { call, calls, seen } = await company(1)
    for (let i = 0; i < 10; i++) await call('GET', '/clients/1')
    expect(calls.map(({ requests }) => requests)).toEqual(Array.from({ length: 10 }, () => 1))
    expect(reported(calls)).toBeGreaterThan(0)
    expect(reported(calls)).toBeLessThan(seen.statements)
  })

  it('is reported after the response when it is much', async () => {
    const { call, calls, seen } = await company(60)
    await call('GET', '/clients/1')
    const counted = calls.map(({ requests = 0, databaseMs }) => [requests, databaseMs])
    expect(counted).toEqual([
      [1, 0],
      [0, 60 * seen.statements],
    ])
  })

  it('of a failed batch is its duration, up to a second', async () => {
    const { call, calls } = await company(1, async () => {
      await scheduler.wait(120)
      throw new Error('no')
    })
    expect((await call('GET', '/clients/1')).status).toBe(500)
    expect(reported(calls)).toBeGreaterThanOrEqual(100)
    expect(reported(calls)).toBeLessThanOrEqual(2_000)
  })
})

describe('a token without database time', () => {
  beforeEach(stopTime)

  it('is refused until the next window, and served when its Retry-After has passed', async () => {
    const { call, use, seen } = await company(1)
    await use(DATABASE_LIMIT_MS)
    expect(await call('POST', '/clients', { company_name: 'a' })).toMatchObject({
      status: 429,
      left: 0,
      body: { error: { code: 'rate_limited', message: expect.stringContaining('database time') } },
    })
    const { status, headers, seconds } = await call('GET', '/clients')
    const wait = Number(headers.get('retry-after'))
    expect({ status, wait }).toEqual({ status: 429, wait: seconds })
    expect(wait).toBeGreaterThan(55)
    expect(wait).toBeLessThanOrEqual(60)
    expect(headers.get('ratelimit')).toMatch(/^"default";r=300;/)
    // Neither of them ran a batch.
    expect(seen.batches).toBe(0)
    moveTime(wait * 1_000)
    expect(await call('GET', '/clients')).toMatchObject({ status: 200, body: { pagination: { total: 0 } } })
  })

  it('is refused before another read when it has used up the allowance itself', async () => {
    const { call, seen } = await company(DATABASE_LIMIT_MS)
    expect((await call('GET', '/clients/1')).status).toBe(404)
    const { batches } = seen
    expect((await call('GET', '/clients/1')).status).toBe(429)
    expect(seen.batches).toBe(batches)
  })
})

describe('many concurrent requests of a token', () => {
  it('use at most the allowance and what is under way, while their time is reported', async () => {
    const { bindings, seen, get } = await company(250)
    const statuses = await statusesOf(100, get, bindings)
    expect(seen.statements * 250).toBeLessThanOrEqual(DATABASE_LIMIT_MS + IN_FLIGHT * 250)
    expect(statuses).toEqual({ 404: seen.batches, 429: 100 - seen.batches })
  })

  it('that were admitted are served, and owe what they use beyond the allowance', async () => {
    const { bindings, seen, get, use, call } = await company(250)
    await use(DATABASE_LIMIT_MS - 300)
    expect(await statusesOf(IN_FLIGHT + 2, get, bindings)).toEqual({ 404: IN_FLIGHT + 2 })
    const usedMs = DATABASE_LIMIT_MS - 300 + 250 * seen.statements
    await vi.waitUntil(async () => (await use(0)).window.databaseMs === usedMs, 10_000)
    expect((await call('GET', '/clients/1')).status).toBe(429)
  })

  it('are refused with 429 where the earlier ones take too long', async () => {
    const { call, seen } = await company(1)
    vi.spyOn(BatchSemaphore.prototype, 'enter').mockReturnValueOnce({ startedAt: 0 })
    vi.spyOn(BatchSemaphore.prototype, 'wait').mockRejectedValueOnce(crowded())
    const { status, headers } = await call('GET', '/clients/1')
    expect([status, headers.get('retry-after'), seen.batches]).toEqual([429, '5', 0])
  })

  it('all succeed when they are cheap', async () => {
    const { bindings, get } = await company(1)
    expect(await statusesOf(120, get, bindings)).toEqual({ 404: 120 })
  })
})
