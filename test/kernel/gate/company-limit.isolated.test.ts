import { abortAllDurableObjects, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { type CompanyLimiter, CompanyShare } from '../../../src/kernel/gate/limiter.ts'
import {
  COMPANY_LIMIT_MS,
  DATABASE_LIMIT_MS,
  describeLimits,
  IN_FLIGHT,
  LIMIT,
  refusalOf,
  WINDOW_MS,
  type Window,
} from '../../../src/kernel/gate/limits.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { adminCall } from '../../support/admin.ts'
import { mintCompany, mintToken, request, send } from '../../support/app.ts'
import { moveTime, stopTime } from '../../support/time.ts'
import { watchCalls } from '../../support/wrap-bindings.ts'
import { memory, statusesOf, timedDatabase, tokenObject, withLimiter } from './support.ts'

const COMPANIES = env.COMPANY_LIMITER as unknown as DurableObjectNamespace<CompanyLimiter>

const companyObject = (id: number) => COMPANIES.get(COMPANIES.idFromName(String(id)))
const leftOf = async (id: number) => COMPANY_LIMIT_MS - (await companyObject(id).report(0)).databaseMs

const get = (token: string, bindings?: Env) =>
  send(request(token, 'GET', '/clients'), bindings === undefined ? {} : { env: bindings })

const companyPart = (headers: Headers) => {
  const [, left, seconds] = /"company";r=(\d+);t=(\d+)$/.exec(headers.get('ratelimit') ?? '') ?? []
  return { left: Number(left), seconds: Number(seconds) }
}

/** Uses database time of a token, as its isolates report it. */
const use = (token: string, databaseMs: number) => tokenObject(token).report({ databaseMs })

/** A company with so many tokens, each of which has been used. */
async function open(tokens: number) {
  const { id, token } = await mintCompany()
  const more = await Promise.all(Array.from({ length: tokens - 1 }, () => mintToken(id)))
  const all = [token, ...more]
  for (const each of all) expect((await get(each)).status).toBe(200)
  return { id, tokens: all }
}

/** Uses up the time of a company with three of its tokens or more, none of which uses up its own. */
async function useUp({ id, tokens }: Awaited<ReturnType<typeof open>>, databaseMs = COMPANY_LIMIT_MS + 500) {
  await Promise.all(tokens.map((token) => use(token, databaseMs / tokens.length)))
  const left = COMPANY_LIMIT_MS - databaseMs
  // Some tokens alone use up the limit: all of them must have reported.
  await vi.waitUntil(async () => (await leftOf(id)) <= left, { timeout: 20_000, interval: 50 })
  // Each object learns of it with the next time that it reports.
  const isTold = async (token: string) => {
    const { allowed, company } = await use(token, 1)
    return !allowed && company !== undefined && company.databaseMs >= databaseMs
  }
  await Promise.all(tokens.map((token) => vi.waitUntil(() => isTold(token), { timeout: 20_000, interval: 200 })))
}

await mintCompany()

beforeEach(stopTime)

describe('the database time of a company', () => {
  it('is there again when the Retry-After has passed, for tokens that sent nothing meanwhile', async () => {
    const company = await open(3)
    await useUp(company)
    const [first = ''] = company.tokens
    const wait = Number((await get(first)).headers.get('retry-after'))
    moveTime(wait * 1_000 - 1_500)
    expect((await get(first)).status).toBe(429)
    moveTime(1_500)
    for (const token of company.tokens) {
      const { status, headers } = await get(token)
      expect(status).toBe(200)
      const { left } = companyPart(headers)
      // The debt of the window before.
      expect(left).toBeLessThanOrEqual(COMPANY_LIMIT_MS - 400)
      expect(left).toBeGreaterThan(COMPANY_LIMIT_MS - 2_000)
    }
  })

  it('waits for as many windows as it is overused', async () => {
    const company = await open(8)
    await useUp(company, 2 * COMPANY_LIMIT_MS + 1_000)
    const [first = ''] = company.tokens
    const wait = Number((await get(first)).headers.get('retry-after'))
    expect(wait).toBeGreaterThan(110)
    expect(wait).toBeLessThanOrEqual(120)
    moveTime(wait * 1_000)
    expect((await get(first)).status).toBe(200)
  })

  it('is not used by the administration', async () => {
    const { id } = await mintCompany()
    for (const path of [`/companies/${id}`, `/companies/${id}/usage`, `/companies/${id}/tokens`]) {
      await adminCall('GET', path)
    }
    expect(await leftOf(id)).toBe(COMPANY_LIMIT_MS)
  })

  it('survives a crash but for its last 1.5 s, and is separate for each company', async () => {
    const [one, other] = [await mintCompany(), await mintCompany()]
    await companyObject(one.id).report(30_000)
    await companyObject(one.id).report(1_000)
    await abortAllDurableObjects()
    const left = await leftOf(one.id)
    expect(left).toBeGreaterThanOrEqual(9_000)
    expect(left).toBeLessThanOrEqual(10_000)
    expect(await leftOf(other.id)).toBe(COMPANY_LIMIT_MS)
  })
})

describe('a company whose database time is used up', () => {
  let company: Awaited<ReturnType<typeof open>>

  let usedUpAt: number

  beforeAll(async () => {
    stopTime()
    usedUpAt = Date.now()
    company = await open(3)
    await useUp(company)
  })
  // However slow the machine: its window does not end meanwhile.
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: usedUpAt })
  })

  it('is shared by its tokens: all are refused when it is used up, and no token of another company is', async () => {
    const other = await open(1)
    for (const token of company.tokens) {
      const { status, headers, body } = await get(token)
      const wait = Number(headers.get('retry-after'))
      expect({ status, body }).toMatchObject({
        status: 429,
        body: { error: { code: 'rate_limited', details: { retry_after: wait } } },
      })
      expect(body.error.message).toBe(
        `All tokens of the company may use 40 seconds of database time a minute: retry after ${wait} seconds`,
      )
      expect(wait).toBeGreaterThan(50)
      expect(wait).toBeLessThanOrEqual(60)
      expect(companyPart(headers)).toEqual({ left: 0, seconds: wait })
      // The token's own time is not used up.
      expect(headers.get('ratelimit')).toMatch(/"database";r=1\d{3};/)
    }
    const [token = ''] = other.tokens
    const { status, headers } = await get(token)
    expect(status).toBe(200)
    expect(companyPart(headers).left).toBeGreaterThan(COMPANY_LIMIT_MS - 1_000)
  })

  it('refuses without a call, and counts no refused request against the token', async () => {
    const [first = ''] = company.tokens
    const { calls, env: watched } = watchCalls(env)
    expect((await get(first, watched)).status).toBe(429)
    calls.length = 0
    const { status, headers } = await get(first, watched)
    expect([status, calls]).toEqual([429, []])
    expect(headers.get('ratelimit')).toContain(`"default";r=${LIMIT - 1};`)
  })

  it('is known to a token that is new, as soon as it has used some', async () => {
    const token = await mintToken(company.id)
    expect((await get(token)).status).toBe(200)
    await vi.waitUntil(async () => !(await use(token, 1)).allowed, { timeout: 20_000, interval: 200 })
    expect((await get(token)).status).toBe(429)
  })
})

