import type { RequestContext } from '../context.ts'
import type { ResponseBody } from '../http/contract.ts'
import { withDeadline } from '../http/deadline.ts'
import { log } from '../http/log.ts'
import { type searchProducts as contract, SOURCES, type Source, type SourceState } from './contract.ts'
import { finishLookup, startLookup } from './find.ts'
import { styleOfSupplierA, stylesOfSupplierB } from './lookups.ts'
import { presentCatalogItem, presentLine } from './present.ts'
import { type IntegrationRow, searchOwn } from './queries.ts'
import { findStyleCandidates } from './style-token.ts'
import type { SupplierBStyle } from './suppliers/color-groups.ts'
import type { SupplierName } from './suppliers/supplier.ts'
import { type SupplierAVariant, summarise } from './suppliers/variants.ts'

/** The whole search answers in this time, whatever its sources do. */
const SEARCH_MS = 4_000

/** Of the style numbers that a text may mean so many are tried. */
const STYLE_TRIES = 2

type SearchAnswer = ResponseBody<typeof contract>

/** What both suppliers' parts of one search share. */
interface Search {
  context: RequestContext
  q: string
  until: number
  /** The company's integration, null where it has none that is enabled, `unknown` where the database fails. */
  integrationOf: (supplier: SupplierName) => Promise<IntegrationRow | 'unknown' | null>
}

/**
 * The answer of the search. The database, the cache and both suppliers are asked at once; a source that fails, or takes
 * longer than the search, is told in `sources` and never makes it throw.
 */
export async function searchProducts(
  context: RequestContext,
  query: { q?: string | undefined; include?: Source[] | undefined },
): Promise<SearchAnswer> {
  const until = Date.now() + SEARCH_MS
  // Nothing can be found by control characters: with nothing beside them the text is blank.
  const q = (query.q ?? '').replaceAll(/\p{Cc}/gu, ' ').trim()
  const included = new Set(query.include?.length ? query.include : SOURCES)
  const isAsked = (source: Source) => included.has(source) && (source === 'local' || q !== '')

  const own = searchDatabase(context, q, { local: isAsked('local'), lines: isAsked('lines') })
  const integrationOf: Search['integrationOf'] = async (supplier) => {
    const found = await own
    return found ? (found.suppliers.find((row) => row.kind === supplier && row.enabled) ?? null) : 'unknown'
  }
  const search = { context, q, until, integrationOf }
  const [found, supplierB, supplierA] = await Promise.all([
    own,
    isAsked('supplier_b') ? findStyles(search) : SKIPPED,
    isAsked('supplier_a') ? findStyle(search) : { ...SKIPPED, style: null },
  ])

  const ownState = (source: Source) => (isAsked(source) ? (found ? 'ok' : 'failed') : 'skipped')
  return {
    query: query.q ?? '',
    local_items: found?.items.map(presentCatalogItem) ?? [],
    supplier_b_styles: supplierB.items,
    supplier_a: presentStyle(supplierA.style, supplierA.items),
    invoice_lines: found?.lines.map(presentLine) ?? [],
    sources: {
      local: ownState('local'),
      supplier_b: supplierB.state,
      supplier_a: supplierA.state,
      lines: ownState('lines'),
    },
  }
}

interface SupplierPart<Item> {
  state: SourceState
  items: Item[]
}

const SKIPPED: SupplierPart<never> = { state: 'skipped', items: [] }
const NOT_CONFIGURED: SupplierPart<never> = { state: 'not_configured', items: [] }

/** The database's part, or null when it fails or is too slow. */
async function searchDatabase(context: RequestContext, q: string, wanted: { local: boolean; lines: boolean }) {
  try {
    return await withDeadline(searchOwn(context.db, context.token, q, wanted), SEARCH_MS)
  } catch (error) {
    // The name alone: the message of a failed query holds what was searched for.
    log('search_database_failed', {
      request_id: context.requestId,
      error: error instanceof Error ? error.name : typeof error,
    })
    return null
  }
}

async function findStyles({ context, q, until, integrationOf }: Search): Promise<SupplierPart<SupplierBStyle>> {
  const started = startLookup(context, stylesOfSupplierB(q))
  const integration = await integrationOf('supplier_b')
  return integration ? finishLookup(context, started, integration, { until, sparing: true }) : NOT_CONFIGURED
}

/** The first of the styles that `q` may mean which supplier_a knows. The caches of all are read at once. */
async function findStyle({
  context,
  q,
  until,
  integrationOf,
}: Search): Promise<SupplierPart<SupplierAVariant> & { style: string | null }> {
  const styles = findStyleCandidates(q).slice(0, STYLE_TRIES)
  const tries = styles.map((style) => ({ style, started: startLookup(context, styleOfSupplierA(style)) }))
  const integration = await integrationOf('supplier_a')
  const [first = null] = styles
  if (!integration) return { ...NOT_CONFIGURED, style: first }

  let part: SupplierPart<SupplierAVariant> = SKIPPED
  for (const { style, started } of tries) {
    part = await finishLookup(context, started, integration, { until, sparing: true })
    if (part.items.length > 0) return { ...part, style }
    // A supplier that fails is not tried again, and what it might know stays open.
    if (part.state === 'failed') break
  }
  return { ...part, style: first }
}

function presentStyle(style: string | null, products: SupplierAVariant[]): SearchAnswer['supplier_a'] {
  return { style, products, count: products.length, summary: style === null ? null : summarise(style, products) }
}
