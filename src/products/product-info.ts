import type { RequestContext } from '../context.ts'
import type { ResponseBody } from '../http/contract.ts'
import { type ApiError, invalid, notFound, unusable } from '../http/errors.ts'
import type { readProduct as contract } from './contract.ts'
import { finishLookup, startLookup } from './find.ts'
import { type Lookup, productsOfSupplierB, skuOfSupplierB, styleOfSupplierA } from './lookups.ts'
import { presentLine } from './present.ts'
import { findIntegration, findInvoiceItem } from './queries.ts'
import type { SupplierName } from './suppliers/supplier.ts'

import { supplierBIdSchema } from './suppliers/supplier-b.ts'
import { filterVariants } from './suppliers/variants.ts'

/** How long product info waits for a supplier. */
const INFO_MS = 10_000

type ProductInfo = ResponseBody<typeof contract>

export interface ProductQuery {
  style?: string | undefined
  color?: string | undefined
  size?: string | undefined
  sku?: string | undefined
  styleId?: string | undefined
  styleid?: string | undefined
}

/** @throws ApiError 400 without an id, 404 when there is no such line in the company */
export async function readInvoiceLine({ db, companyId }: RequestContext, id: number | undefined): Promise<ProductInfo> {
  if (id === undefined) throw missing('id')
  const row = await findInvoiceItem(db, companyId, id)
  if (!row) throw notFound('Invoice item')
  return { source: 'invoice_item', item: presentLine(row) }
}

/**
 * A supplier's products: the cached ones, else the supplier's. An unknown style has none.
 *
 * @throws ApiError 400 for what is missing or can be no id, 409 without the integration, 502 when the supplier fails
 *   and nothing is cached
 */
export async function readSupplierProducts(
  context: RequestContext,
  source: SupplierName,
  query: ProductQuery,
): Promise<ProductInfo> {
  if (source === 'supplier_a') {
    const { style, color = null, size = null } = query
    if (style === undefined) throw missing('style')
    const variants = await find(context, styleOfSupplierA(style))
    return { source, query: { style, color, size }, products: filterVariants(variants, query) }
  }
  const sku = checkId(query, 'sku')
  if (sku !== null) {
    return { source, query: { sku, styleId: null }, products: await find(context, skuOfSupplierB(sku)) }
  }
  const styleId = checkId(query, 'styleId') ?? checkId(query, 'styleid') ?? checkId(query, 'style')
  if (styleId === null) throw missing('styleId')
  return { source, query: { sku, styleId }, products: await find(context, productsOfSupplierB(styleId)) }
}

async function find<Item>(context: RequestContext, lookup: Lookup<Item>): Promise<Item[]> {
  const options = { until: Date.now() + INFO_MS, sparing: false }
  const started = startLookup(context, lookup)
  const row = await findIntegration(context.db, context.companyId, lookup.supplier)
  if (!row?.enabled) throw unusable(row ? 'integration_disabled' : 'integration_missing')
  const found = await finishLookup(context, started, row, options)
  if (found.state === 'failed') throw unusable(found.reason)
  return found.items
}

/** The id that a parameter gives, or null where it is left out. */
function checkId(query: ProductQuery, path: 'sku' | 'styleId' | 'styleid' | 'style'): string | null {
  const id = query[path]
  if (id === undefined) return null
  const checked = supplierBIdSchema.safeParse(id)
  if (checked.success) return checked.data
  throw invalid(checked.error.issues.map(({ message }) => ({ path, message })))
}

function missing(path: string): ApiError {
  return invalid([{ path, message: 'is required' }])
}
