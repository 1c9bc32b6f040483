import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { LIMIT, type Usage, WINDOW_MS } from '../../../src/kernel/gate/limits.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { mintCompany, request, send, sql } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { moveTime, stopTime } from '../../support/time.ts'
import { watchCalls } from '../../support/wrap-bindings.ts'
import { memory, statusesOf, withLimiter } from './support.ts'

beforeEach(stopTime)

const requests = (count: number): Usage => ({ requests: count, databaseMs: 0 })

describe('the limit of requests', () => {
  it('is in the headers of every authenticated response', async () => {
    const { call } = await mintCompany()
    const responses = [
      await call('GET', '/clients'),
      await call('HEAD', '/clients'),
      await call('POST', '/clients', { company_name: 'a' }),
      await call('POST', '/clients', '{'),
      await call('GET', '/clients?page=x'),
      await call('GET', '/clients/1000'),
      await call('PUT', '/clients', {}),
      await call('GET', '/nowhere'),
      await call('GET', '/*'),
    ]
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 400, 400, 404, 405, 404, 404])
    responses.forEach(({ headers }, index) => {
      expect(headers.get('ratelimit-policy')).toBe(
        '"default";q=300;w=60, "database";q=15000;w=60;qu="milliseconds", "company";q=40000;w=60;qu="milliseconds"',
      )
      expect(headers.get('ratelimit')).toMatch(
        new RegExp(
          `^"default";r=${299 - index};t=([1-9]|[1-5]\\d|60), "database";r=1\\d{4};t=([1-9]|[1-5]\\d|60), "company";r=\\d+;t=\\d+$`,
        ),
      )
      expect(headers.has('retry-after')).toBe(false)
    })
  })

  it('allows exactly 300 of many concurrent requests of a token, reads and writes alike', async () => {
    const { token, id } = await mintCompany()
    let sent = 0
    const next = () =>
      sent++ % 30 === 0
        ? request(token, 'POST', '/clients', { company_name: 'a' })
        : request(token, 'GET', '/clients/1')
    // More at once, or many writes, could outlast their deadline and use up the database time on a busy machine.
    for (let wave = 0; wave < 10; wave++) expect(await statusesOf(30, next, env)).toEqual({ 200: 1, 404: 29 })
    const refused = await Promise.all(Array.from({ length: 30 }, () => send(next())))
    expect(await sql('SELECT count(*) AS count FROM clients WHERE company_id = ?', id)).toEqual([{ count: 10 }])
    for (const { status, headers, body } of refused) {
      const wait = Number(headers.get('retry-after'))
      expect([status, body.error.details.retry_after]).toEqual([429, wait])
      expect(body.error.message).toContain(`300 requests a minute: retry after ${wait} second`)
      expect(wait).toBeGreaterThan(0)
      expect(wait).toBeLessThanOrEqual(60)
      expect(headers.get('ratelimit')).toContain(`"default";r=0;t=${wait}, "database";`)
      expect(headers.get('cache-control')).toBe('private, no-store')
    }
  })

  it('is that of the present window in a response that took longer than the one before', async () => {
    const { token } = await mintCompany()
    const limiter = memory()
    const get = (bindings: Env) => send(request(token, 'GET', '/clients'), { env: bindings })
    await get(withLimiter(limiter).bindings)
    let isSlow = true
    const { bindings } = withLimiter(async (name, cost) => {
      const decision = await limiter(name, cost)
      if (isSlow) moveTime(WINDOW_MS)
      return decision
    })
    expect((await get(bindings)).headers.get('ratelimit')).toMatch(/^"default";r=300;t=60, "database";r=15000;t=60,/)
    isSlow = false
    expect((await get(bindings)).headers.get('ratelimit')).toMatch(/^"default";r=299;t=60,/)
  })
})

it('a refused request calls neither the object nor the database until its Retry-After has passed, and is served then', async () => {
  const { token } = await mintCompany()
  const limiter = memory()
  await limiter(hashToken(token), requests(LIMIT))
  // The refusal ends with the object's window, not a minute after it began.
  moveTime(40_000)
  const { bindings, called } = withLimiter(limiter)
  const { calls, env: watched } = watchCalls(bindings)
  const sendAs = (method: string) =>
    send(request(token, method, '/clients', method === 'POST' ? {} : undefined), { env: watched })
  for (const method of ['GET', 'GET', 'POST', 'HEAD']) {
    const { status, headers } = await sendAs(method)
    expect([status, headers.get('retry-after')]).toEqual([429, '20'])
  }
  expect([called.length, calls]).toEqual([1, ['RATE_LIMITER.admit']])
  moveTime(20_000)
  expect((await sendAs('GET')).status).toBe(200)
  expect(called).toHaveLength(2)
})

/** Bindings whose limiter can fail, and its calls. */
async function breakable() {
  const { token } = await mintCompany()
  const window = memory()
  const state = { fails: true, calls: [] as Usage[] }
  const { bindings } = withLimiter(async (name, cost) => {
    state.calls.push(cost)
    if (state.fails) throw new Error('overloaded')
    return window(name, cost)
  })
  const get = () => send(request(token, 'GET', '/clients/1'), { env: bindings })
  return { token, bindings, state, get, window }
}

describe('a limiter that fails', () => {
  it.each(['GET', 'POST'])('lets %s use a local allowance and is logged', async (method) => {
    const { token, bindings } = await breakable()
    const sent = request(token, method, '/clients', method === 'POST' ? { company_name: 'a' } : undefined)
    const response = await send(sent, { env: bindings })
    expect(response.status).toBe(200)
    expect(response.headers.get('ratelimit')).toMatch(/^"default";r=299;t=60, "database";/)
    expect(linesOf(response.headers.get('x-request-id'))).toContainEqual(
      expect.objectContaining({ event: 'limiter_failed', reason: 'Error' }),
    )
  })

  it('lets an isolate allow 300 requests of a token, and is called again after 5 s', async () => {
    const { get, state, token, bindings } = await breakable()
    expect((await get()).status).toBe(404)
    const statuses = await statusesOf(329, () => request(token, 'GET', '/nowhere'), bindings)
    expect(statuses).toEqual({ 404: 299, 429: 30 })
    const calls = state.calls.length
    expect(calls).toBe(1)
    moveTime(5_000)
    const refused = await get()
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(45)
    expect(state.calls).toHaveLength(calls + 1)
  })

  it('counts what was allowed without it when it has recovered', async () => {
    const { get, state, token, bindings } = await breakable()
    for (let i = 0; i < 20; i++) expect((await get()).status).toBe(404)
    state.fails = false
    moveTime(5_000)
    expect((await get()).headers.get('ratelimit')).toMatch(/r=279;/)
    expect((await get()).headers.get('ratelimit')).toMatch(/r=278;/)
    // The first call that failed carried none.
    expect(state.calls.reduce((sum, { uncounted = 0 }) => sum + uncounted, 0)).toBe(20)
    const statuses = await statusesOf(300, () => request(token, 'GET', '/nowhere'), bindings)
    expect(statuses).toEqual({ 404: 278, 429: 22 })
  })

  it('leaves an isolate the rest of the window and no second allowance', async () => {
    const { get, state, token, window } = await breakable()
    state.fails = false
    await window(hashToken(token), requests(290))
    expect((await get()).headers.get('ratelimit')).toMatch(/r=9;/)
    state.fails = true
    const responses = await Promise.all(Array.from({ length: 20 }, get))
    expect(responses.filter(({ status }) => status === 404)).toHaveLength(9)
  })
})
