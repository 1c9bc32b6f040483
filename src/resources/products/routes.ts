import type { RequestContext } from '../../kernel/api/context.ts'
import type { Input, ResponseBody } from '../../kernel/api/contract.ts'
import { route } from '../../kernel/api/endpoint.ts'
import { errorFor, found, invalid } from '../../kernel/http/errors.ts'
import { log, nameOf, withDeadline } from '../../kernel/http/isolate.ts'
import { presentItem } from '../orders/parts-sql.ts'
import { fromCents } from '../orders/totals.ts'
import * as contract from './contract.ts'
import { SOURCES, type Source, type SupplierName, suppliers } from './contract.ts'
import { findIntegration, findInvoiceItem, type Integration, searchOwn } from './queries.ts'
import { type SupplierResult, startLookup } from './supplier-cache.ts'
import type { ProductQuery, Supplier } from './suppliers/supplier.ts'

const SEARCH_MS = 4_000
/** Product info waits this long for a supplier. */
const INFO_MS = 10_000

export const routes = [
  route(contract.searchProducts, ({ query }, context) => searchProducts(context, query)),

  route(contract.readProduct, async ({ params: { source }, query: { id, ...query } }, context) => {
    if (source !== 'invoice_item') return readSupplierProducts(context, source, query)
    if (id === undefined) throw invalid([{ path: 'id', message: 'is required' }])
    return { source, item: presentItem(found(await findInvoiceItem(context, id), 'Invoice item')) }
  }),
]

/** @throws ApiError 409 without an enabled, readable integration, 502 when the supplier fails and nothing is cached */
async function readSupplierProducts(context: RequestContext, source: SupplierName, query: ProductQuery) {
  const deadline = Date.now() + INFO_MS
  const supplier: Supplier = suppliers[source]
  const { lookup, parameters, select = (items) => items } = supplier.find(query)
  const finish = startLookup(context, supplier, lookup)
  const integration = await findIntegration(context, source)
  if (!integration?.enabled) throw errorFor(integration ? 'integration_disabled' : 'integration_missing')
  const result = await finish(integration, deadline)
  if (result.state === 'failed') throw errorFor(result.reason, { cause: result.cause })
  // A supplier defines the contract's schema of its items itself.
  return { source, query: parameters, products: select(result.items) } as ResponseBody<typeof contract.readProduct>
}

/** Searches all sources concurrently. One that fails or misses the deadline is named in `sources`, and not thrown. */
async function searchProducts(context: RequestContext, query: Input<typeof contract.searchProducts>['query']) {
  const deadline = Date.now() + SEARCH_MS
  // Control characters match nothing, so a text of only these is blank.
  const q = (query.q ?? '').replaceAll(/\p{Cc}/gu, ' ').trim()
  const included = new Set(query.include?.length ? query.include : SOURCES)
  const isWanted = (source: Source) => included.has(source) && (source === 'local' || q !== '')

  const database = withDeadline(searchOwn(context, q, isWanted), SEARCH_MS).catch((error: unknown) => {
    // Log only the name: the message of a failed query holds the search text.
    log('search_database_failed', { request_id: context.requestId, error: nameOf(error) })
    return null
  })
  const searches = Object.values(suppliers).map((supplier) =>
    searchSupplier(context, supplier, isWanted(supplier.name) ? q : '', database, deadline),
  )
  const [own, ...parts] = await Promise.all([database, ...searches])

  const ownState = (source: Source) => (isWanted(source) ? (own ? 'ok' : 'failed') : 'skipped')
  // A supplier defines the contract's schema of its part itself.
  return {
    query: query.q ?? '',
    local_items: (own?.items ?? []).map(({ id, title, description, price_cents }) => {
      return { id, title, description, price: price_cents === null ? null : fromCents(price_cents) }
    }),
    ...Object.assign({}, ...parts.map(({ body }) => body)),
    invoice_lines: (own?.lines ?? []).map(presentItem),
    sources: {
      local: ownState('local'),
      ...Object.fromEntries(parts.map(({ name, state }) => [name, state])),
      lines: ownState('lines'),
    },
  } as ResponseBody<typeof contract.searchProducts>
}

/** Tries the supplier's lookups until one has items; a blank `q` skips it. All lookups start beside the database. */
async function searchSupplier(
  context: RequestContext,
  supplier: Supplier,
  q: string,
  database: Promise<{ integrations: Integration[] } | null>,
  deadline: number,
) {
  const { name } = supplier
  const { lookups, present } = supplier.search(q)
  const started = lookups.map((lookup) => startLookup(context, supplier, lookup))
  const own = await database
  const integration = own ? own.integrations.find(({ kind, enabled }) => kind === name && enabled) : 'unknown'
  if (!integration) return { name, state: q === '' ? 'skipped' : 'not_configured', body: present([], 0) }

  let state: SupplierResult['state'] = 'skipped'
  for (const [index, finish] of started.entries()) {
    const result = await finish(integration, deadline)
    state = result.state
    if (result.items.length > 0) return { name, state, body: present(result.items, index) }
    // A failing supplier is not called again.
    if (state === 'failed') break
  }
  return { name, state, body: present([], 0) }
}
