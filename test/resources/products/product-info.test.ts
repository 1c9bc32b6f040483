import { describe, expect, it } from 'vitest'
import { OTHER_CREDENTIALS as OTHER_A } from '../../../src/simulators/supplier-a-catalogue.ts'
import { OTHER_CREDENTIALS as OTHER_B } from '../../../src/simulators/supplier-b-catalogue.ts'
import { expect200, issuesOf, mintCompany, sql } from '../../support/app.ts'
import { get, mintShop, search } from './support.ts'

const shop = await mintShop()

interface Variant {
  color: string
  catalog_color: string
  size: string
}

async function read(query: string) {
  return expect200(await get(shop, `/products/${query}`))
}

describe('supplier_a', () => {
  it('returns every variant of a style', async () => {
    const body = await read('supplier_a?style=PC61')
    expect(body).toMatchObject({ source: 'supplier_a', query: { style: 'PC61', color: null, size: null } })
    expect(body.products).toHaveLength(60)
  })

  it('filters by colour, size or both, by either name of a colour, ignoring case', async () => {
    const { products }: { products: Variant[] } = await read('supplier_a?style=pc61')
    const some = products.find(({ color, catalog_color }) => color !== catalog_color) ?? products[0]
    if (!some) throw new Error('The style has no variants.')
    for (const color of [some.color, some.catalog_color.toUpperCase()]) {
      const body = await read(`supplier_a?style=PC61&color=${encodeURIComponent(` ${color} `)}`)
      expect(body.query).toEqual({ style: 'PC61', color, size: null })
      expect(body.products).toEqual(products.filter((variant) => variant.color === some.color))
    }
    const both = `color=${encodeURIComponent(some.color)}&size=${some.size.toLowerCase()}`
    expect((await read(`supplier_a?style=PC61&${both}`)).products).toEqual([some])
    for (const none of ['size=none', `color=${encodeURIComponent(some.color.slice(0, -1))}`]) {
      expect((await read(`supplier_a?style=PC61&${none}`)).products).toEqual([])
    }
    // A blank filter filters nothing.
    expect((await read('supplier_a?style=PC61&color=&size=%20')).products).toEqual(products)
  })

  it('calls the supplier once for all filters of a style', async () => {
    const own = await mintShop()
    for (const query of ['style=PC61', 'style=pc61&color=White', 'style=%20PC61&size=S']) {
      expect((await get(own, `/products/supplier_a?${query}`)).status).toBe(200)
    }
    expect((await search(own, 'pc61')).supplier_a.count).toBe(60)
    expect(await own.a.calls()).toHaveLength(1)
  })

  it('accepts a style that a search would not recognise', async () => {
    expect((await read('supplier_a?style=ABCDEF')).products).toEqual([])
  })
})

describe('supplier_b', () => {
  const colorsOf = (body: { products: { color: string }[] }) => body.products.map(({ color }) => color)

  it('returns the SKUs of a style by colour, by each parameter that names the style', async () => {
    const body = await read('supplier_b?styleId=1')
    expect(body).toMatchObject({ source: 'supplier_b', query: { sku: null, styleId: '1' } })
    expect(new Set(colorsOf(body)).size).toBe(body.products.length)
    expect(body.products[0].skus.length).toBeGreaterThan(1)
    const same = ['styleid=1', 'style=1', 'styleId=%201%20', 'styleId=1&styleid=2&style=3', 'styleid=1&style=2']
    for (const query of same) expect(await read(`supplier_b?${query}`)).toEqual(body)
  })

  it('returns one SKU in the same form; it takes precedence over a style', async () => {
    const { products } = await read('supplier_b?styleId=1')
    const { sku } = products[0].skus[1]
    const body = await read(`supplier_b?sku=${encodeURIComponent(sku)}`)
    expect(body.query).toEqual({ sku, styleId: null })
    expect(body.products).toEqual([{ ...products[0], skus: [products[0].skus[1]] }])
    expect(await read(`supplier_b?sku=${encodeURIComponent(sku)}&styleId=2&style=1,2`)).toEqual(body)
    expect(await read('supplier_b?sku=&styleId=&styleid=1')).toEqual(await read('supplier_b?styleId=1'))
  })

  it('finds a style by its part number or by brand and name', async () => {
    const [style] = (await search(shop, 'Heavyweight', { include: 'supplier_b' })).supplier_b_styles
    const byId = await read(`supplier_b?styleId=${style.style_id}`)
    const byName = await read(`supplier_b?style=${encodeURIComponent(`${style.brand} ${style.style}`)}`)
    expect(byName.products).toEqual(byId.products)
  })

  it('returns no products for an unknown style or SKU', async () => {
    const skus = ['B00000', 'a%2Fb%3F%23%2B', '%F0%9F%A7%A2'].map((sku) => `sku=${sku}`)
    for (const query of ['styleId=999999', 'style=No%20Such%20Brand', ...skus]) {
      expect((await read(`supplier_b?${query}`)).products).toEqual([])
    }
  })
})

