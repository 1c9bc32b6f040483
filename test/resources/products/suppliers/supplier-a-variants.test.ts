import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type SupplierAVariant,
  summarise,
  supplierASummarySchema,
  supplierAVariantSchema,
  toVariant,
} from '../../../../src/resources/products/suppliers/supplier-a.ts'

function variant(fields: Record<string, string> = {}): SupplierAVariant {
  const made = toVariant({ style: 'PC61', ...fields })
  if (!made) throw new Error('a variant needs a style')
  return made
}

const HEATHER = { color: 'Athletic Heather', catalogColor: 'Athletic Hthr' }
const VARIANTS = [
  variant({ ...HEATHER, size: '2XL', sizeIndex: '6', piecePrice: '4.50' }),
  variant({ ...HEATHER, size: 'S', sizeIndex: '2', piecePrice: '3.00', productTitle: 'Tee', brandName: 'Cedar Row' }),
  variant({ color: 'Black', size: 'S', sizeIndex: '2', piecePrice: '10.00' }),
  variant({ color: 'Black', size: 'OSFA', piecePrice: '0.00' }),
  variant({ catalogColor: 'Wht' }),
]

const NO_PRICES = [
  ...['0', '0.00', '-1', '', '1,23', '1,2345', '12,34,567', '0,123'],
  ...['1.234,50', '1.2.3', '3,42', '-$3.42', '€3.42', '$', '3.42 each', '1e3', 'Infinity'],
  '9'.repeat(400),
]

describe('toVariant', () => {
  it.each([
    ['3.42', 3.42],
    [' 12 ', 12],
    ['$3.42', 3.42],
    [' $ 3.42 ', 3.42],
    ['USD 3.42', 3.42],
    ['1,234', 1234],
    ['$1,234.50', 1234.5],
    ['1,234,567.8', 1_234_567.8],
    ...NO_PRICES.map((text): [string, null] => [text, null]),
  ])('reads the price %j as %j', (text, price) => {
    expect(variant({ piecePrice: text }).piece_price).toBe(price)
  })

  it('requires a style, and nothing else', () => {
    expect(toVariant({ color: 'Red' })).toBeNull()
    expect(toVariant({ style: '  ' })).toBeNull()
    expect(supplierAVariantSchema.parse(variant())).toEqual(variant())
  })

  it('reads a variant of the schema, whatever is sent', () => {
    const name = fc.constantFrom('style', 'piecePrice', 'sizeIndex', 'color', 'caseSize', 'productTitle', '__proto__')
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.string())), (fields) => {
        const made = toVariant(Object.fromEntries([...fields, ['style', 'x']]))
        expect(supplierAVariantSchema.parse(made)).toEqual(made)
      }),
    )
  })
})

describe('summarise', () => {
  it('summarises the style', () => {
    expect(summarise('PC61', VARIANTS)).toEqual({
      style: 'PC61',
      title: 'Tee',
      brand: 'Cedar Row',
      colors: ['Athletic Heather', 'Black', 'Wht'],
      sizes: ['S', '2XL', 'OSFA'],
      price_min: 3,
      price_max: 10,
    })
  })

  it('is null without variants, and has nulls for a row without values', () => {
    expect(summarise('PC61', [])).toBeNull()
    const empty = { title: null, brand: null, colors: [], sizes: [], price_min: null, price_max: null }
    expect(supplierASummarySchema.parse(summarise('PC61', [variant()]))).toEqual({ style: 'PC61', ...empty })
  })
})
