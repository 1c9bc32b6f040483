import { Buffer } from 'node:buffer'
import * as z from 'zod/mini'
import { component, parseId } from '../../../kernel/api/contract.ts'
import { invalid } from '../../../kernel/http/errors.ts'
import { parseJson } from '../../../kernel/http/messages.ts'
import type { ProductQuery, Row, SupplierConnection } from './supplier.ts'
import { defineFields, fetchItems, field, nonEmptyText, secret, textOrNull } from './supplier.ts'

const styleId = z.int().check(z.positive())
const image = (name: string) =>
  field.text(name, "Image path as the supplier sends it, relative to the supplier's image host.")

const isTrue = (value: unknown) => value === true || value === 'true'

const styleFields = defineFields({
  part_number: field.text('partNumber'),
  brand: field.text('brandName'),
  style: field.text('styleName', 'The style name or number that the brand gives it.'),
  title: field.text('title'),
  category: field.text('baseCategory'),
  brand_image: image('brandImage'),
  style_image: image('styleImage'),
  sustainable: { schema: z.boolean(), names: ['sustainableStyle'], read: isTrue },
})

export const supplierBStyleSchema = component('SupplierBStyle', 'A style; what the supplier left out is null.', {
  style_id: styleId.check(z.describe("The supplier's id of the style: the `styleId` of product info.")),
  ...styleFields.shape,
})

type SupplierBStyle = z.output<typeof supplierBStyleSchema>

const skuFields = defineFields({
  gtin: field.text('gtin'),
  sku_id: field.text('skuID_Master', "The supplier's master id of the SKU."),
  size: field.text('sizeName'),
  size_order: field.text('sizeOrder', 'Sort key of the size.'),
  qty: field.count('qty', 'Pieces in stock in all warehouses.'),
  case_qty: field.count('caseQty', 'Pieces in a case.'),
  unit_weight: field.count('unitWeight', 'Weight of one piece in the unit of the supplier.'),
  piece_price: field.price('piecePrice'),
  dozen_price: field.price('dozenPrice'),
  case_price: field.price('casePrice'),
  map_price: field.price('mapPrice', 'Minimum advertised price.'),
  sale_price: field.price('salePrice'),
  customer_price: field.price('customerPrice', "The company's own price."),
  sale_expiration: field.text('saleExpiration', 'Date as the supplier sends it.'),
  country_of_origin: field.text('countryOfOrigin'),
})

const skuSchema = component('SupplierBSku', 'One size of the colour.', { sku: nonEmptyText, ...skuFields.shape })

const colorFields = defineFields({
  style_id: { schema: z.nullable(styleId), names: ['styleID'], read: idOrNull },
  brand: field.text('brandName'),
  style: field.text('styleName'),
  color: field.text('colorName'),
  color_code: field.text('colorCode'),
  color_family: field.text('colorFamily'),
  color1: field.text('color1', 'Main colour, as hexadecimal RGB.'),
  color2: field.text('color2', 'Second colour, as hexadecimal RGB.'),
  swatch_image: image('colorSwatchImage'),
  front_image: image('colorFrontImage'),
  back_image: image('colorBackImage'),
  side_image: image('colorSideImage'),
})

export const supplierBColorGroupSchema = component(
  'SupplierBColorGroup',
  'A colour of a style with its sizes; what the supplier left out is null.',
  { ...colorFields.shape, skus: z.array(skuSchema).check(z.minLength(1), z.describe('In the order of their sizes.')) },
)

type SupplierBColorGroup = z.output<typeof supplierBColorGroupSchema>

const credentials = z.strictObject({ account_number: secret, api_key: secret })

type Connection = SupplierConnection<z.output<typeof credentials>>

/** A SKU, style id or part number. A comma would make it a list, and dots alone would change the path. */
const idSchema = z.string().check(
  z.trim(),
  z.minLength(1),
  z.maxLength(100),
  z.regex(/^[^,\p{Cc}]*$/u, 'must not contain a comma or control characters'),
  z.refine((id) => !/^\.+$/.test(id), 'must not consist of dots only'),
)

