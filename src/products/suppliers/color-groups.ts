import * as z from 'zod/mini'
import { parseId } from '../../http/contract.ts'
import { numberOrNull, priceOrNull, textOrNull } from './supplier.ts'

const text = z.nullable(z.string().check(z.minLength(1)))
const price = z.nullable(z.number().check(z.positive()))
const styleId = z.int().check(z.positive())
const imagePath = text.check(z.describe("Image path as the supplier sends it, relative to the supplier's image host."))

/** One style found by supplier_b's search, as the API answers it. */
export const supplierBStyleSchema = z
  .strictObject({
    style_id: styleId.check(z.describe("The supplier's id of the style: the `styleId` of product info.")),
    part_number: text,
    brand: text,
    style: text.check(z.describe('The style name or number that the brand gives it.')),
    title: text,
    category: text,
    brand_image: imagePath,
    style_image: imagePath,
    sustainable: z.boolean(),
  })
  .check(z.meta({ id: 'SupplierBStyle', description: 'A style; what the supplier left out is null.' }))

export type SupplierBStyle = z.infer<typeof supplierBStyleSchema>

const skuSchema = z
  .strictObject({
    sku: z.string().check(z.minLength(1)),
    gtin: text,
    sku_id: text.check(z.describe("The supplier's master id of the SKU.")),
    size: text,
    size_order: text.check(z.describe('Sort key of the size.')),
    qty: z.nullable(z.number().check(z.minimum(0))).check(z.describe('Pieces in stock in all warehouses.')),
    case_qty: z.nullable(z.number().check(z.minimum(0))).check(z.describe('Pieces in a case.')),
    unit_weight: z
      .nullable(z.number().check(z.minimum(0)))
      .check(z.describe('Weight of one piece in the unit of the supplier.')),
    piece_price: price,
    dozen_price: price,
    case_price: price,
    map_price: price.check(z.describe('Minimum advertised price.')),
    sale_price: price,
    customer_price: price.check(z.describe("The company's own price.")),
    sale_expiration: text.check(z.describe('Date as the supplier sends it.')),
    country_of_origin: text,
  })
  .check(z.meta({ id: 'SupplierBSku', description: 'One size of the colour.' }))

/** The SKUs of one colour of one style, as the API answers them. */
export const supplierBColorGroupSchema = z
  .strictObject({
    style_id: z.nullable(styleId),
    brand: text,
    style: text,
    color: text,
    color_code: text,
    color_family: text,
    color1: text.check(z.describe('Main colour, as hexadecimal RGB.')),
    color2: text.check(z.describe('Second colour, as hexadecimal RGB.')),
    swatch_image: imagePath,
    front_image: imagePath,
    back_image: imagePath,
    side_image: imagePath,
    skus: z.array(skuSchema).check(z.minLength(1), z.describe('In the order of their sizes.')),
  })
  .check(
    z.meta({
      id: 'SupplierBColorGroup',
      description: 'A colour of a style with its sizes; what the supplier left out is null.',
    }),
  )

export type SupplierBColorGroup = z.infer<typeof supplierBColorGroupSchema>

/** One SKU with its colour's fields beside its own, before grouping. */
export interface SupplierBProduct {
  group: Omit<SupplierBColorGroup, 'skus'>
  sku: SupplierBColorGroup['skus'][number]
}

type Fields = Readonly<Record<string, unknown>>

/** A style from the supplier's JSON; null for one without an id. */
export function toStyle(fields: Fields): SupplierBStyle | null {
  const id = idOrNull(fields.styleID)
  if (id === null) return null
  return {
    style_id: id,
    part_number: textOrNull(fields.partNumber),
    brand: textOrNull(fields.brandName),
    style: textOrNull(fields.styleName),
    title: textOrNull(fields.title),
    category: textOrNull(fields.baseCategory),
    brand_image: textOrNull(fields.brandImage),
    style_image: textOrNull(fields.styleImage),
    sustainable: fields.sustainableStyle === true || fields.sustainableStyle === 'true',
  }
}

