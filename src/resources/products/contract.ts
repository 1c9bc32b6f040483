import * as z from 'zod/mini'
import { amount, commaList, component, defineContract, id, idText, text } from '../../kernel/api/contract.ts'
import { invoiceItem } from '../orders/contract.ts'
import { supplierASearchSchema, supplierAVariantSchema } from './suppliers/supplier-a.ts'
import { supplierBColorGroupSchema, supplierBStyleSchema } from './suppliers/supplier-b.ts'

/** The sources of the search, in the order of the contract. */
export const SOURCES = ['local', 'supplier_b', 'supplier_a', 'lines'] as const

export type Source = (typeof SOURCES)[number]

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

const include = commaList(
  SOURCES,
  `Comma list of the sources to search: ${SOURCES.join(', ')}. Left out or blank: all.`,
)

export const searchProducts = defineContract({
  method: 'GET',
  path: '/products/search',
  operationId: 'searchProducts',
  tag: 'Products',
  permission: 'products:read',
  query: z.strictObject({
    q: z
      .optional(text(0, 200))
      .check(
        z.describe(
          'Search text. Of a line, the title and the first 200 characters of the description are searched, and of all lines of an invoice the first 40,000 characters of these.',
        ),
      ),
    include: z.optional(include),
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
  errors: [],
})

/** Trims a parameter of product info; a blank one counts as omitted. */
const trimmed = z.transform((value: string) => value.trim() || undefined)
const parameter = z.optional(z.pipe(text(0, 100), trimmed)).check(z.meta({ type: 'string' }))

const productSource = z.enum(['supplier_a', 'supplier_b', 'invoice_item'])

export const readProduct = defineContract({
  method: 'GET',
  path: '/products/{source}',
  operationId: 'readProduct',
  tag: 'Products',
  permission: 'products:read',
  params: z.strictObject({ source: productSource.check(z.describe('Where the product is.')) }),
  query: z.strictObject({
    style: parameter.check(
      z.describe('supplier_a: the style, required. supplier_b: the style id where `sku` and `styleId` are left out.'),
    ),
    color: parameter.check(z.describe('supplier_a: only variants of this colour.')),
    size: parameter.check(z.describe('supplier_a: only variants of this size.')),
    sku: parameter.check(z.describe('supplier_b: one SKU.')),
    styleId: parameter.check(z.describe('supplier_b: all SKUs of this style.')),
    styleid: parameter.check(z.describe('The same as `styleId`.')),
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

export const endpoints = [searchProducts, readProduct]
