import * as z from 'zod/mini'
import {
  amount,
  commaList,
  component,
  contractsOf,
  type Documentation,
  id,
  idText,
  text,
} from '../../kernel/api/contract.ts'
import { invoiceItem } from '../orders/shapes.ts'
import type { Supplier } from './suppliers/supplier.ts'
import { supplierA, supplierASearchSchema, supplierAVariantSchema } from './suppliers/supplier-a.ts'
import { supplierB, supplierBColorGroupSchema, supplierBStyleSchema } from './suppliers/supplier-b.ts'

/** Every supplier, by the `kind` of its integrations. */
export const suppliers = { supplier_b: supplierB, supplier_a: supplierA } as const satisfies Record<string, Supplier>

export type SupplierName = keyof typeof suppliers

export const SOURCES = ['local', 'supplier_b', 'supplier_a', 'lines'] as const

export type Source = (typeof SOURCES)[number]

const SEARCH_TEXT =
  'Search text. Of a line, the title and the first 200 characters of the description are searched, and of all lines of an invoice the first 40,000 characters of these.'

const SOURCE_STATE =
  '`ok`: searched, or fresh from the cache. `stale`: older results, while the supplier fails or is called again. `skipped`: not included, or `q` has nothing for it. `not_configured`: the company has no such integration, or it is disabled. `failed`: no response, and nothing in the cache.'
const sourceState = z.enum(['ok', 'stale', 'skipped', 'not_configured', 'failed']).check(z.describe(SOURCE_STATE))

export type SourceState = z.output<typeof sourceState>

const catalogItem = component('CatalogItem', 'An item of the company’s own catalogue.', {
  id,
  title: z.string(),
  description: z.nullable(z.string()),
  price: z.nullable(amount),
})

const define = contractsOf('Products', 'products')

export const searchProducts = define('searchProducts', 'GET /products/search', {
  query: z.strictObject({
    q: z.optional(text(0, 200)).check(z.describe(SEARCH_TEXT)),
    include: z.optional(
      commaList(SOURCES, `Comma list of the sources to search: ${SOURCES.join(', ')}. Left out or blank: all.`),
    ),
  }),
  response: z.strictObject({
    query: z.string().check(z.describe('`q` as it was sent; empty when it was not.')),
    local_items: z.array(catalogItem),
    supplier_b_styles: z.array(supplierBStyleSchema),
    supplier_a: supplierASearchSchema,
    invoice_lines: z.array(invoiceItem),
    sources: z.strictObject({
      local: sourceState,
      supplier_b: sourceState,
      supplier_a: sourceState,
      lines: sourceState,
    }),
  }),
})

const trimmed = z.transform((value: string) => value.trim() || undefined)
const parameter = z.optional(z.pipe(text(0, 100), trimmed)).check(z.meta({ type: 'string' }))

const productSource = z.enum(['supplier_a', 'supplier_b', 'invoice_item'])

export const readProduct = define('readProduct', 'GET /products/{source}', {
  params: z.strictObject({ source: productSource.check(z.describe('Where the product is.')) }),
  query: z.strictObject({
    style: parameter.check(
      z.describe('supplier_a: the style, required. supplier_b: the style id where `sku` and `styleId` are left out.'),
    ),
    color: parameter.check(z.describe('supplier_a: only variants of this colour.')),
    size: parameter.check(z.describe('supplier_a: only variants of this size.')),
    sku: parameter.check(z.describe('supplier_b: one SKU.')),
    styleId: parameter.check(z.describe('supplier_b: all SKUs of this style.')),
    styleid: parameter.check(z.describe('The same as `styleId`, which takes precedence.')),
    id: z.optional(idText).check(z.describe('invoice_item: the id, required.')),
  }),
  response: z.union([
    z.strictObject({
      source: z.literal('supplier_a'),
      query: z.strictObject({ style: z.string(), color: z.nullable(z.string()), size: z.nullable(z.string()) }),
      products: z.array(supplierAVariantSchema),
    }),
    z.strictObject({
      source: z.literal('supplier_b'),
      query: z.strictObject({ sku: z.nullable(z.string()), styleId: z.nullable(z.string()) }),
      products: z.array(supplierBColorGroupSchema),
    }),
    z.strictObject({ source: z.literal('invoice_item'), item: invoiceItem }),
  ]),
  errors: ['not_found', 'conflict', 'upstream_failed'],
})

export const published = {
  tags: {
    Products: 'Product search over the company item catalog, two suppliers and stored invoice lines.',
  },
  document: (): Record<string, Documentation> => ({
    searchProducts: {
      summary: 'Search the catalogue, both suppliers and stored invoice lines',
      description:
        'Searches the sources in parallel and always responds within about 4 seconds: a source that fails or is too slow has empty arrays, and `sources` says why. Every word of `q` must occur, ignoring case: in the title (local), in the title or the first 200 characters of the description (lines); at most 50 per source, newest first. supplier_a is searched for the style number found in `q`: the first of at most two that it knows. A number of 3 to 6 digits counts as one only alone, unless it may be a year, or after `style` or `#`. A blank `q` returns the 20 newest items of the catalogue and nothing else. Results of suppliers are cached: fresh for 10 minutes, then stale for up to 24 hours while they are refreshed.',
      example: { query: { q: 'triblend embroidery', include: 'local,lines' } },
    },
    readProduct: {
      summary: 'Read a supplier’s product or a stored invoice line',
      description:
        '`supplier_a` requires `style` and returns its variants, filtered by `color` and `size`. `supplier_b` requires `sku` or `styleId` (alias `styleid`; `style` is used when neither is sent; `sku` takes precedence) and returns the SKUs grouped by colour. `invoice_item` requires `id`. Parameters of another source are ignored, but must have their form. `query` holds the parameters that were used. An unknown style or SKU returns no products, not an error; of supplier_b, one with a comma or control characters, or of dots only, is a 400. Results of suppliers are cached: fresh for 10 minutes, then stale for up to 24 hours while they are refreshed; a style that supplier_a does not know is cached for an hour. 409: the company has no such integration, or it is disabled. 502: the supplier failed, or rejected the company’s credentials, and nothing is cached.',
      example: { params: { source: 'supplier_a' }, query: { style: 'SOLO1', color: 'Athletic Heather' } },
    },
  }),
}
