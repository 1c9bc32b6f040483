import * as z from 'zod'
import { amount, defineContract, id, idText, text } from '../http/contract.ts'
import { invoiceItem } from '../orders/contract.ts'
import { supplierBColorGroupSchema, supplierBStyleSchema } from './suppliers/color-groups.ts'
import { supplierASummarySchema, supplierAVariantSchema } from './suppliers/variants.ts'

/** The sources of the search, in the order of the contract. */
export const SOURCES = ['local', 'supplier_b', 'supplier_a', 'lines'] as const

export type Source = (typeof SOURCES)[number]

const sourceState = z
  .enum(['ok', 'stale', 'skipped', 'not_configured', 'failed'])
  .describe(
    '`ok`: asked, or fresh from the cache. `stale`: an older answer, while the supplier fails or is being asked again. `skipped`: not asked for, or `q` has nothing for it. `not_configured`: the company has no such integration, or it is disabled. `failed`: no answer, and none in the cache.',
  )

export type SourceState = z.output<typeof sourceState>

const catalogItem = z
  .strictObject({
    id,
    title: z.string(),
    description: z.string().nullable(),
    price: amount.nullable(),
  })
  .meta({ id: 'CatalogItem', description: 'An item of the company’s own catalogue.' })

const SOURCE_OR_NOTHING = `\\s*(?:${SOURCES.join('|')})?\\s*`

const include = text(0, 200)
  .transform((value) => value.split(',').map((name) => name.trim()))
  .transform((names) => names.filter((name) => name !== ''))
  .pipe(z.array(z.enum(SOURCES, `must be a comma list of ${SOURCES.join(', ')}`)))
  .meta({ type: 'string', pattern: `^${SOURCE_OR_NOTHING}(?:,${SOURCE_OR_NOTHING})*$` })
  .describe(`Comma list of the sources to ask: ${SOURCES.join(', ')}. Left out or blank: all.`)

export const searchProducts = defineContract({
  method: 'GET',
  path: '/products/search',
  operationId: 'searchProducts',
  tag: 'Products',
  permission: 'products:read',
  summary: 'Search the catalogue, both suppliers and stored invoice lines',
  description:
    'Asks the sources in parallel and always answers, within about 4 seconds: a source that fails or is too slow has empty arrays, and `sources` tells why. Every word of `q` must occur, ignoring case: in the title (local), in title or description (lines); at most 50 a source, the newest first. supplier_a is asked for the style number found in `q`; of several the first that it knows, two being tried. A blank `q` gives the 20 newest items of the catalogue and nothing else. What a supplier answered is used for 10 minutes, then for up to 24 hours while it is asked again.',
  query: z.object({
    q: text(0, 200).optional().describe('Search text.'),
    include: include.optional(),
  }),
  answer: z.strictObject({
    query: z.string().describe('`q` as it was sent; empty when it was not.'),
    local_items: z.array(catalogItem),
    supplier_b_styles: z.array(supplierBStyleSchema),
    supplier_a: z.strictObject({
      style: z.string().nullable().describe('The style number found in `q`.'),
      products: z.array(supplierAVariantSchema),
      count: z.int().nonnegative(),
      summary: supplierASummarySchema.nullable(),
    }),
    invoice_lines: z.array(invoiceItem),
    sources: z.strictObject({
      local: sourceState,
      supplier_b: sourceState,
      supplier_a: sourceState,
      lines: sourceState,
    }),
  }),
  errors: [],
  example: {
    query: { q: 'cotton tee', include: 'local,lines' },
    answer: {
      query: 'cotton tee',
      local_items: [{ id: 7, title: 'Heavy cotton tee', description: 'Navy, S–3XL', price: 9.5 }],
      supplier_b_styles: [],
      supplier_a: { style: null, products: [], count: 0, summary: null },
      invoice_lines: [],
      sources: { local: 'ok', supplier_b: 'skipped', supplier_a: 'skipped', lines: 'ok' },
    },
  },
})

/** A parameter of product info: white space around it does not count, and a blank one is one left out. */
const parameter = text(0, 100)
  .transform((value) => value.trim() || undefined)
  .optional()
  .meta({ type: 'string' })

const productAnswer = z.union([
  z.strictObject({
    source: z.literal('supplier_a'),
    query: z.strictObject({ style: z.string(), color: z.string().nullable(), size: z.string().nullable() }),
    products: z.array(supplierAVariantSchema),
  }),
  z.strictObject({
    source: z.literal('supplier_b'),
    query: z.strictObject({ sku: z.string().nullable(), styleId: z.string().nullable() }),
    products: z.array(supplierBColorGroupSchema),
  }),
  z.strictObject({ source: z.literal('invoice_item'), item: invoiceItem }),
])

const exampleVariant = {
  style: 'PC61',
  title: 'Everyday Cotton Tee',
  brand: 'Cedar Row',
  category: 'T-Shirts',
  color: 'Navy',
  catalog_color: 'Navy',
  size: 'L',
  size_index: 4,
  inventory_key: '91100',
  unique_key: '911004',
  status: 'Regular',
  piece_weight: 0.42,
  case_size: 72,
  piece_price: 2.9,
  piece_sale_price: null,
  dozen_price: 2.75,
  dozen_sale_price: null,
  case_price: 2.6,
  case_sale_price: null,
  map_price: null,
  sale_start_date: null,
  sale_end_date: null,
  product_image: 'https://images.supplier-a.example/PC61_navy.jpg',
  swatch_image: null,
  front_image: null,
  back_image: null,
}

export const readProduct = defineContract({
  method: 'GET',
  path: '/products/{source}',
  operationId: 'readProduct',
  tag: 'Products',
  permission: 'products:read',
  summary: 'Read a supplier’s product or a stored invoice line',
  description:
    '`supplier_a` needs `style` and gives its variants, narrowed by `color` and `size`. `supplier_b` needs `sku` or `styleId` (alias `styleid`; `style` serves when neither is sent; `sku` goes before them) and gives the SKUs grouped by colour. `invoice_item` needs `id`. `query` tells the parameters that were used. An unknown style or SKU gives no products, not an error. What a supplier answered is used for 10 minutes, then for up to 24 hours while it is asked again; a style that supplier_a does not know is remembered for an hour. 409: the company has no such integration, or it is disabled. 502: the supplier failed, or refused the company’s credentials, and nothing is cached.',
  params: z.strictObject({
    source: z.enum(['supplier_a', 'supplier_b', 'invoice_item']).describe('Where the product is.'),
  }),
  query: z.object({
    style: parameter.describe(
      'supplier_a: the style, required. supplier_b: the style id where `sku` and `styleId` are left out.',
    ),
    color: parameter.describe('supplier_a: only variants of this colour.'),
    size: parameter.describe('supplier_a: only variants of this size.'),
    sku: parameter.describe('supplier_b: one SKU.'),
    styleId: parameter.describe('supplier_b: all SKUs of this style.'),
    styleid: parameter.describe('The same as `styleId`.'),
    id: idText.optional().describe('invoice_item: the id, required.'),
  }),
  answer: productAnswer,
  errors: ['not_found', 'conflict', 'upstream_failed'],
  example: {
    params: { source: 'supplier_a' },
    query: { style: 'PC61', color: 'Navy' },
    answer: {
      source: 'supplier_a',
      query: { style: 'PC61', color: 'Navy', size: null },
      products: [exampleVariant],
    },
  },
})
