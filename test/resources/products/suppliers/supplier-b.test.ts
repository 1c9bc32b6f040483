import fc from 'fast-check'
import { describe, expect, inject, it, onTestFinished, vi } from 'vitest'
import * as z from 'zod'
import {
  groupByColor,
  supplierB,
  supplierBColorGroupSchema,
  supplierBStyleSchema,
  toProduct,
} from '../../../../src/resources/products/suppliers/supplier-b.ts'
import {
  CREDENTIALS,
  LARGE_STYLE_ID,
  productsOf,
  SINGLE_SKU_STYLE_ID,
  STYLES,
} from '../../../../src/simulators/supplier-b-catalogue.ts'
import { LOCAL } from '../../../support/addresses.ts'
import { BROKEN_WIRE, errorOf, REJECTED, SupplierScope, showAll, UNAVAILABLE } from './support.ts'

function connectTo(baseUrl: string, login: object, timeoutMs = 10_000) {
  const connection = { baseUrl, credentials: supplierB.credentials.parse(login), addresses: LOCAL, timeoutMs }
  const { search, find } = supplierB
  return {
    searchStyles: async (q: string) => (await search(q).lookups[0]?.fetch(connection)) ?? fail(),
    productsOfStyle: async (styleId: string) => find({ styleId }).lookup.fetch(connection),
    productBySku: async (sku: string) => find({ sku }).lookup.fetch(connection),
  }
}

function connect({ timeoutMs, credentials }: { timeoutMs?: number; credentials?: Partial<typeof CREDENTIALS> } = {}) {
  const scope = new SupplierScope(inject('supplierBUrl'))
  return { scope, supplier: connectTo(`${scope.url}/`, { ...CREDENTIALS, ...credentials }, timeoutMs) }
}

/** The supplier's JSON for one SKU. */
const ROW = { sku: 'B1', styleID: 1, colorCode: '01', colorName: 'Red' }

const LOOKUPS: readonly (readonly [string, (supplier: ReturnType<typeof connectTo>) => Promise<unknown[]>])[] = [
  ['searchStyles', (supplier) => supplier.searchStyles('tee')],
  ['productsOfStyle', (supplier) => supplier.productsOfStyle('1')],
  ['productBySku', (supplier) => supplier.productBySku('B00010001')],
]

describe('supplier_b styles', () => {
  it.each([
    ['hoodie', 5],
    ['NORTHFIELD tee', 2],
    ['Harbor+Pine', 8],
    ['mill & loom cap', 1],
    ['polo, hoodie', 0],
    ['50% off?#/../', 0],
    ['zzz', 0],
  ])('finds %s: %i', async (text, count) => {
    const { supplier } = connect()
    const data = await supplier.searchStyles(text)
    expect(data).toHaveLength(count)
    expect(z.array(supplierBStyleSchema).parse(data)).toEqual(data)
  })

  it('normalises a style', async () => {
    const { supplier } = connect()
    const style = {
      ...{ style_id: 1, part_number: '00100', brand: 'Northfield', style: 'NO301', title: 'Unisex Jersey T-Shirt' },
      ...{ category: 'T-Shirts', brand_image: 'Images/Brand/1_fl.jpg', style_image: 'Images/Style/1_fm.jpg' },
      sustainable: true,
    }
    expect(await supplier.searchStyles('NO301')).toEqual([style])
  })
})

