import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { groupByColor, toProduct } from '../../../../src/resources/products/suppliers/supplier-b.ts'

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
