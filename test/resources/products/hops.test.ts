import { env } from 'cloudflare:workers'
import { expect, it, onTestFinished, vi } from 'vitest'
import { app } from '../../../src/app.ts'
import { mintToken, request } from '../../support/app.ts'
import { type Hop, measureHops } from '../../support/hops.ts'
import { moveTime } from '../../support/time.ts'
import { get, MINUTE_MS, mintShop, type Shop, search } from './support.ts'

async function hopsOf(shop: Shop, path: string, onResponse = () => {}) {
  const token = await mintToken(shop.id)
  const fetch: typeof app.fetch = async (...input) => {
    const response = await app.fetch(...input)
    onResponse()
    return response
  }
  const { response, hops } = await measureHops(request(token, 'GET', path), env, { fetch })
  expect(response.status).toBe(200)
  return hops
}

function summaryOf(hops: Hop[]) {
  return { depth: Math.max(...hops.map(({ depth }) => depth)), names: hops.map(({ name }) => name).sort() }
}

/** Before each call to the outside waits for what the function returns. */
function holdCalls(hold: () => Promise<void>): void {
  const { fetch } = globalThis
  const held = vi.spyOn(globalThis, 'fetch').mockImplementation((...input) => hold().then(() => fetch(...input)))
  onTestFinished(() => held.mockRestore())
}

const WARM = ['CACHE.getWithMetadata', 'CACHE.getWithMetadata', 'DB.batch', 'RATE_LIMITER.admit']

it('network waits search has two with both suppliers cached, fresh or stale', async () => {
  const shop = await mintShop({ home: 'DB' })
  await search(shop, 'PC61')
  // Past the minute of the isolate's own cache.
  moveTime(2 * MINUTE_MS)
  expect(summaryOf(await hopsOf(shop, '/products/search?q=PC61'))).toEqual({ depth: 2, names: WARM })
  moveTime(10 * MINUTE_MS)
  // Held until the response; turns of the event loop, unlike time, are as slow as the machine.
  let hasResponded = false
  holdCalls(async () => {
    for (let turns = 0; turns < 1_000 && !hasResponded; turns++) await scheduler.wait(1)
  })
  const hops = await hopsOf(shop, '/products/search?q=PC61', () => {
    hasResponded = true
  })
  expect(summaryOf(hops)).toEqual({ depth: 2, names: WARM })
})

it('network waits search has three when both suppliers must be called, concurrently', async () => {
  const shop = await mintShop({ home: 'DB' })
  // Neither ends before the other begins, so that depth counts what waits for what.
  const both = Promise.withResolvers<void>()
  let calls = 0
  holdCalls(() => {
    calls += 1
    if (calls === 2) both.resolve()
    return both.promise
  })
  const hops = await hopsOf(shop, '/products/search?q=PC61')
  // One supplier's result may be written to the cache, which is not awaited, before the other has responded.
  const waits = summaryOf(hops.filter(({ name }) => name !== 'CACHE.put'))
  expect(waits).toEqual({ depth: 3, names: [...WARM, 'fetch', 'fetch'].sort() })
})

it('network waits product info has two when cached', async () => {
  const shop = await mintShop({ home: 'DB' })
  await get(shop, '/products/supplier_b?styleId=1')
  moveTime(2 * MINUTE_MS)
  expect(summaryOf(await hopsOf(shop, '/products/supplier_b?styleId=1'))).toEqual({
    depth: 2,
    names: ['CACHE.getWithMetadata', 'DB.batch', 'RATE_LIMITER.admit'],
  })
})
