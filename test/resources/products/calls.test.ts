import { env, exports } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { BUDGET_MS, isolateMemory, SMALL_BODY_BYTES } from '../../../src/kernel/http/isolate.ts'
import { FAILURES_TO_OPEN, OPEN_MS } from '../../../src/resources/products/supplier-cache.ts'
import { request } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { moveTime } from '../../support/time.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { get, mintShop, type Shop, search, untilCalls } from './support.ts'

const stateOfB = async (shop: Shop, q: string) => (await search(shop, q, { include: 'supplier_b' })).sources.supplier_b

describe('concurrent equal lookups', () => {
  it('share one call among searches and product info', async () => {
    const shop = await mintShop()
    await shop.a.setFaults({ delayMs: 400 })
    const results = await Promise.all([
      ...Array.from({ length: 8 }, () => search(shop, 'PC61', { include: 'supplier_a' })),
      search(shop, 'a pc61 in navy', { include: 'supplier_a' }),
      get(shop, '/products/supplier_a?style=pc61').then(({ body }) => ({
        supplier_a: { count: body.products.length },
      })),
    ])
    expect(results.map((result) => result.supplier_a.count)).toEqual(results.map(() => 60))
    expect(await shop.a.calls()).toHaveLength(1)
  })

  it('share one call that fails for all of them', async () => {
    const shop = await mintShop()
    const failure = { status: 500, times: -1 }
    await shop.a.setFaults({ hold: true, ...failure })
    // A search joins the call once it has read the cache and the database.
    const reads: string[] = []
    const counted = wrapBindings(env, (name, work) => work().finally(() => reads.push(name)))
    const searches = Array.from({ length: 4 }, () => search(shop, 'PC61', { include: 'supplier_a' }, counted))
    for (const name of ['CACHE.getWithMetadata', 'DB.batch']) {
      await vi.waitUntil(() => reads.filter((read) => read === name).length === 4, 30_000)
    }
    await shop.a.setFaults(failure)
    const states = (await Promise.all(searches)).map(({ sources }) => sources.supplier_a)
    expect(states).toEqual(['failed', 'failed', 'failed', 'failed'])
    expect(await shop.a.calls()).toHaveLength(1)
  })

  it('make one call for each company', async () => {
    const [one, two] = [await mintShop(), await mintShop()]
    await Promise.all([search(one, 'PC61'), search(two, 'PC61')])
    expect([(await one.a.calls()).length, (await two.a.calls()).length]).toEqual([1, 1])
  })

  it('share a call that ended while the cache was still being read', async () => {
    const shop = await mintShop()
    const reading = Promise.withResolvers<void>()
    const slowCache = wrapBindings(env, async (name, work) => {
      if (name !== 'CACHE.getWithMetadata') return work()
      await reading.promise
      return { value: null, metadata: null, cacheStatus: null }
    })
    const late = search(shop, 'PC61', { include: 'supplier_a' }, slowCache)
    await search(shop, 'PC61', { include: 'supplier_a' })
    reading.resolve()
    expect((await late).supplier_a.count).toBe(60)
    expect(await shop.a.calls()).toHaveLength(1)
  })

  it('succeed although the request that made the call was aborted', async () => {
    const shop = await mintShop()
    await shop.a.setFaults({ hold: true })
    const gone = new AbortController()
    const sent = new Request(request(shop.token, 'GET', '/products/search?q=PC61&include=supplier_a'), {
      signal: gone.signal,
    })
    const first = exports.default.fetch(sent).catch(() => 'aborted')
    await untilCalls(shop.a, 1)
    gone.abort()
    const second = search(shop, 'PC61', { include: 'supplier_a' })
    await shop.a.setFaults()
    expect((await second).supplier_a.count).toBe(60)
    expect(await shop.a.calls()).toHaveLength(1)
    await first
  })

  it('cache a response that arrives after the search has timed out', async () => {
    const shop = await mintShop()
    await shop.a.setFaults({ hold: true })
    expect((await search(shop, 'PC61', { include: 'supplier_a' })).sources.supplier_a).toBe('failed')
    await shop.a.setFaults()
    expect((await search(shop, 'PC61', { include: 'supplier_a' })).sources.supplier_a).toBe('ok')
    expect(await shop.a.calls()).toHaveLength(1)
  })
})