describe('supplier_b products', () => {
  it('returns the 560 SKUs of the large style in 70 colours, sizes in order', async () => {
    const { supplier } = connect()
    const data = await supplier.productsOfStyle(String(LARGE_STYLE_ID))
    expect(z.array(supplierBColorGroupSchema).parse(data)).toEqual(data)
    expect(data).toHaveLength(70)
    expect(data.flatMap((group) => group.skus)).toHaveLength(560)
    for (const group of data) {
      expect(group.skus.map((sku) => sku.size)).toEqual(['XS', 'S', 'M', 'L', 'XL', '2XL', '3XL', '4XL'])
    }
  })

  it('normalises a single SKU', async () => {
    const { supplier } = connect()
    const [raw] = productsOf(STYLES[SINGLE_SKU_STYLE_ID - 1] ?? fail())
    const sku = {
      ...{ sku: 'B00400002', gtin: '00100000400002', sku_id: '400002', size: 'M', size_order: 'B3' },
      ...{ qty: raw?.qty, case_qty: 72, unit_weight: 0.37, country_of_origin: 'HN', sale_expiration: null },
      ...{ piece_price: 4.2, dozen_price: 4.07, case_price: 3.86, customer_price: 3.78 },
      ...{ map_price: null, sale_price: null },
    }
    const group = {
      ...{ style_id: 40, brand: 'Harbor+Pine', style: 'HAT840', skus: [sku] },
      ...{ color: 'White', color_code: '01', color_family: 'White', color1: '#000000', color2: null },
      ...{ swatch_image: 'Images/Color/400000_fm_swatch.jpg', front_image: 'Images/Color/400000_f_fm.jpg' },
      ...{ back_image: 'Images/Color/400000_b_fm.jpg', side_image: 'Images/Color/400000_d_fm.jpg' },
    }
    expect(await supplier.productsOfStyle('40')).toEqual([group])
    for (const id of ['B00400002', '00100000400002']) expect(await supplier.productBySku(id)).toEqual([group])
  })

  it.each([
    ['3', 6],
    ['Northfield NOK53', 6],
    ['harbor+pine HA3033', 6],
    ['999', 0],
    ['NOK5', 0],
    ['a b/../?&=+%2F', 0],
  ])('finds a style by %s: %i colours', async (styleId, count) => {
    const { supplier } = connect()
    expect(await supplier.productsOfStyle(styleId)).toHaveLength(count)
  })

  it.each(['B1', '../styles', 'a b+c', '%2e%2e', '?fields=x'])('returns no products for the SKU %s', async (sku) => {
    const { scope, supplier } = connect()
    expect(await supplier.productBySku(sku)).toEqual([])
    const [call] = await scope.calls()
    expect(call?.path.startsWith(`/v2/products/${encodeURIComponent(sku)}?fields=sku,`)).toBe(true)
  })

  it.each(['1,2', ',', '', '  ', '.', '..', 'a\nb', 'x'.repeat(101)])('never sends the id %j', async (id) => {
    const { scope, supplier } = connect()
    expect((await errorOf(supplier.productsOfStyle(id))).name).toBe('ApiError')
    expect((await errorOf(supplier.productBySku(id))).name).toBe('ApiError')
    expect(await scope.calls()).toEqual([])
  })

  it('requests only fields that the supplier has', async () => {
    const { scope, supplier } = connect()
    await supplier.searchStyles('a+b c')
    await supplier.productsOfStyle('1')
    const [search, products] = (await scope.calls()).map((call) => call.path)
    expect(search).toMatch(/^\/v2\/styles\?search=a%2Bb%20c&fields=styleID,/)
    expect(products).toMatch(/^\/v2\/products\/\?styleid=1&fields=sku,/)
    const known = new Set([...Object.keys(STYLES[0] ?? {}), ...Object.keys(productsOf(STYLES[0] ?? fail())[0] ?? {})])
    const requested = [search, products].flatMap((path) => path?.split('fields=')[1]?.split(',') ?? [])
    expect(requested).toHaveLength(9 + 28)
    expect(requested.filter((field) => !known.has(field))).toEqual([])
  })
})