/** The supplier's names of what {@link toStyle} reads. */
export const STYLE_FIELDS = [
  'styleID',
  'partNumber',
  'brandName',
  'styleName',
  'title',
  'baseCategory',
  'brandImage',
  'styleImage',
  'sustainableStyle',
] as const

/** A SKU from the supplier's JSON; null for one without a SKU. */
export function toProduct(fields: Fields): SupplierBProduct | null {
  const sku = textOrNull(fields.sku)
  if (sku === null) return null
  return {
    group: {
      style_id: idOrNull(fields.styleID),
      brand: textOrNull(fields.brandName),
      style: textOrNull(fields.styleName),
      color: textOrNull(fields.colorName),
      color_code: textOrNull(fields.colorCode),
      color_family: textOrNull(fields.colorFamily),
      color1: textOrNull(fields.color1),
      color2: textOrNull(fields.color2),
      swatch_image: textOrNull(fields.colorSwatchImage),
      front_image: textOrNull(fields.colorFrontImage),
      back_image: textOrNull(fields.colorBackImage),
      side_image: textOrNull(fields.colorSideImage),
    },
    sku: {
      sku,
      gtin: textOrNull(fields.gtin),
      sku_id: textOrNull(fields.skuID_Master),
      size: textOrNull(fields.sizeName),
      size_order: textOrNull(fields.sizeOrder),
      qty: countOrNull(fields.qty),
      case_qty: countOrNull(fields.caseQty),
      unit_weight: countOrNull(fields.unitWeight),
      piece_price: priceOrNull(fields.piecePrice),
      dozen_price: priceOrNull(fields.dozenPrice),
      case_price: priceOrNull(fields.casePrice),
      map_price: priceOrNull(fields.mapPrice),
      sale_price: priceOrNull(fields.salePrice),
      customer_price: priceOrNull(fields.customerPrice),
      sale_expiration: textOrNull(fields.saleExpiration),
      country_of_origin: textOrNull(fields.countryOfOrigin),
    },
  }
}

/** The supplier's names of what {@link toProduct} reads. */
export const PRODUCT_FIELDS = [
  'sku',
  'gtin',
  'skuID_Master',
  'styleID',
  'brandName',
  'styleName',
  'colorName',
  'colorCode',
  'colorFamily',
  'colorSwatchImage',
  'colorFrontImage',
  'colorBackImage',
  'colorSideImage',
  'color1',
  'color2',
  'sizeName',
  'sizeOrder',
  'unitWeight',
  'caseQty',
  'mapPrice',
  'piecePrice',
  'dozenPrice',
  'casePrice',
  'salePrice',
  'customerPrice',
  'saleExpiration',
  'qty',
  'countryOfOrigin',
] as const

/**
 * Groups SKUs by colour: by `color_code`, else by `color`, and never across styles. Groups come in the order in which
 * their colour first appears, with that SKU's colour fields; SKUs inside are sorted by `size_order`, those without last.
 */
export function groupByColor(products: readonly SupplierBProduct[]): SupplierBColorGroup[] {
  const groups = new Map<string, SupplierBColorGroup>()
  for (const { group, sku } of products) {
    const key = JSON.stringify([group.style_id, group.color_code ?? ['named', group.color]])
    const known = groups.get(key)
    if (known) known.skus.push(sku)
    else groups.set(key, { ...group, skus: [sku] })
  }
  for (const group of groups.values()) {
    group.skus.sort((a, b) => compareSizes(a.size_order, b.size_order))
  }
  return [...groups.values()]
}

// Numeric, so that B10 comes after B2.
const collator = new Intl.Collator('en', { numeric: true })

function compareSizes(a: string | null, b: string | null): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  return collator.compare(a, b)
}

function idOrNull(value: unknown): number | null {
  return parseId(textOrNull(value) ?? '')
}

function countOrNull(value: unknown): number | null {
  const count = numberOrNull(value)
  return count !== null && count >= 0 ? count : null
}
