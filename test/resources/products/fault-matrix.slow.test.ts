import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import type { SupplierName } from '../../../src/resources/products/contract.ts'
import type { Fault } from '../../../src/simulators/kit.ts'
import { sql } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { moveTime } from '../../support/time.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { addItem, get, integrateA, integrateB, MINUTE_MS, mintShop, type Shop, search } from './support.ts'

const HANG_MS = 15_000

/** One of each kind: the adapters' tests have all that they report. */
const FAULTS: [string, Fault][] = [
  ['a connection closed without a response', { destroy: true }],
  ['429 with Retry-After', { status: 429, headers: { 'retry-after': '20' } }],
  ['200 with garbage', { body: '\u0000\ufffd{[' }],
]

/** For each supplier: what finds products, and where the search response has them. */
const SUPPLIERS = {
  supplier_a: {
    q: 'PC61',
    unknown: 'ZZ999',
    info: '/products/supplier_a?style=PC61',
    itemsOf: (result: Found) => result.supplier_a.products,
    reset: integrateA,
    badCredentials: { customer_number: '1', username: 'shop', password: 'wrong' },
  },
  supplier_b: {
    q: 'Youth Crew Tee',
    unknown: 'nothing of this kind',
    info: '/products/supplier_b?styleId=40',
    itemsOf: (result: Found) => result.supplier_b_styles,
    reset: integrateB,
    badCredentials: { account_number: '1', api_key: 'wrong' },
  },
} as const

interface Found {
  local_items: unknown[]
  supplier_b_styles: unknown[]
  supplier_a: { style: string | null; products: unknown[]; count: number; summary: unknown }
  invoice_lines: unknown[]
  sources: Record<string, string>
}

const names: SupplierName[] = ['supplier_a', 'supplier_b']

function scopeOf(shop: Shop, name: SupplierName) {
  return name === 'supplier_a' ? shop.a : shop.b
}

describe.each(names)('%s', (name) => {
  const { q, info, itemsOf, unknown, reset, badCredentials } = SUPPLIERS[name]

  it.each(FAULTS)('%s: search has the others, product info is 502', async (_, fault) => {
    const shop = await mintShop()
    await addItem(shop, { title: q })
    await scopeOf(shop, name).setFaults({ ...fault, times: -1 })
    const result = await search(shop, q)
    expect(itemsOf(result)).toEqual([])
    // Only a text with a style number is looked up at supplier_a.
    const others = { local: 'ok', lines: 'ok', supplier_a: q === 'PC61' ? 'ok' : 'skipped', supplier_b: 'ok' }
    expect(result.sources).toEqual({ ...others, [name]: 'failed' })
    expect(result.local_items).toHaveLength(1)
    if (name === 'supplier_a') expect(result.supplier_a).toMatchObject({ style: q, count: 0, summary: null })
    const { status, body } = await get(shop, info)
    expect([status, body.error.details.reason]).toEqual([502, 'supplier_unavailable'])
    // Nothing is cached: the next call is a real one, once the supplier may be called again.
    await scopeOf(shop, name).setFaults()
    moveTime(MINUTE_MS)
    const next = await search(shop, q)
    expect(next.sources[name]).toBe('ok')
    expect(itemsOf(next)).not.toEqual([])
  })

  it.each<[string, Fault]>([...FAULTS, ['no response', { hold: true }]])(
    '%s: cached products are served stale',
    async (_, fault) => {
      const shop = await mintShop()
      const warm = await search(shop, q)
      const warmInfo = await get(shop, info)
      moveTime(11 * MINUTE_MS)
      await scopeOf(shop, name).setFaults({ ...fault, times: -1 })
      for (let i = 0; i < 3; i++) {
        const result = await search(shop, q)
        expect(result.sources[name]).toBe('stale')
        expect(itemsOf(result)).toEqual(itemsOf(warm))
      }
      expect((await get(shop, info)).body).toEqual(warmInfo.body)
      await scopeOf(shop, name).setFaults()
    },
  )

  it('returns 502 with its own reason for rejected credentials, and caches nothing', async () => {
    const shop = await mintShop({ credentials: { [name]: badCredentials } })
    await addItem(shop, { title: q })
    expect((await search(shop, q)).sources[name]).toBe('failed')
    const calls = (await scopeOf(shop, name).calls()).length
    const { status, body } = await get(shop, info)
    expect([status, body.error.details.reason]).toEqual([502, 'supplier_rejected_credentials'])
    // Rejected credentials are not sent again at once.
    expect(await scopeOf(shop, name).calls()).toHaveLength(calls)
    expect(JSON.stringify(body)).not.toContain('wrong')

    // Corrected credentials are used by the next request.
    await reset(shop)
    expect((await search(shop, q)).sources[name]).toBe('ok')
  })

  it('makes no call with credentials that are invalid or cannot be decrypted', async () => {
    for (const invalid of [{}, 'text']) {
      const shop = await mintShop({ credentials: { [name]: Object(invalid) } })
      const { status, body } = await get(shop, info)
      expect([status, body.error.details.reason]).toEqual([409, 'credentials_unreadable'])
      expect(await scopeOf(shop, name).calls()).toEqual([])
    }
    const shop = await mintShop()
    await sql("UPDATE integrations SET credentials = 'v1.00.AAAA' WHERE company_id = ?", shop.id)
    const { status, body } = await get(shop, info)
    expect([status, body.error.details.reason]).toEqual([409, 'credentials_unreadable'])
    expect((await search(shop, q)).sources[name]).toBe('failed')
    expect(await scopeOf(shop, name).calls()).toEqual([])
    // However often it is asked: no outage of the supplier is assumed.
    for (let calls = 0; calls < 6; calls++) {
      expect((await get(shop, info)).body.error.details.reason).toBe('credentials_unreadable')
    }
  })

  it('returns ok without items when nothing is found', async () => {
    const shop = await mintShop()
    const result = await search(shop, unknown)
    expect(result.sources[name]).toBe('ok')
    expect(itemsOf(result)).toEqual([])
  })
})

const failures: [string, () => Promise<never>][] = [
  ['fails', () => Promise.reject(new Error('D1_ERROR: out of order'))],
  // The batch is waited for behind the response, so it must end some time.
  ['hangs', () => new Promise((_, reject) => setTimeout(() => reject(new Error('lost')), HANG_MS))],
]

it.each(failures)('the database %s: search returns 200 in time, and suppliers only from the cache', async (_, fail) => {
  const shop = await mintShop()
  await addItem(shop, { title: 'PC61' })
  const warm = await search(shop, 'PC61', { include: 'supplier_a,local' })
  const broken = wrapBindings(env, (name, work) => (/^DB(_TWO)?\.batch$/.test(name) ? fail() : work()))
  const { headers, body: result } = await get(shop, '/products/search?q=PC61', broken)
  const line = linesOf(headers.get('x-request-id')).find(({ event }) => event === 'request')
  expect(line?.duration_ms).toBeLessThan(6_000)
  expect(result.sources).toEqual({ local: 'failed', lines: 'failed', supplier_a: 'stale', supplier_b: 'failed' })
  expect(result).toMatchObject({ local_items: [], invoice_lines: [], supplier_b_styles: [] })
  expect(result.supplier_a).toEqual(warm.supplier_a)
  expect(await shop.b.calls()).toEqual([])
})