describe('the refusal', () => {
  const now = Date.UTC(2026, 0, 31)
  const windowOf = (remaining: number, leftMs: number, resetInMs: number): Window => ({
    startedAt: now + resetInMs - WINDOW_MS,
    count: LIMIT - remaining,
    databaseMs: DATABASE_LIMIT_MS - leftMs,
  })
  const companyOf = (leftMs: number, resetInMs: number): Window => ({
    startedAt: now + resetInMs - WINDOW_MS,
    count: 0,
    databaseMs: COMPANY_LIMIT_MS - leftMs,
  })
  const decision = (remaining: number, leftMs: number, company?: Window) =>
    refusalOf({ window: windowOf(remaining, leftMs, 20_000), company }, now)

  it('is that of the limit which refuses for longest', () => {
    const messages = [
      decision(0, 1),
      decision(9, 0),
      decision(9, 1, companyOf(0, 30_000)),
      decision(9, 0, companyOf(0, 30_000)),
      decision(9, -DATABASE_LIMIT_MS, companyOf(0, 30_000)),
      decision(0, 1, companyOf(0, 10_000)),
      // Its reset has passed.
      decision(0, 1, companyOf(0, 0)),
    ].map(({ message }) => message.replace(/ may .*(requests|database time) a minute: retry/, ' $1'))
    expect(messages).toEqual([
      'The token requests after 20 seconds',
      'The token database time after 20 seconds',
      'All tokens of the company database time after 30 seconds',
      'All tokens of the company database time after 30 seconds',
      'The token database time after 80 seconds',
      'The token requests after 20 seconds',
      'The token requests after 20 seconds',
    ])
  })

  it('and the rest of the company end by time alone in the headers', () => {
    const window = windowOf(1, 2, 1_000)
    const company = companyOf(-10_000, 5_000)
    const describe = (ms: number) =>
      describeLimits({ window, company }, now + ms)
        .split(', ')
        .at(-1)
    expect(describe(0)).toBe('"company";r=0;t=5')
    expect(describe(5_000)).toBe('"company";r=30000;t=60')
    expect(describe(65_000)).toBe('"company";r=40000;t=60')
    expect(describeLimits({ window }, now)).toMatch(/"company";r=40000;t=60$/)
  })
})

