import { describe, expect, it, vi } from 'vitest'
import type { ClientOptions } from '../../src/client/index.ts'
import { readBudget } from '../../src/client/rate-budget.ts'
import { clientWith } from './support.ts'

const POLICY = '"default";q=3;w=60, "database";q=15000;w=60;qu="milliseconds"'
const COMPANY_POLICY = `${POLICY}, "company";q=40000;w=60;qu="milliseconds"`
const START = Date.UTC(2026, 0, 31)

describe('the headers', () => {
  it('are read as allowances and the end of the window', () => {
    expect(readBudget(headers('"default";r=2;t=30, "database";r=14990;t=90'), START)).toEqual({
      requests: { limit: 3, remaining: 2, resetsAt: START + 30_000 },
      databaseMs: { limit: 15_000, remaining: 14_990, resetsAt: START + 90_000 },
      companyMs: null,
      windowMs: 60_000,
    })
  })

  it('tell of the company where the service limits it, and may name policies that are not known', () => {
    const policy = `${COMPANY_POLICY}, "later";q=7;w=1;qu="x"`
    const limit = '"later";r=1;t=1, "default";r=2;t=30, "database";r=9;t=90, "company";r=0;t=120'
    expect(readBudget(new Headers({ 'ratelimit-policy': policy, ratelimit: limit }), START)).toMatchObject({
      requests: { remaining: 2 },
      companyMs: { limit: 40_000, remaining: 0, resetsAt: START + 120_000 },
    })
  })

  it.each(['', '"default";r=2;t=30', '"default";r=x;t=30, "database";r=1;t=1', 'limit=3, remaining=2'])(
    '%j is no budget',
    (limit) => {
      expect(readBudget(headers(limit), START)).toBeNull()
    },
  )
})

describe('the budget', () => {
  it('is null before the first response, then what the last responses told less the requests since', async () => {
    const { api, respond, ask } = openLimited()
    expect(api.readRateBudget()).toBeNull()
    await ask('"default";r=2;t=60, "database";r=14000;t=60')
    expect(api.readRateBudget()).toEqual({
      requests: { limit: 3, remaining: 2, resetsAt: START + 60_000 },
      databaseMs: { limit: 15_000, remaining: 14_000, resetsAt: START + 60_000 },
      companyMs: null,
    })
    const second = api.clients.list()
    expect(api.readRateBudget()?.requests.remaining).toBe(1)
    respond('"default";r=0;t=60, "database";r=13000;t=60')
    await second
    expect(api.readRateBudget()).toMatchObject({ requests: { remaining: 0 }, databaseMs: { remaining: 13_000 } })
  })

  it('does not grow within a window by a response that comes late', async () => {
    const { api, respond } = openLimited()
    const [late, early] = [api.clients.list(), api.clients.list()]
    respond('"default";r=1;t=60, "database";r=9;t=60', 1)
    await early
    const known = api.readRateBudget()?.requests.remaining
    respond('"default";r=2;t=60, "database";r=9;t=60')
    await late
    expect(api.readRateBudget()?.requests.remaining).toBe(known)
  })

  it('is not replaced by what was left of a window that ended, in the late response of a long poll', async () => {
    const { api, respond, ask } = openLimited()
    const poll = api.changes.list({ wait: 25 })
    vi.setSystemTime(START + 20_000)
    await ask('"default";r=1;t=60, "database";r=9;t=60', 1)
    const known = api.readRateBudget()?.requests
    respond('"default";r=200;t=1, "database";r=9;t=60')
    await poll
    expect(api.readRateBudget()?.requests).toEqual(known)
  })

  it('is replaced by the window of the API where only this client assumed that one began', async () => {
    const { api, respond, ask } = openLimited()
    await ask('"default";r=2;t=60, "database";r=9;t=60')
    vi.setSystemTime(START + 60_000)
    const second = api.clients.list()
    expect(api.readRateBudget()?.requests).toMatchObject({ remaining: 2, resetsAt: START + 120_000 })
    respond('"default";r=0;t=40, "database";r=9;t=60')
    await second
    expect(api.readRateBudget()?.requests).toMatchObject({ remaining: 0, resetsAt: START + 100_000 })
  })

  it('counts requests in flight that a response may not have counted', async () => {
    const { api, respond } = openLimited()
    const [first] = [api.clients.list(), api.clients.list()]
    respond('"default";r=2;t=60, "database";r=9;t=60')
    await first
    expect(api.readRateBudget()?.requests.remaining).toBe(1)
  })
})