describe.each(LOOKUPS)('supplier_b %s', (_name, look) => {
  const WRONG = [{ account_number: '1' }, { api_key: 'wrong-key' }]
  it.each(WRONG)('reports %j as rejected credentials, and never shows them', async (credentials) => {
    const error = await errorOf(look(connect({ credentials }).supplier))
    expect(error).toMatchObject(REJECTED)
    expect(showAll(error)).not.toMatch(/wrong-key|with-colon|20001|Basic/)
  })

  it.each(BROKEN_WIRE)('reports %s', async (_, fault, expected) => {
    const { scope, supplier } = connect()
    await scope.setFaults(fault)
    const error = await errorOf(look(supplier))
    expect(error).toMatchObject({ name: 'SupplierError', ...expected })
    expect(showAll(error)).not.toMatch(/with-colon|20001|Basic|127\.0\.0\.1:\d+\/t/)
    expect(await scope.calls()).toHaveLength(1)
    expect(await look(supplier)).not.toEqual([])
  })

  const notFound = { errors: [{ field: 'Identifier', message: 'Requested item(s) were not found or discontinued.' }] }

  it.each([
    ['a wrong route', 404, { message: 'No HTTP resource was found', messageDetail: 'No type was found' }],
    ['a 404 without errors', 404, { errors: [] }],
    ['a 404 list', 404, []],
    ['400', 400, { code: 400, message: 'Bad', errors: [{ field: 'x', message: 'Bad' }] }],
    ['the unknown-item response with another status', 400, notFound],
    ['an error object with 200', 200, notFound],
    ['500', 500, { code: 500, message: 'Oops' }],
    ['503', 503, { code: 503, message: 'Oops' }],
    ['null', 200, null],
    ['a bare object', 200, { ...ROW }],
    ['a list of texts', 200, ['a']],
    ['a list of lists', 200, [[]]],
    ['a list of nulls', 200, [null]],
    ['rows without an id', 200, [{ name: 'x' }]],
    ['more rows than any style has', 200, Array(10_001).fill({ sku: 'B1', styleID: 1 })],
    ['more values than those rows would have', 200, [{ ...ROW, more: Array(1_000_001).fill(0) }]],
  ])('reports %s as a failure', async (_, status, body) => {
    const { scope, supplier } = connect()
    await scope.setFaults({ status, body: JSON.stringify(body) })
    expect(await errorOf(look(supplier))).toMatchObject(UNAVAILABLE)
  })

  it.each([
    ['the unknown-item response', 404, JSON.stringify(notFound)],
    ['an empty 404', 404, ''],
    ['a blank 404', 404, ' \r\n'],
    ['an empty list', 200, '[]'],
  ])('returns no items for %s', async (_, status, body) => {
    const { scope, supplier } = connect()
    await scope.setFaults({ status, body })
    expect(await look(supplier)).toEqual([])
  })

  it('leaves out only the row without its id', async () => {
    const { scope, supplier } = connect()
    await scope.setFaults({ body: JSON.stringify([ROW, { colorName: 'Blue' }]) })
    expect(await look(supplier)).toHaveLength(1)
  })
})

