import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { RateLimiter } from '../../src/rate-limit/limiter.ts'
import { DATABASE_LIMIT_MS, databaseResetAt, LIMIT, WINDOW_MS, type Window } from '../../src/rate-limit/window.ts'

/** More than a call ever leases ahead. */
const AHEAD = { waiting: 0, wanted: LIMIT, databaseMs: 0 }

/** One waiting request, after others that used database time. */
const requestAfter = (databaseMs: number) => ({ waiting: 1, wanted: 1, databaseMs })

/** A limiter that no other test uses. */
function mintLimiter(): DurableObjectStub<RateLimiter> {
  return env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(crypto.randomUUID()))
}

/** Ends the object at once, as a crash or a deploy does; the old stub is then of no use. */
async function crash({ id }: DurableObjectStub<RateLimiter>): Promise<DurableObjectStub<RateLimiter>> {
  await abortAllDurableObjects()
  return env.RATE_LIMITER.get(id)
}

/** The permits of so many calls together, made inside of the object. */
async function acquire(limiter: DurableObjectStub<RateLimiter>, calls: number): Promise<number> {
  return runInDurableObject(limiter, (object) =>
    Array.from({ length: calls }, () => object.acquire(AHEAD).permits).reduce((sum, permits) => sum + permits, 0),
  )
}

afterEach(() => {
  vi.useRealTimers()
})

describe('the limiter', () => {
  it('leases 300 permits to 200 concurrent calls', async () => {
    const limiter = mintLimiter()
    const leases = await Promise.all(Array.from({ length: 200 }, () => limiter.acquire(AHEAD)))
    expect(leases.reduce((sum, { permits }) => sum + permits, 0)).toBe(LIMIT)
  })

  it('counts each token separately', async () => {
    await acquire(mintLimiter(), LIMIT)
    expect(await mintLimiter().acquire(AHEAD)).toMatchObject({ permits: 10, remaining: LIMIT - 10 })
  })

  it.each([1, 7, 50, 150])('leases exactly the rest after a crash or an eviction behind %i calls', async (calls) => {
    for (const end of [crash, evictDurableObject]) {
      let limiter = mintLimiter()
      const given = await acquire(limiter, calls)
      limiter = (await end(limiter)) ?? limiter
      expect(await acquire(limiter, LIMIT)).toBe(LIMIT - given)
    }
  })

  it('gives no second allowance after any number of crashes', async () => {
    let limiter = mintLimiter()
    let given = 0
    for (let i = 0; i < 15; i++) {
      given += await acquire(limiter, 11)
      limiter = await crash(limiter)
    }
    expect(given).toBe(LIMIT)
  })

  it('stores what it leases, and writes nothing for a refusal', async () => {
    await runInDurableObject(mintLimiter(), (object, state) => {
      const put = vi.spyOn(state.storage.kv, 'put')
      let given = 0
      for (let left = LIMIT; left > 0; ) {
        const { permits, remaining } = object.acquire(AHEAD)
        given += permits
        left = remaining
        expect(state.storage.kv.get<Window>('window')?.count).toBe(given)
      }
      put.mockClear()
      expect(object.acquire(AHEAD).permits).toBe(0)
      expect(put).not.toHaveBeenCalled()
    })
  })

  it('opens a new window after the old one, in storage too', async () => {
    let limiter = mintLimiter()
    await acquire(limiter, LIMIT)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + WINDOW_MS })
    expect(await limiter.acquire(AHEAD)).toMatchObject({ permits: 10, remaining: LIMIT - 10 })
    limiter = await crash(limiter)
    expect(await acquire(limiter, LIMIT)).toBe(LIMIT - 10)
  })

  it('keeps the end of its window through a crash', async () => {
    let limiter = mintLimiter()
    const { resetAt } = await limiter.acquire(AHEAD)
    limiter = await crash(limiter)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5_000 })
    expect((await limiter.acquire(AHEAD)).resetAt).toBe(resetAt)
  })

  it('counts database time for all isolates together, and through crashes', async () => {
    let limiter = mintLimiter()
    for (const left of [10_000, 5_000]) {
      expect(await limiter.acquire(requestAfter(5_000))).toMatchObject({ permits: 1, databaseMs: left })
      limiter = await crash(limiter)
    }
    const refused = await limiter.acquire(requestAfter(20_000))
    expect(refused).toMatchObject({ permits: 0, remaining: LIMIT - 2, databaseMs: -15_000 })
    limiter = await crash(limiter)
    expect(await limiter.acquire(requestAfter(0))).toEqual(refused)

    // The debt takes another window.
    vi.useFakeTimers({ toFake: ['Date'], now: refused.resetAt })
    expect((await limiter.acquire(requestAfter(0))).permits).toBe(0)
    vi.setSystemTime(databaseResetAt(refused))
    expect(await limiter.acquire(requestAfter(0))).toMatchObject({ permits: 1, databaseMs: DATABASE_LIMIT_MS })
  })

  it('writes once for a call, even for one that only reports database time', async () => {
    await runInDurableObject(mintLimiter(), (object, state) => {
      const put = vi.spyOn(state.storage.kv, 'put')
      object.acquire({ waiting: 3, wanted: 3, databaseMs: 12 })
      expect(put).toHaveBeenCalledTimes(1)
      object.acquire({ waiting: 0, wanted: 0, databaseMs: 20_000 })
      expect(put).toHaveBeenCalledTimes(2)
      expect(state.storage.kv.get<Window>('window')).toMatchObject({ count: 3, databaseMs: 20_012 })
      object.acquire(requestAfter(0))
      expect(put).toHaveBeenCalledTimes(2)
    })
  })
})
