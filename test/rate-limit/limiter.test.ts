import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { RateLimiter } from '../../src/rate-limit/limiter.ts'
import { LIMIT, WINDOW_MS, type Window } from '../../src/rate-limit/window.ts'

/** More than a call is ever given. */
const MANY = LIMIT

/** A limiter that no other test meets. */
function mintLimiter(): DurableObjectStub<RateLimiter> {
  return env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(crypto.randomUUID()))
}

/** Ends the object at once, as a crash or a deploy does; the old stub is then of no use. */
async function crash({ id }: DurableObjectStub<RateLimiter>): Promise<DurableObjectStub<RateLimiter>> {
  await abortAllDurableObjects()
  return env.RATE_LIMITER.get(id)
}

/** What so many calls bring together; without the way to the object. */
async function take(limiter: DurableObjectStub<RateLimiter>, calls: number): Promise<number> {
  return runInDurableObject(limiter, (object) =>
    Array.from({ length: calls }, () => object.take(MANY).units).reduce((sum, units) => sum + units, 0),
  )
}

afterEach(() => {
  vi.useRealTimers()
})

describe('the limiter', () => {
  it('gives out 300 to 200 calls that come at once', async () => {
    const limiter = mintLimiter()
    const grants = await Promise.all(Array.from({ length: 200 }, () => limiter.take(MANY)))
    expect(grants.reduce((sum, { units }) => sum + units, 0)).toBe(LIMIT)
  })

  it('knows no other token', async () => {
    await take(mintLimiter(), LIMIT)
    expect(await mintLimiter().take(MANY)).toMatchObject({ units: 10, remaining: LIMIT - 10 })
  })

  it.each([1, 7, 50, 150])('gives out exactly the rest after a crash or an eviction behind %i calls', async (calls) => {
    for (const end of [crash, evictDurableObject]) {
      let limiter = mintLimiter()
      const given = await take(limiter, calls)
      limiter = (await end(limiter)) ?? limiter
      expect(await take(limiter, LIMIT)).toBe(LIMIT - given)
    }
  })

  it('gives no second allowance after any number of crashes', async () => {
    let limiter = mintLimiter()
    let given = 0
    for (let i = 0; i < 15; i++) {
      given += await take(limiter, 11)
      limiter = await crash(limiter)
    }
    expect(given).toBe(LIMIT)
  })

  it('has stored what it gives out, and writes nothing for a refusal', async () => {
    await runInDurableObject(mintLimiter(), (object, state) => {
      const put = vi.spyOn(state.storage.kv, 'put')
      let given = 0
      for (let left = LIMIT; left > 0; ) {
        const { units, remaining } = object.take(MANY)
        given += units
        left = remaining
        expect(state.storage.kv.get<Window>('window')?.count).toBe(given)
      }
      put.mockClear()
      expect(object.take(MANY).units).toBe(0)
      expect(put).not.toHaveBeenCalled()
    })
  })

  it('opens a new window after the old one, in storage too', async () => {
    let limiter = mintLimiter()
    await take(limiter, LIMIT)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + WINDOW_MS })
    expect(await limiter.take(MANY)).toMatchObject({ units: 10, remaining: LIMIT - 10 })
    limiter = await crash(limiter)
    expect(await take(limiter, LIMIT)).toBe(LIMIT - 10)
  })

  it('keeps the end of the window that it was asked in through a crash', async () => {
    let limiter = mintLimiter()
    const { resetAt } = await limiter.take(MANY)
    limiter = await crash(limiter)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5_000 })
    expect((await limiter.take(MANY)).resetAt).toBe(resetAt)
  })
})