describe('supplier_b rate limit and unusual values', () => {
  it('reads prices and counts with dollar signs and thousands separators, and leading zeros of a gtin', async () => {
    const { scope, supplier } = connect()
    const prices = { piecePrice: '$4.38', casePrice: '$1,234.50', salePrice: '1,23', customerPrice: 1.1 * 3 }
    const odd = { gtin: '00821780003841', qty: '12,345', mapPrice: String(1.1 * 3), ...prices }
    await scope.setFaults({ body: JSON.stringify([{ ...ROW, ...odd, styleID: '1,234' }]) })
    const [group] = await supplier.productBySku('B1')
    expect(group?.skus[0]).toMatchObject({
      ...{ gtin: '00821780003841', qty: 12_345, map_price: 1.1 * 3 },
      ...{ piece_price: 4.38, case_price: 1234.5, sale_price: null, customer_price: 1.1 * 3 },
    })
    // An id has no separators.
    expect(group?.style_id).toBeNull()
  })

  it('reports the wait when the supplier rejects a call as one too many', async () => {
    const { supplier } = connect()
    for (let call = 0; call < 60; call++) await supplier.productBySku('B00400002')
    const error = await errorOf(supplier.searchStyles('tee'))
    expect(error).toMatchObject({ reason: 'supplier_unavailable', retryAfterSeconds: expect.any(Number) })
    expect(error.retryAfterSeconds).toBeGreaterThan(0)
    expect(error.retryAfterSeconds).toBeLessThanOrEqual(60)
  })

  it('returns items of the schema, whatever the values are', async () => {
    const fetching = vi.spyOn(globalThis, 'fetch')
    onTestFinished(() => fetching.mockRestore())
    const value = fc.oneof(fc.jsonValue({ maxDepth: 1 }), fc.constantFrom('1.5', '-3', 0, '', ' ', 'true', 1e300, -7))
    const names = Object.keys(productsOf(STYLES[0] ?? fail())[0] ?? {})
    const rows = fc.array(fc.dictionary(fc.constantFrom(...names), value), { maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(rows, async (list) => {
        const body = JSON.stringify([...list.map((row) => ({ ...row })), ROW])
        fetching.mockImplementation(async () => new Response(body))
        const supplier = connectTo('https://1.1.1.1', CREDENTIALS)
        const products = await supplier.productsOfStyle('1')
        expect(z.array(supplierBColorGroupSchema).parse(products)).toEqual(products)
        const styles = await supplier.searchStyles('x')
        expect(z.array(supplierBStyleSchema).parse(styles)).toEqual(styles)
      }),
    )
  })
})

function product(fields: Record<string, unknown>) {
  const made = toProduct({ styleID: 1, ...fields })
  if (!made) throw new Error('a product needs a sku')
  return made
}

describe('groupByColor', () => {
  it('groups by the code, else by the name, with the fields of the first row', () => {
    const groups = groupByColor([
      product({ sku: 'a', colorCode: '10', colorName: 'Red', colorFrontImage: 'one.jpg' }),
      product({ sku: 'b', colorName: 'Red' }),
      product({ sku: 'c', colorCode: '10', colorName: 'RED', colorFrontImage: 'two.jpg' }),
      product({ sku: 'd', colorName: '10' }),
      product({ sku: 'e' }),
      product({ sku: 'f', colorName: 'Red', colorCode: '' }),
      product({ sku: 'g', colorCode: '10', styleID: 2 }),
    ])
    expect(groups.map((group) => [group.color_code, group.color, group.skus.map((sku) => sku.sku).join()])).toEqual([
      ['10', 'Red', 'a,c'],
      [null, 'Red', 'b,f'],
      [null, '10', 'd'],
      [null, null, 'e'],
      ['10', null, 'g'],
    ])
    expect(groups[0]?.front_image).toBe('one.jpg')
  })

  it('sorts sizes by letter, then numerically, those without an order last', () => {
    const orders = ['B10', undefined, 'B2', 'C1', 'A9', 'B1', '']
    const groups = groupByColor(orders.map((sizeOrder, index) => product({ sku: `s${index}`, sizeOrder })))
    expect(groups[0]?.skus.map((sku) => sku.size_order)).toEqual(['A9', 'B1', 'B2', 'B10', 'C1', null, null])
    expect(groups[0]?.skus.map((sku) => sku.sku).slice(-2)).toEqual(['s1', 's6'])
  })

  it('returns every SKU once and every colour once', () => {
    const one = fc.record({ colorCode: fc.constantFrom('', '1', '2'), colorName: fc.constantFrom('', 'Red', '1') })
    fc.assert(
      fc.property(fc.array(one, { maxLength: 20 }), (rows) => {
        const groups = groupByColor(rows.map((fields, index) => product({ ...fields, sku: String(index) })))
        const skus = groups.flatMap((group) => group.skus.map((sku) => Number(sku.sku)))
        expect(skus.toSorted((a, b) => a - b)).toEqual(rows.map((_, index) => index))
        const names = groups.map((group) => group.color_code ?? `named ${group.color}`)
        expect(new Set(names).size).toBe(names.length)
      }),
    )
  })
})

function fail(): never {
  throw new Error('the simulator has no such style')
}
