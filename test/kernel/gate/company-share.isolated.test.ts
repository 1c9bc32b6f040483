import { beforeEach, expect, it, vi } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { CompanyShare } from '../../../src/kernel/gate/limiter.ts'
import { DATABASE_LIMIT_MS, type Window } from '../../../src/kernel/gate/limits.ts'
import { logLines } from '../../support/log.ts'

// In a file of its own, which has no objects: a timer that one of them sets meanwhile would run outside of it.

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() })
})

/** What one token's object knows, and the reports that it sends. */
function openShare(respond: (databaseMs: number) => Promise<Window>) {
  const sent: { at: number; databaseMs: number }[] = []
  const beganAt = Date.now()
  const report = (databaseMs: number) => {
    sent.push({ at: Date.now() - beganAt, databaseMs })
    return respond(databaseMs)
  }
  const namespace = { idFromName: (name: string) => name, get: () => ({ report }) }
  const share = new CompanyShare(namespace as unknown as Env['COMPANY_LIMITER'])
  const add = (databaseMs: number) => share.add(7, databaseMs, Date.now())
  return { share, sent, add }
}
const rest = async () => ({ databaseMs: 9, count: 0, startedAt: Date.now() })

it('the exchange with the object of the company takes place at most every 2 s, also while the token uses nothing', async () => {
  const { sent, add } = openShare(rest)
  for (let i = 0; i < 130; i++) {
    add(i < 60 ? 1 : 0)
    await vi.advanceTimersByTimeAsync(100)
  }
  expect(sent.map(({ at }) => at)).toEqual([0, 2_000, 4_000, 6_000, 8_000, 10_000, 12_000])
  expect(sent.reduce((sum, { databaseMs }) => sum + databaseMs, 0)).toBe(60)
})

it('the exchange with the object of the company is one at a time, and takes what came meanwhile afterwards', async () => {
  let underWay = 0
  let most = 0
  const { sent, add } = openShare(async () => {
    most = Math.max(most, ++underWay)
    await new Promise((resolve) => setTimeout(resolve, 5_000))
    underWay--
    return rest()
  })
  for (let i = 0; i < 40; i++) {
    add(1)
    await vi.advanceTimersByTimeAsync(100)
  }
  await vi.advanceTimersByTimeAsync(20_000)
  expect(most).toBe(1)
  expect(sent.map(({ databaseMs }) => databaseMs)).toEqual([1, 39])
})

it('the exchange with the object of the company that fails keeps the time for the next one, at most that of one window, and opens only this limit', async () => {
  let fails = true
  const { share, sent, add } = openShare(async () => {
    if (fails) throw new Error('down')
    return rest()
  })
  for (let i = 0; i < 10; i++) {
    add(100)
    await vi.advanceTimersByTimeAsync(1_000)
  }
  expect(share.window).toBeUndefined()
  expect(logLines).toContainEqual(expect.objectContaining({ event: 'company_limiter_failed', company_id: 7 }))
  // Without a new request nothing is repeated.
  const { length } = sent
  await vi.advanceTimersByTimeAsync(60_000)
  expect(sent).toHaveLength(length)
  fails = false
  add(0)
  await vi.advanceTimersByTimeAsync(0)
  expect(sent.at(-1)?.databaseMs).toBe(1_000)
  expect(share.window).toMatchObject({ databaseMs: 9 })
  fails = true
  for (let i = 0; i < 5; i++) {
    add(DATABASE_LIMIT_MS)
    await vi.advanceTimersByTimeAsync(2_000)
  }
  expect(sent.at(-1)?.databaseMs).toBe(DATABASE_LIMIT_MS)
})
