import { exports } from 'cloudflare:workers'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { FAILURES_TO_OPEN, OPEN_MS } from '../../src/products/supplier-cache.ts'
import { migrate, request } from '../support/app.ts'
import { linesOf } from '../support/log.ts'
import { get, MINUTE_MS, mintShop, type Shop, search, travel, untilCalls, withBinding } from './support.ts'

beforeAll(migrate)
afterEach(() => {
  vi.useRealTimers()
})

const stateOfB = async (shop: Shop, q: string) => (await search(shop, q, { include: 'supplier_b' })).sources.supplier_b

describe('equal lookups in flight', () => {
  it('are one call, whoever asks: searches and product info', async () => {
    const shop = await mintShop()
    await shop.a.spoil({ delayMs: 400 })
    const answers = await Promise.all([
      ...Array.from({ length: 8 }, () => search(shop, 'PC61', { include: 'supplier_a' })),
      search(shop, 'a pc61 in navy', { include: 'supplier_a' }),
      get(shop, '/products/supplier_a?style=pc61').then(({ body }) => ({
        supplier_a: { count: body.products.length },
      })),
    ])
    expect(answers.map((answer) => answer.supplier_a.count)).toEqual(answers.map(() => 60))
    expect(await shop.a.calls()).toHaveLength(1)
  })

  it('are one call that fails for all', async () => {
    const shop = await mintShop()
    await shop.a.spoil({ delayMs: 300, status: 500, times: -1 })
    const states = await Promise.all(
      Array.from({ length: 4 }, async () => (await search(shop, 'PC61', { include: 'supplier_a' })).sources.supplier_a),
    )
    expect(states).toEqual(['failed', 'failed', 'failed', 'failed'])
    expect(await shop.a.calls()).toHaveLength(1)
  })

  it('of two companies are two calls', async () => {
    const [one, two] = [await mintShop(), await mintShop()]
    await Promise.all([search(one, 'PC61'), search(two, 'PC61')])
    expect([(await one.a.calls()).length, (await two.a.calls()).length]).toEqual([1, 1])
  })

  it('are one call also for who began to look before it ended and asks after', async () => {
    const shop = await mintShop()
    let isRead = () => {}
    const reading = new Promise<void>((resolve) => {
      isRead = resolve
    })
    const slowCache = withBinding('CACHE', {
      getWithMetadata: (async () => {
        await reading
        return { value: null, metadata: null, cacheStatus: null }
      }) as unknown as KVNamespace['getWithMetadata'],
    })
    const late = search(shop, 'PC61', { include: 'supplier_a' }, slowCache)
    await search(shop, 'PC61', { include: 'supplier_a' })
    isRead()
    expect((await late).supplier_a.count).toBe(60)
    expect(await shop.a.calls()).toHaveLength(1)
  })

  it('are answered though the request that called has gone', async () => {
    const shop = await mintShop()
    await shop.a.spoil({ delayMs: 700 })
    const gone = new AbortController()
    const sent = new Request(request(shop.token, 'GET', '/products/search?q=PC61&include=supplier_a'), {
      signal: gone.signal,
    })
    const first = exports.default.fetch(sent).catch(() => 'aborted')
    await untilCalls(shop.a, 1)
    gone.abort()
    expect((await search(shop, 'PC61', { include: 'supplier_a' })).supplier_a.count).toBe(60)
    expect(await shop.a.calls()).toHaveLength(1)
    await first
  })

  it('outlive the search that gave them up: the next one finds what came late', async () => {
    const shop = await mintShop()
    await shop.a.spoil({ delayMs: 4_600 })
    expect((await search(shop, 'PC61', { include: 'supplier_a' })).sources.supplier_a).toBe('failed')
    expect((await search(shop, 'PC61', { include: 'supplier_a' })).sources.supplier_a).toBe('ok')
    expect(await shop.a.calls()).toHaveLength(1)
  })
})