it('the exchange with the object of the company is not waited for by any request, and leaves the limits of the token as they are', async () => {
  const { token } = await mintCompany()
  await runInDurableObject(tokenObject(token), async (object) => {
    const hang = { report: () => new Promise(() => undefined) }
    const objects = { idFromName: (name: string) => name, get: () => hang }
    Object.assign(object, { company: new CompanyShare(objects as unknown as Env['COMPANY_LIMITER']) })
  })
  const request = { databaseMs: 10, isWrite: false }
  const admit = () => tokenObject(token).admit(hashToken(token), request)
  const all = await Promise.all(Array.from({ length: 330 }, admit))
  expect(all.filter((each) => each.kind === 'admitted' && each.decision.allowed)).toHaveLength(LIMIT)
  expect(await use(token, DATABASE_LIMIT_MS)).toMatchObject({ allowed: false })
})

it('the queue for the database is one for all tokens of a company in an isolate', async () => {
  const { id, token } = await mintCompany({ home: 'DB' })
  const tokens = [token, ...(await Promise.all(Array.from({ length: 9 }, () => mintToken(id))))]
  const released = Promise.withResolvers<void>()
  const { DB, seen } = timedDatabase(1, () => released.promise)
  const bindings: Env = { ...withLimiter(memory()).bindings, DB }
  const all = tokens.map((each) => statusesOf(4, () => request(each, 'GET', '/clients/1'), bindings))
  await vi.waitUntil(() => seen.inFlight === IN_FLIGHT, { timeout: 20_000 })
  const other = await mintCompany({ home: 'DB' })
  const ofOther = statusesOf(1, () => request(other.token, 'GET', '/clients/1'), bindings)
  // That of another company does not wait for them.
  await vi.waitUntil(() => seen.inFlight === IN_FLIGHT + 1, { timeout: 20_000 })
  released.resolve()
  expect(await ofOther).toEqual({ 404: 1 })
  expect(await Promise.all(all)).toEqual(tokens.map(() => ({ 404: 4 })))
  expect(seen.mostInFlight).toBe(IN_FLIGHT + 1)
})
