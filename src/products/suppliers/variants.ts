import * as z from 'zod/mini'
import { numberOrNull, priceOrNull, textOrNull } from './supplier.ts'

const text = z.nullable(z.string().check(z.minLength(1)))
const price = z.nullable(z.number().check(z.positive()))
const imageUrl = text.check(z.describe('Image address as the supplier sends it.'))

/** One row of supplier_a's catalogue, as the API answers it. */
export const supplierAVariantSchema = z
  .strictObject({
    style: z.string().check(z.minLength(1), z.describe('Style number in upper case.')),
    title: text,
    brand: text,
    category: text,
    color: text.check(z.describe('Display name of the colour.')),
    catalog_color: text.check(z.describe("The colour's short name in the supplier's catalogue, which its orders use.")),
    size: text,
    size_index: z.nullable(z.number()).check(z.describe('Rank of the size within the style.')),
    inventory_key: text,
    unique_key: text.check(z.describe("The supplier's key of this style, colour and size.")),
    status: text.check(z.describe('Product status in the supplier’s words.')),
    piece_weight: z.nullable(z.number()).check(z.describe('Weight of one piece in the unit of the supplier.')),
    case_size: z.nullable(z.number()).check(z.describe('Pieces in a case.')),
    piece_price: price,
    piece_sale_price: price,
    dozen_price: price,
    dozen_sale_price: price,
    case_price: price,
    case_sale_price: price,
    map_price: price.check(z.describe('Minimum advertised price.')),
    sale_start_date: text.check(z.describe('Date as the supplier sends it.')),
    sale_end_date: text.check(z.describe('Date as the supplier sends it.')),
    product_image: imageUrl,
    swatch_image: imageUrl,
    front_image: imageUrl,
    back_image: imageUrl,
  })
  .check(
    z.meta({
      id: 'SupplierAVariant',
      description: "A style in one colour and size, with the company's own prices; what the supplier left out is null.",
    }),
  )

export type SupplierAVariant = z.infer<typeof supplierAVariantSchema>

/** What a search tells of the whole style, beside its variants. */
export const supplierASummarySchema = z
  .strictObject({
    style: z.string().check(z.minLength(1)),
    title: text,
    brand: text,
    colors: z.array(z.string()).check(z.describe('Display names in catalogue order.')),
    sizes: z.array(z.string()).check(z.describe('Smallest first.')),
    price_min: price.check(z.describe('Lowest regular price of one piece.')),
    price_max: price.check(z.describe('Highest regular price of one piece.')),
  })
  .check(z.meta({ id: 'SupplierASummary', description: 'The style in short.' }))

export type SupplierASummary = z.infer<typeof supplierASummarySchema>

/**
 * A variant from the fields of one `listResponse`, its groups merged; null for a row without a style.
 *
 * @param fields texts by the supplier's own element names
 */
export function toVariant(fields: ReadonlyMap<string, string>): SupplierAVariant | null {
  const style = textOrNull(fields.get('style'))
  if (style === null) return null
  return {
    style: style.toUpperCase(),
    title: textOrNull(fields.get('productTitle')),
    brand: textOrNull(fields.get('brandName')),
    category: textOrNull(fields.get('category')),
    color: textOrNull(fields.get('color')) ?? textOrNull(fields.get('catalogColor')),
    catalog_color: textOrNull(fields.get('catalogColor')),
    size: textOrNull(fields.get('size')),
    size_index: numberOrNull(fields.get('sizeIndex')),
    inventory_key: textOrNull(fields.get('inventoryKey')),
    unique_key: textOrNull(fields.get('uniqueKey')),
    status: textOrNull(fields.get('productStatus')),
    piece_weight: numberOrNull(fields.get('pieceWeight')),
    case_size: numberOrNull(fields.get('caseSize')),
    piece_price: priceOrNull(fields.get('piecePrice')),
    piece_sale_price: priceOrNull(fields.get('pieceSalePrice')),
    dozen_price: priceOrNull(fields.get('dozenPrice')),
    dozen_sale_price: priceOrNull(fields.get('dozenSalePrice')),
    case_price: priceOrNull(fields.get('casePrice')),
    case_sale_price: priceOrNull(fields.get('caseSalePrice')),
    map_price: priceOrNull(fields.get('mapPrice')),
    sale_start_date: textOrNull(fields.get('saleStartDate')),
    sale_end_date: textOrNull(fields.get('saleEndDate')),
    product_image: textOrNull(fields.get('colorProductImage')) ?? textOrNull(fields.get('productImage')),
    swatch_image: textOrNull(fields.get('colorSwatchImage')) ?? textOrNull(fields.get('colorSquareImage')),
    front_image: textOrNull(fields.get('frontModel')) ?? textOrNull(fields.get('frontFlat')),
    back_image: textOrNull(fields.get('backModel')) ?? textOrNull(fields.get('backFlat')),
  }
}

/**
 * Keeps the variants of one colour, one size or both, compared without case. A colour may be given by its display or
 * its catalogue name. Done here because the service itself knows the catalogue name only. Blank filters filter nothing.
 */
export function filterVariants(
  variants: readonly SupplierAVariant[],
  filter: { color?: string | undefined; size?: string | undefined },
): SupplierAVariant[] {
  const color = fold(filter.color)
  const size = fold(filter.size)
  return variants.filter(
    (variant) =>
      (color === '' || fold(variant.color) === color || fold(variant.catalog_color) === color) &&
      (size === '' || fold(variant.size) === size),
  )
}

function fold(name: string | null | undefined): string {
  return (name ?? '').trim().toLowerCase()
}

/** The style in short, or null when there is nothing to tell of. Prices are the regular ones of a single piece. */
export function summarise(style: string, variants: readonly SupplierAVariant[]): SupplierASummary | null {
  if (variants.length === 0) return null
  const bySize = variants.toSorted((a, b) => (a.size_index ?? Infinity) - (b.size_index ?? Infinity) || 0)
  const prices = distinct(variants.map((variant) => variant.piece_price)).sort((a, b) => a - b)
  return {
    style,
    title: distinct(variants.map((variant) => variant.title))[0] ?? null,
    brand: distinct(variants.map((variant) => variant.brand))[0] ?? null,
    colors: distinct(variants.map((variant) => variant.color)),
    sizes: distinct(bySize.map((variant) => variant.size)),
    price_min: prices[0] ?? null,
    price_max: prices.at(-1) ?? null,
  }
}

/** The different values in the order in which they first come, without the absent ones. */
function distinct<Value>(values: readonly (Value | null)[]): Value[] {
  return [...new Set(values)].filter((value) => value !== null)
}
