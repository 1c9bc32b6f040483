import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { migrate, mintToken, request } from '../support/app.ts'
import { measureHops } from '../support/hops.ts'
import { addLine, get, MINUTE_MS, mintInvoice, mintShop, type Shop, search, travel } from './support.ts'

beforeAll(migrate)
afterEach(() => {
  vi.useRealTimers()
})

async function hopsOf(shop: Shop, path: string) {
  const token = await mintToken(shop.id)
  // So that the isolate knows the token, whatever the time is.
  await measureHops(request(token, 'GET', '/clients'))
  const { response, hops, depth } = await measureHops(request(token, 'GET', path))
  expect(response.status).toBe(200)
  return { hops, depth, names: hops.map(({ name }) => name).sort() }
}

const WARM = ['CACHE.getWithMetadata', 'CACHE.getWithMetadata', 'DB.batch', 'RATE_LIMITER.take']

describe('network waits, the token known', () => {
  it('search has one with both suppliers cached, fresh or stale', async () => {
    const shop = await mintShop()
    await search(shop, 'PC61')
    // Past the minute for which the isolate remembers by itself.
    travel(2 * MINUTE_MS)
    expect(await hopsOf(shop, '/products/search?q=PC61')).toMatchObject({ depth: 1, names: WARM })
    travel(10 * MINUTE_MS)
    const stale = await hopsOf(shop, '/products/search?q=PC61')
    expect(stale.depth).toBe(1)
    expect(stale.names.filter((name) => name !== 'fetch')).toEqual(WARM)
  })

  it('search has two when both suppliers must be asked, side by side', async () => {
    const shop = await mintShop()
    // Slow enough that neither ends before the other begins, so that depth counts what waits for what.
    for (const supplier of [shop.a, shop.b]) await supplier.spoil({ delayMs: 700 })
    const { hops } = await hopsOf(shop, '/products/search?q=PC61')
    // One supplier's answer may be put into the cache, which is not waited for, before the other's has come.
    const waits = hops.filter(({ name }) => name !== 'CACHE.put')
    expect(waits.map(({ name }) => name).sort()).toEqual([...WARM, 'fetch', 'fetch'].sort())
    expect(Math.max(...waits.map((hop) => hop.depth))).toBe(2)
  })

  it('product info has one when cached, and an invoice item has one', async () => {
    const shop = await mintShop()
    await get(shop, '/products/supplier_b?styleId=1')
    travel(2 * MINUTE_MS)
    expect(await hopsOf(shop, '/products/supplier_b?styleId=1')).toMatchObject({
      depth: 1,
      names: ['CACHE.getWithMetadata', 'DB.batch', 'RATE_LIMITER.take'],
    })
    const { invoiceId } = await mintInvoice(shop)
    await addLine(shop, { id: 1, invoiceId, title: 'Cap' })
    expect(await hopsOf(shop, '/products/invoice_item?id=1')).toMatchObject({
      depth: 1,
      names: ['DB.batch', 'RATE_LIMITER.take'],
    })
  })
})