describe('a failing supplier', () => {
  it('is not called while the circuit breaker is open, then tried again', async () => {
    const shop = await mintShop()
    const rival = await mintShop()
    expect(await stateOfB(shop, 'hoodie')).toBe('ok')
    await shop.b.setFaults({ status: 500, times: -1 })
    for (let i = 0; i < FAILURES_TO_OPEN + 3; i++) expect(await stateOfB(shop, `tote ${i}`)).toBe('failed')
    expect(await shop.b.calls()).toHaveLength(1 + FAILURES_TO_OPEN)

    // Nothing calls it now. Neither the other supplier nor another company is affected.
    await shop.b.setFaults({ delayMs: 9_000, times: -1 })
    expect(await stateOfB(shop, 'hoodie')).toBe('ok')
    expect(await stateOfB(shop, 'tote')).toBe('failed')
    expect((await get(shop, '/products/supplier_b?styleId=1')).status).toBe(502)
    expect((await search(shop, 'PC61', { include: 'supplier_a' })).sources.supplier_a).toBe('ok')
    expect(await shop.b.calls()).toHaveLength(1 + FAILURES_TO_OPEN)
    expect(await stateOfB(rival, 'tote')).toBe('ok')

    // The next failure opens it again.
    moveTime(OPEN_MS)
    await shop.b.setFaults({ status: 500, times: -1 })
    for (let i = 0; i < 3; i++) expect(await stateOfB(shop, 'tote')).toBe('failed')
    expect(await shop.b.calls()).toHaveLength(2 + FAILURES_TO_OPEN)
    moveTime(OPEN_MS)
    await shop.b.setFaults()
    expect(await stateOfB(shop, 'tote')).toBe('ok')
    // Only failures in a row count.
    await shop.b.setFaults({ status: 500 })
    expect(await stateOfB(shop, 'cap')).toBe('failed')
    expect(await stateOfB(shop, 'cap')).toBe('ok')
  })

  it('is not blamed for a lack of memory here', async () => {
    const shop = await mintShop()
    const body = `[]${' '.repeat(2 * SMALL_BODY_BYTES)}`
    await shop.b.setFaults({ body, times: FAILURES_TO_OPEN })
    const other = isolateMemory.open()
    await other.resize(30_000_000)
    const failing = Promise.all(
      Array.from({ length: FAILURES_TO_OPEN }, (_, id) => get(shop, `/products/supplier_b?styleId=${id + 1}`)),
    )
    // Once all of them wait for memory, the wait is over.
    await untilCalls(shop.b, FAILURES_TO_OPEN)
    await scheduler.wait(500)
    moveTime(BUDGET_MS.memory)
    expect((await failing).map(({ status }) => status)).toEqual(Array(FAILURES_TO_OPEN).fill(502))
    other.release()
    expect(await stateOfB(shop, 'hoodie')).toBe('ok')
  })

  it('does not keep large bodies of another company waiting while it stalls', async () => {
    const [shop, rival] = [await mintShop(), await mintShop()]
    await shop.b.setFaults({ body: ' '.repeat(15_000_000), stallAfterBytes: 14_000_000 })
    await rival.b.setFaults({ body: `[]${' '.repeat(1_000_000)}` })
    const stalled = get(shop, '/products/supplier_b?styleId=1')
    await vi.waitUntil(() => isolateMemory.usedBytes >= 14_000_000, 30_000)
    expect(await stateOfB(rival, 'hoodie')).toBe('ok')
    expect((await stalled).status).toBe(502)
  })

  it('is logged without the search text and without the response', async () => {
    const shop = await mintShop()
    await shop.b.setFaults({ status: 500, body: 'inner secret' })
    const response = await shop.call('GET', '/products/search?q=quietword&include=supplier_b')
    const lines = linesOf(response.headers.get('x-request-id'))
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

const MINUTE = () => new Date(Date.now() + 61_000).toUTCString()

it.each([
  ['for the time in Retry-After when the supplier rejects one', 429, () => '20', 20_000],
  ['until the date in Retry-After', 429, MINUTE, 61_000],
  ['for five minutes at most', 429, () => '86400', 300_000],
  ['for five minutes at most, however large the number', 429, () => '9'.repeat(400), 300_000],
  ['for the time in the Retry-After of a 503', 503, () => '20', 20_000],
  ['not after a 503 with a date that has passed', 503, () => new Date(0).toUTCString(), 0],
])('calls stop %s', async (_, status, header, waitMs) => {
  const shop = await mintShop()
  await shop.b.setFaults({ status, headers: { 'retry-after': header() } })
  expect(await stateOfB(shop, 'hoodie')).toBe('failed')
  if (waitMs > 0) {
    moveTime(waitMs - 3_000)
    expect(await stateOfB(shop, 'hoodie')).toBe('failed')
    expect(await shop.b.calls()).toHaveLength(1)
    moveTime(3_000)
  }
  expect(await stateOfB(shop, 'hoodie')).toBe('ok')
})
