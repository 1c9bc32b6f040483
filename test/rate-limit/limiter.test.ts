import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { RateLimiter } from '../../src/rate-limit/limiter.ts'
import { LIMIT, WINDOW_MS, type Window } from '../../src/rate-limit/window.ts'

/** A limiter that no other test meets. */
function mintLimiter(): DurableObjectStub<RateLimiter> {
  return env.RATE_LIMITER.get(env.RATE_LIMITER.idFromName(crypto.randomUUID()))
}

/** Ends the object at once, as a crash or a deploy does; the old stub is then of no use. */
async function crash({ id }: DurableObjectStub<RateLimiter>): Promise<DurableObjectStub<RateLimiter>> {
  await abortAllDurableObjects()
  return env.RATE_LIMITER.get(id)
}

/** Requests, without the way to the object. */
async function take(limiter: DurableObjectStub<RateLimiter>, times: number) {
  return runInDurableObject(limiter, (object) => Array.from({ length: times }, () => object.take()))
}

function stored(limiter: DurableObjectStub<RateLimiter>) {
  return runInDurableObject(limiter, (_, state) => state.storage.kv.get<Window>('window'))
}

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

describe('the limiter', () => {
  it('allows 300 of 400 requests that come at once', async () => {
    const limiter = mintLimiter()
    const verdicts = await Promise.all(Array.from({ length: 400 }, () => limiter.take()))
    expect(verdicts.filter(({ allowed }) => allowed)).toHaveLength(LIMIT)
    expect(new Set(verdicts.slice(0, 300).map(({ remaining }) => remaining)).size).toBe(300)
  })

  it('knows no other token', async () => {
    await take(mintLimiter(), LIMIT)
    expect((await mintLimiter().take()).remaining).toBe(LIMIT - 1)
  })

  it.each([1, 29, 30, 31, 150, 299, 300])('gives no second allowance after a crash at %i requests', async (count) => {
    let limiter = mintLimiter()
    await take(limiter, count)
    limiter = await crash(limiter)
    const left = (await take(limiter, LIMIT + 10)).filter(({ allowed }) => allowed).length
    expect(left).toBeLessThanOrEqual(LIMIT - count)
    // What a crash may cost is a lease.
    expect(left).toBeGreaterThanOrEqual(LIMIT - count - 10)
  })

  it('gives no second allowance after any number of crashes', async () => {
    let limiter = mintLimiter()
    let allowed = 0
    for (let i = 0; i < 15; i++) {
      allowed += (await take(limiter, 37)).filter((verdict) => verdict.allowed).length
      limiter = await crash(limiter)
    }
    expect(allowed).toBeLessThanOrEqual(LIMIT)
  })

  it('holds in storage, at every moment, no less than it has allowed', async () => {
    const limiter = mintLimiter()
    await runInDurableObject(limiter, (object, state) => {
      for (let count = 1; count <= LIMIT + 5; count++) {
        object.take()
        expect(state.storage.kv.get<Window>('window')?.count).toBeGreaterThanOrEqual(Math.min(count, LIMIT))
      }
    })
  })

  it('writes to storage far less often than it is asked', async () => {
    const limiter = mintLimiter()
    await runInDurableObject(limiter, (object, state) => {
      const put = vi.spyOn(state.storage.kv, 'put')
      for (let i = 0; i < 400; i++) object.take()
      expect(put.mock.calls.length).toBeLessThanOrEqual(LIMIT / 10)
      expect(put.mock.calls.length).toBeGreaterThan(0)
    })
  })

  it('is exact after a pause, however the object fares then', async () => {
    const limiter = mintLimiter()
    await take(limiter, 7)
    expect(await stored(limiter)).toMatchObject({ count: 10 })
    await vi.waitFor(async () => expect(await stored(limiter)).toMatchObject({ count: 7 }), 8_000)
    await evictDurableObject(limiter)
    expect((await limiter.take()).remaining).toBe(LIMIT - 8)
  }, 10_000)

  it('opens a new window after the old one, in storage too', async () => {
    let limiter = mintLimiter()
    await take(limiter, LIMIT + 1)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + WINDOW_MS })
    expect(await limiter.take()).toMatchObject({ allowed: true, remaining: LIMIT - 1 })
    limiter = await crash(limiter)
    const { remaining } = await limiter.take()
    expect(remaining).toBeLessThan(LIMIT - 1)
    expect(remaining).toBeGreaterThanOrEqual(LIMIT - 11)
  })

  it('keeps the end of the window that it was asked in through a crash', async () => {
    let limiter = mintLimiter()
    const { resetAt } = await limiter.take()
    limiter = await crash(limiter)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5_000 })
    expect((await limiter.take()).resetAt).toBe(resetAt)
  })
})
