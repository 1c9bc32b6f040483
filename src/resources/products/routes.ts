import type { RequestContext } from '../../kernel/api/context.ts'
import type { ResponseBody } from '../../kernel/api/contract.ts'
import { route } from '../../kernel/api/endpoint.ts'
import { invalid, notFound, unusable } from '../../kernel/http/errors.ts'
import { presentItem } from '../orders/present.ts'
import * as contract from './contract.ts'
import { findIntegration, findInvoiceItem } from './queries.ts'
import { searchProducts } from './search.ts'
import { startLookup } from './supplier-cache.ts'
import { type SupplierName, suppliers } from './suppliers/registry.ts'
import type { ProductQuery, Supplier } from './suppliers/supplier.ts'

/** Product info waits this long for a supplier. */
const INFO_MS = 10_000

export const routes = [
  route(contract.searchProducts, ({ query }, context) => searchProducts(context, query)),

  route(contract.readProduct, async ({ params: { source }, query: { id, ...query } }, context) => {
    if (source !== 'invoice_item') return readSupplierProducts(context, source, query)
    if (id === undefined) throw invalid([{ path: 'id', message: 'is required' }])
    const row = await findInvoiceItem(context, id)
    if (!row) throw notFound('Invoice item')
    return { source, item: presentItem(row) }
  }),
]

/**
 * @throws ApiError 409 without an enabled and readable integration, 502 when the supplier fails and nothing is cached
 */
async function readSupplierProducts(context: RequestContext, source: SupplierName, query: ProductQuery) {
  const deadline = Date.now() + INFO_MS
  const supplier: Supplier = suppliers[source]
  const { lookup, parameters, select = (items) => items } = supplier.adapter.find(query)
  const finish = startLookup(context, supplier, lookup)
  const integration = await findIntegration(context, source)
  if (!integration?.enabled) throw unusable(integration ? 'integration_disabled' : 'integration_missing')
  const result = await finish(integration, { deadline, isSparing: false })
  if (result.state === 'failed') throw unusable(result.reason, { cause: result.cause })
  // An adapter defines the contract's schema of its items itself.
  return { source, query: parameters, products: select(result.items) } as ResponseBody<typeof contract.readProduct>
}
