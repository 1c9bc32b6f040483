import { beforeAll, describe, expect, it } from 'vitest'
import { migrate, mintToken, request } from '../../support/app.ts'
import { type Hop, measureHops } from '../../support/hops.ts'
import { addLine, get, MINUTE_MS, mintInvoice, mintShop, type Shop, search, travel } from './support.ts'

beforeAll(migrate)

async function hopsOf(shop: Shop, path: string) {
  const token = await mintToken(shop.id)
  const { response, hops } = await measureHops(request(token, 'GET', path))
  expect(response.status).toBe(200)
  return hops
}

function summaryOf(hops: Hop[]) {
  return { depth: Math.max(...hops.map(({ depth }) => depth)), names: hops.map(({ name }) => name).sort() }
}

const WARM = ['CACHE.getWithMetadata', 'CACHE.getWithMetadata', 'DB.batch', 'RATE_LIMITER.admit']

describe('network waits', () => {
  it('search has two with both suppliers cached, fresh or stale', async () => {
    const shop = await mintShop({ home: 'DB' })
    await search(shop, 'PC61')
    // Past the minute of the isolate's own cache.
    travel(2 * MINUTE_MS)
    expect(summaryOf(await hopsOf(shop, '/products/search?q=PC61'))).toEqual({ depth: 2, names: WARM })
    travel(10 * MINUTE_MS)
    // So slow that they end after the response, unless it waits for them.
    for (const supplier of [shop.a, shop.b]) await supplier.setFaults({ delayMs: 700 })
    expect(summaryOf(await hopsOf(shop, '/products/search?q=PC61'))).toEqual({ depth: 2, names: WARM })
  })

  it('search has three when both suppliers must be called, concurrently', async () => {
    const shop = await mintShop({ home: 'DB' })
    // Slow enough that neither ends before the other begins, so that depth counts what waits for what.
    for (const supplier of [shop.a, shop.b]) await supplier.setFaults({ delayMs: 700 })
    const hops = await hopsOf(shop, '/products/search?q=PC61')
    // One supplier's result may be written to the cache, which is not awaited, before the other has responded.
    const waits = summaryOf(hops.filter(({ name }) => name !== 'CACHE.put'))
    expect(waits).toEqual({ depth: 3, names: [...WARM, 'fetch', 'fetch'].sort() })
  })

  it('product info has two when cached, and an invoice item has two', async () => {
    const shop = await mintShop({ home: 'DB' })
    await get(shop, '/products/supplier_b?styleId=1')
    travel(2 * MINUTE_MS)
    expect(summaryOf(await hopsOf(shop, '/products/supplier_b?styleId=1'))).toEqual({
      depth: 2,
      names: ['CACHE.getWithMetadata', 'DB.batch', 'RATE_LIMITER.admit'],
    })
    const { invoiceId } = await mintInvoice(shop)
    await addLine(shop, { id: 1, invoiceId, title: 'Cap' })
    expect(summaryOf(await hopsOf(shop, '/products/invoice_item?id=1'))).toEqual({
      depth: 2,
      names: ['DB.batch', 'RATE_LIMITER.admit'],
    })
  })
})