it.each([
  ['supplier_a', 'style'],
  ['supplier_a?style=', 'style'],
  ['supplier_a?style=%20%09', 'style'],
  ['supplier_a?styleId=1', 'style'],
  [`supplier_a?style=${'x'.repeat(101)}`, 'style'],
  ['supplier_a?style=PC61&style=PC62', 'style'],
  [`supplier_a?style=PC61&color=${'x'.repeat(101)}`, 'color'],
  [`supplier_a?style=PC61&size=${'x'.repeat(101)}`, 'size'],
  ['supplier_b', 'styleId'],
  ['supplier_b?sku=&style=', 'styleId'],
  ['supplier_b?id=1', 'styleId'],
  ['supplier_b?sku=1,2', 'sku'],
  ['supplier_b?styleId=1,2', 'styleId'],
  ['supplier_b?styleid=1%2C2', 'styleid'],
  ['supplier_b?style=1,2', 'style'],
  ['supplier_b?sku=..', 'sku'],
  ['supplier_b?sku=a%00b', 'sku'],
])('%s is a 400 that names %s', async (query, path) => {
  expect(issuesOf(await get(shop, `/products/${query}`))).toEqual([path])
})

it.each(['supplier_a?style=PC61', 'supplier_b?styleId=1'])(
  'the integration of %s: 409 when missing or disabled',
  async (query) => {
    const company = await mintCompany()
    const missing = await get(company, `/products/${query}`)
    expect([missing.status, missing.body.error.details]).toMatchObject([409, { reason: 'integration_missing' }])

    const own = await mintShop()
    expect((await get(own, `/products/${query}`)).status).toBe(200)
    const kind = query.startsWith('supplier_a') ? 'supplier_a' : 'supplier_b'
    const change = 'UPDATE integrations SET enabled = ?, updated_at = updated_at + 1 WHERE company_id = ? AND kind = ?'
    const setEnabled = (enabled: number) => sql(change, enabled, own.id, kind)
    await setEnabled(0)
    const disabled = await get(own, `/products/${query}`)
    expect([disabled.status, disabled.body.error.details]).toMatchObject([409, { reason: 'integration_disabled' }])
    expect((await search(own, 'PC61')).sources[kind]).toBe('not_configured')
    await setEnabled(1)
    expect((await get(own, `/products/${query}`)).status).toBe(200)
  },
)

it('prices are those of the own company, whichever company called first', async () => {
  const rival = await mintShop({ credentials: { supplier_a: OTHER_A, supplier_b: OTHER_B } })
  // As one seed of both would leave them: they differ in nothing but the company.
  await sql('UPDATE integrations SET updated_at = 1')
  for (const path of ['/products/supplier_a?style=PC61', '/products/supplier_b?styleId=1']) {
    const [ours, theirs] = [await get(shop, path), await get(rival, path)]
    expect(theirs.body.products).toHaveLength(ours.body.products.length)
    expect(theirs.body.products).not.toEqual(ours.body.products)
    expect((await get(shop, path)).body).toEqual(ours.body)
    expect((await get(rival, path)).body).toEqual(theirs.body)
  }
  expect((await search(rival, 'PC61')).supplier_a.summary.price_min).not.toBe(
    (await search(shop, 'PC61')).supplier_a.summary.price_min,
  )
})