describe('a batch in flight', () => {
  it('counts as all of its operations, until its response', async () => {
    const { api, respond, ask } = openLimited()
    const operation = { method: 'POST', path: '/clients', body: { company_name: 'Oak' } } as const
    const [first, batch] = [api.clients.list(), api.batch([operation, operation])]
    respond('"default";r=2;t=60, "database";r=9;t=60')
    await first
    expect(api.readRateBudget()?.requests.remaining).toBe(0)
    respond('"default";r=0;t=60, "database";r=9;t=60')
    await batch
    vi.setSystemTime(START + 60_000)
    await ask('"default";r=2;t=40, "database";r=9;t=60')
    expect(api.readRateBudget()?.requests.remaining).toBe(2)
  })
})

describe('with pace', () => {
  it('a request beyond the limit waits for the next window, and no other does', async () => {
    const { api, sentAt, answer } = openLimited({ pace: true })
    answer.current = simulateLimit(3)
    for (let call = 0; call < 8; call += 1) await api.clients.list()
    expect(sentAt.map((time) => time - START)).toEqual([0, 0, 0, 60_000, 60_000, 60_000, 120_000, 120_000])
  })

  it('concurrent requests stay within the limit too', async () => {
    const { api, sentAt, answer } = openLimited({ pace: true })
    answer.current = simulateLimit(3)
    await api.clients.list()
    await Promise.all(Array.from({ length: 7 }, () => api.clients.list()))
    const counts = [0, 60_000, 120_000].map((time) => sentAt.filter((at) => at === START + time).length)
    expect(counts).toEqual([3, 3, 2])
  })

  it('a batch waits until all of its operations fit', async () => {
    const { api, sentAt, answer } = openLimited({ pace: true })
    answer.current = () => '"default";r=1;t=60, "database";r=15000;t=60'
    const operation = { method: 'POST', path: '/clients', body: { company_name: 'Oak' } } as const
    await api.clients.list()
    await api.batch([operation])
    await api.batch([operation, operation])
    expect(sentAt).toEqual([START, START, START + 60_000])
  })

  it.each([
    ['the token', '"database";r=0;t=120', 120_000],
    ["the token's company", '"database";r=9000;t=60, "company";r=0;t=180', 180_000],
  ])('a request waits until there is database time of %s again', async (_, limit, waitMs) => {
    const { api, sentAt, answer } = openLimited({ pace: true })
    answer.current = () => `"default";r=200;t=60, ${limit}`
    await api.clients.list()
    await api.clients.list()
    expect(sentAt).toEqual([START, START + waitMs])
  })

  it('a clock that is set back delays no request that fits', async () => {
    const { api, sentAt, answer } = openLimited({ pace: true })
    answer.current = () => '"default";r=0;t=2, "database";r=15000;t=60'
    await api.clients.list()
    vi.setSystemTime(START - 3_600_000)
    await api.clients.list()
    expect(sentAt[1]).toBeLessThanOrEqual(START - 3_600_000 + 60_000)
  })

  it('without it nothing waits', async () => {
    const { api, sentAt, answer } = openLimited()
    answer.current = simulateLimit(3)
    for (let call = 0; call < 5; call += 1) await api.clients.list()
    expect(sentAt).toEqual(Array(5).fill(START))
  })
})

/** A client whose time is simulated: sleeping moves the clock. */
function openLimited(options: Partial<ClientOptions> = {}) {
  vi.useFakeTimers({ toFake: ['Date'], now: START })
  const pending: ((limit: string) => void)[] = []
  const sentAt: number[] = []
  const answer: { current: (() => string) | null } = { current: null }
  const toResponse = (limit: string) =>
    Response.json({ data: [], pagination: { next_cursor: null }, results: [] }, { headers: headers(limit) })
  const fetch = async () => {
    sentAt.push(Date.now())
    if (answer.current) return toResponse(answer.current())
    return new Promise<Response>((resolve) => pending.push((limit) => resolve(toResponse(limit))))
  }
  const sleep = async (delayMs: number) => {
    const until = Date.now() + delayMs
    // Other requests begin to wait before time passes.
    await new Promise((resolve) => setTimeout(resolve, 1))
    if (Date.now() < until) vi.setSystemTime(until)
  }
  const api = clientWith(fetch, { sleep, ...options })
  const respond = (limit: string, index = 0) => pending.splice(index, 1)[0]?.(limit)
  const ask = async (limit: string, index = 0) => {
    const sent = api.clients.list()
    respond(limit, index)
    await sent
  }
  return { api, sentAt, answer, respond, ask }
}

/** The limit header of an API that counts the requests of a fixed window. */
function simulateLimit(limit: number): () => string {
  let resetsAt = 0
  let count = 0
  return () => {
    const now = Date.now()
    if (now >= resetsAt) count = 0
    if (now >= resetsAt) resetsAt = now + 60_000
    count += 1
    return `"default";r=${limit - count};t=${(resetsAt - now) / 1000}, "database";r=15000;t=60`
  }
}

function headers(limit: string): Headers {
  const policy = limit.includes('"company"') ? COMPANY_POLICY : POLICY
  return new Headers({ 'ratelimit-policy': policy, ratelimit: limit })
}
