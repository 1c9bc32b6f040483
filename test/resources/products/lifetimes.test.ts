import { createExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { app } from '../../../src/app.ts'
import { OTHER_CREDENTIALS as OTHER_A } from '../../../src/simulators/supplier-a-catalogue.ts'
import { type ApiResponse, request } from '../../support/app.ts'
import { moveTime } from '../../support/time.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { get, HOUR_MS, integrateA, MINUTE_MS, mintShop, type Shop, search, untilCalls } from './support.ts'

const only = { include: 'supplier_a' }

async function stateOf(shop: Shop): Promise<string> {
  return (await search(shop, 'PC61', only)).sources.supplier_a
}

describe('a found style', () => {
  it('is fetched once in ten minutes, then served stale and refreshed after the response', async () => {
    const shop = await mintShop()
    expect(await stateOf(shop)).toBe('ok')
    moveTime(10 * MINUTE_MS - 1_000)
    expect(await stateOf(shop)).toBe('ok')
    expect(await shop.a.calls()).toHaveLength(1)

    moveTime(2_000)
    await shop.a.setFaults({ delayMs: 300 })
    expect(await stateOf(shop)).toBe('stale')
    await untilCalls(shop.a, 2)
    await vi.waitFor(async () => expect(await stateOf(shop)).toBe('ok'), 30_000)
    expect(await shop.a.calls()).toHaveLength(2)
  })

  it('expires after a day', async () => {
    const shop = await mintShop()
    await stateOf(shop)
    await shop.a.setFaults({ status: 500, times: -1 })
    moveTime(24 * HOUR_MS - 5_000)
    expect(await stateOf(shop)).toBe('stale')
    moveTime(6_000)
    expect(await stateOf(shop)).toBe('failed')
  })

  it('is stored in KV under a key that does not reveal the lookup', async () => {
    const shop = await mintShop()
    await search(shop, 'PC61')
    await vi.waitFor(async () => expect((await keysOf(shop)).length).toBe(2), 30_000)
    for (const { name, metadata } of await keysOf(shop)) {
      expect(name).toMatch(/^products\/1\/\d+\/supplier_[ab]\/[0-9a-f]{64}$/)
      expect(metadata).toEqual({ fetchedAt: expect.any(Number), account: expect.any(Number) })
      expect(await env.CACHE.get(name)).toMatch(/^\[/)
    }
    // Past the minute of the isolate's own cache, only KV has it.
    moveTime(2 * MINUTE_MS)
    expect(await stateOf(shop)).toBe('ok')
    expect(await shop.a.calls()).toHaveLength(1)
  })
})

describe('an unknown style', () => {
  it('is cached for an hour, then fetched again', async () => {
    const shop = await mintShop()
    const miss = async () => (await search(shop, 'ZZ999', only)).sources.supplier_a
    expect(await miss()).toBe('ok')
    moveTime(59 * MINUTE_MS)
    expect(await miss()).toBe('ok')
    expect((await get(shop, '/products/supplier_a?style=zz999')).body.products).toEqual([])
    expect(await shop.a.calls()).toHaveLength(1)
    moveTime(2 * MINUTE_MS)
    expect(await miss()).toBe('ok')
    expect(await shop.a.calls()).toHaveLength(2)
  })

  it('lets the next style be tried, at most two in all', async () => {
    const shop = await mintShop()
    const found = await search(shop, 'ZZ999 PC61', only)
    expect(found.supplier_a).toMatchObject({ style: 'PC61', count: 60 })
    const none = await search(shop, 'ZZ998 ZZ997 PC61', only)
    expect(none.supplier_a).toEqual({ style: 'ZZ998', products: [], count: 0, summary: null })
    expect(none.sources.supplier_a).toBe('ok')
    expect(await shop.a.calls()).toHaveLength(4)
  })

  it('is reported as failed, not as unknown, while the supplier fails', async () => {
    const shop = await mintShop()
    await shop.a.setFaults({ status: 500 })
    const result = await search(shop, 'ZZ999 PC61', only)
    expect(result.supplier_a).toEqual({ style: 'ZZ999', products: [], count: 0, summary: null })
    expect(result.sources.supplier_a).toBe('failed')
    expect(await shop.a.calls()).toHaveLength(1)
  })
})

it('a changed integration never serves products of the previous account', async () => {
  const shop = await mintShop()
  const before = await search(shop, 'PC61', only)
  await integrateA(shop, OTHER_A)
  const after = await search(shop, 'PC61', only)
  expect(after.supplier_a.count).toBe(before.supplier_a.count)
  expect(after.supplier_a.summary.price_min).not.toBe(before.supplier_a.summary.price_min)

  // Nor stale, when the new account's supplier fails.
  await integrateA(shop, OTHER_A, '/elsewhere')
  expect(await stateOf(shop)).toBe('failed')
})

it.each<[string, RegExp, () => Promise<unknown>]>([
  ['that fails', /^CACHE\./, () => Promise.reject(new Error('KV is down'))],
  ['that hangs', /^CACHE\./, () => new Promise(() => undefined)],
  ['that holds something else', /^CACHE\.get/, async () => ({ value: { a: 1 }, metadata: {}, cacheStatus: null })],
])('a cache %s only delays the search', async (_, calls, act) => {
  const shop = await mintShop()
  const bindings = wrapBindings(env, (name, work) => (calls.test(name) ? act() : work()))
  // Work after the response, here perhaps without end, is not awaited.
  const response = await app.fetch(
    request(shop.token, 'GET', '/products/search?q=PC61'),
    bindings,
    createExecutionContext(),
  )
  const result = await response.json<ApiResponse['body']>()
  expect(result.sources).toEqual({ local: 'ok', lines: 'ok', supplier_a: 'ok', supplier_b: 'ok' })
  expect(result.supplier_a.count).toBe(60)
})

async function keysOf(shop: Shop) {
  const { keys } = await env.CACHE.list({ prefix: `products/1/${shop.id}/` })
  return keys
}