/** A REST JSON service below `baseUrl`, of 60 calls a minute. Only published fields are requested. */
export const supplierB = {
  name: 'supplier_b',
  credentials,
  search(q: string) {
    const present = (styles: SupplierBStyle[]) => ({ supplier_b_styles: styles })
    return { lookups: q === '' ? [] : [lookupStyles(q)], present }
  },

  find(query: ProductQuery) {
    const sku = readId(query, 'sku')
    if (sku !== null) {
      return { lookup: lookupProducts(`sku ${sku}`, `${encodeURIComponent(sku)}?`), parameters: { sku, styleId: null } }
    }
    const styleId = readId(query, 'styleId') ?? readId(query, 'styleid') ?? readId(query, 'style')
    if (styleId === null) throw invalid([{ path: 'styleId', message: 'is missing: sku or styleId is required' }])
    // Any other text is a part number, or brand and name.
    const parameter = /^\d+$/.test(styleId) ? 'styleid' : 'style'
    const lookup = lookupProducts(`style ${styleId}`, `?${parameter}=${encodeURIComponent(styleId)}&`)
    return { lookup, parameters: { sku, styleId } }
  },
} as const

function readId(query: ProductQuery, path: string): string | null {
  const id = query[path]
  if (id === undefined) return null
  const checked = idSchema.safeParse(id)
  if (checked.success) return checked.data
  throw invalid(checked.error.issues.map(({ message }) => ({ path, message })))
}

function lookupStyles(text: string) {
  const q = text.replaceAll(/\s+/gu, ' ')
  const path = `styles?search=${encodeURIComponent(q)}&fields=styleID,${styleFields.names.join()}`
  return { name: `search ${q.toLowerCase()}`, fetch: (connection: Connection) => list(connection, path, toStyle) }
}

function lookupProducts(name: string, query: string) {
  const path = `products/${query}fields=${['sku', ...skuFields.names, ...colorFields.names].join()}`
  return { name, fetch: async (connection: Connection) => groupByColor(await list(connection, path, toProduct)) }
}

function list<Item>(connection: Connection, path: string, toItem: (row: Row) => Item | null): Promise<Item[]> {
  const { account_number, api_key } = connection.credentials
  const login = Buffer.from(`${account_number}:${api_key}`).toString('base64')
  const url = `${connection.baseUrl.replace(/(?<!\/)\/+$/, '')}/v2/${path}`
  const headers = { Authorization: `Basic ${login}`, Accept: 'application/json' }
  return fetchItems(connection, { url, method: 'GET', headers }, rowsOf, toItem)
}

/** As many as 10,000 rows of a hundred have. */
const MAX_VALUES = 1_000_000

/** Unknown or discontinued items, and searches without a match, have no rows. @throws Error for another failure */
function rowsOf(status: number, body: string): Row[] {
  if (status === 404 && body.trim() === '') return []
  const json = parseJson(body, MAX_VALUES)
  // A wrong address is a 404 as well, with `message` and no `errors`: that is our failure, not an unknown style.
  if (status === 404 && isObject(json) && Array.isArray(json.errors) && json.errors.length > 0) return []
  if (status !== 200 || !Array.isArray(json) || !json.every(isObject)) throw new Error('not a list of objects')
  // A row of a few bytes becomes an item of 500, so more rows could take the isolate's memory.
  if (json.length > 10_000) throw new Error('too many rows')
  return json
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function toStyle(row: Row): SupplierBStyle | null {
  const id = idOrNull(row.styleID)
  return id === null ? null : { style_id: id, ...styleFields.read(row) }
}

type Product = NonNullable<ReturnType<typeof toProduct>>

export function toProduct(row: Row) {
  const sku = textOrNull(row.sku)
  return sku === null ? null : { color: colorFields.read(row), sku: { sku, ...skuFields.read(row) } }
}

function idOrNull(value: unknown): number | null {
  return parseId(textOrNull(value) ?? '')
}

/**
 * Groups SKUs by style and `color_code`, else `color`, in the order of their first SKU, which gives the colour fields.
 * SKUs inside are sorted by `size_order`, those without last.
 */
export function groupByColor(products: readonly Product[]): SupplierBColorGroup[] {
  const groups = Map.groupBy(products, ({ color }) =>
    JSON.stringify([color.style_id, color.color_code ?? ['named', color.color]]),
  )
  return [...groups.values()].flatMap((group) => {
    const skus = group.map(({ sku }) => sku).sort((a, b) => compareSizes(a.size_order, b.size_order))
    return group.slice(0, 1).map(({ color }) => ({ ...color, skus }))
  })
}

// Numeric collation sorts B10 after B2.
const collator = new Intl.Collator('en', { numeric: true })

function compareSizes(a: string | null, b: string | null): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  return collator.compare(a, b)
}