describe('a sick supplier', () => {
  it('is left alone after repeated failures, then tried again', async () => {
    const shop = await mintShop()
    const rival = await mintShop()
    expect(await stateOfB(shop, 'hoodie')).toBe('ok')
    await shop.b.spoil({ status: 500, times: -1 })
    for (let i = 0; i < FAILURES_TO_OPEN + 3; i++) expect(await stateOfB(shop, `tote ${i}`)).toBe('failed')
    expect(await shop.b.calls()).toHaveLength(1 + FAILURES_TO_OPEN)

    // From the cache or failed, and at once: it would hang now. Neither the other supplier nor another company suffers.
    await shop.b.spoil({ delayMs: 9_000, times: -1 })
    const start = performance.now()
    expect(await stateOfB(shop, 'hoodie')).toBe('ok')
    expect(await stateOfB(shop, 'tote')).toBe('failed')
    expect((await get(shop, '/products/supplier_b?styleId=1')).status).toBe(502)
    expect((await search(shop, 'PC61', { include: 'supplier_a' })).sources.supplier_a).toBe('ok')
    expect(performance.now() - start).toBeLessThan(3_000)
    expect(await stateOfB(rival, 'tote')).toBe('ok')

    // One trial is let through; while it is under way all others are answered at once.
    travel(OPEN_MS)
    await shop.b.spoil({ delayMs: 500, times: -1 })
    const states = await Promise.all(['cap 1', 'cap 2', 'cap 3'].map((q) => stateOfB(shop, q)))
    expect(states.sort()).toEqual(['failed', 'failed', 'ok'])
    await shop.b.spoil()
    expect(await stateOfB(shop, 'cap 4')).toBe('ok')
  })

  it('is told in the log, without what was asked or sent', async () => {
    const shop = await mintShop()
    await shop.b.spoil({ status: 500, body: 'inner secret' })
    const answer = await shop.call('GET', '/products/search?q=quietword&include=supplier_b')
    const lines = linesOf(answer.headers.get('x-request-id'))
    expect(lines).toContainEqual(
      expect.objectContaining({
        event: 'supplier_failed',
        company_id: shop.id,
        reason: 'supplier_unavailable',
        error: 'supplier_b: the response was not understood, HTTP 500',
      }),
    )
    expect(JSON.stringify(lines)).not.toMatch(/quietword|secret|20001/)
  })
})

describe('supplier_b’s calls a minute', () => {
  const left = (count: number) => ({ headers: { 'x-rate-limit-remaining': String(count) }, times: -1 })

  it('when few are left, are not spent on what search has in the cache', async () => {
    const shop = await mintShop()
    await stateOfB(shop, 'hoodie')
    await get(shop, '/products/supplier_b?styleId=1')
    travel(11 * MINUTE_MS)
    await shop.b.spoil(left(5))
    expect(await stateOfB(shop, 'tote')).toBe('ok')
    const calls = (await shop.b.calls()).length
    for (let i = 0; i < 3; i++) expect(await stateOfB(shop, 'hoodie')).toBe('stale')
    await scheduler.wait(100)
    expect(await shop.b.calls()).toHaveLength(calls)
    // Product info still refreshes what is stale.
    expect((await get(shop, '/products/supplier_b?styleId=1')).status).toBe(200)
    await untilCalls(shop.b, calls + 1)
  })

  it('when none is left, are waited for: nobody calls', async () => {
    const shop = await mintShop()
    await shop.b.spoil(left(0))
    expect(await stateOfB(shop, 'hoodie')).toBe('ok')
    expect(await stateOfB(shop, 'tote')).toBe('failed')
    expect((await get(shop, '/products/supplier_b?styleId=1')).status).toBe(502)
    expect(await shop.b.calls()).toHaveLength(1)
    await shop.b.spoil()
    travel(MINUTE_MS)
    expect(await stateOfB(shop, 'tote')).toBe('ok')
  })

  it('when refused, pause as long as the supplier asks', async () => {
    const shop = await mintShop()
    await shop.b.spoil({ status: 429, headers: { 'retry-after': '20' } })
    expect(await stateOfB(shop, 'hoodie')).toBe('failed')
    travel(19_000)
    expect(await stateOfB(shop, 'hoodie')).toBe('failed')
    expect(await shop.b.calls()).toHaveLength(1)
    travel(1_000)
    expect(await stateOfB(shop, 'hoodie')).toBe('ok')
  })
})
