import type { RequestContext } from '../http/context.ts'
import type { Answer } from '../http/contract.ts'
import { withDeadline } from '../http/deadline.ts'
import { log } from '../http/log.ts'
import { type searchProducts as contract, SOURCES, type Source, type SourceState } from './contract.ts'
import { type Found, finishLookup, type Started, startLookup } from './find.ts'
import { styleOfSupplierA, stylesOfSupplierB } from './lookups.ts'
import { presentCatalogItem, presentLine } from './present.ts'
import { type IntegrationRow, searchOwn } from './queries.ts'
import { findStyleCandidates } from './style-token.ts'
import type { SupplierName } from './suppliers/supplier.ts'
import { type SupplierAVariant, summarise } from './suppliers/variants.ts'

/** The whole search answers in this time, whatever its sources do. */
const SEARCH_MS = 4_000

/** Of the style numbers that a text may mean so many are tried. */
const STYLE_TRIES = 2

type SearchAnswer = Answer<typeof contract>

/** Waits for a supplier's part of the search; null where the company does not use the supplier. */
type Finish = <Item>(supplier: SupplierName, started: Started<Item>) => Promise<Found<Item> | null>

/**
 * The answer of the search. The database, the cache and both suppliers are asked at once; a source that fails, or takes
 * longer than the search, is told in `sources` and never makes it throw.
 */
export async function searchProducts(
  context: RequestContext,
  query: { q?: string | undefined; include?: Source[] | undefined },
): Promise<SearchAnswer> {
  const options = { until: Date.now() + SEARCH_MS, sparing: true }
  const q = query.q?.trim() ?? ''
  const included = new Set(query.include?.length ? query.include : SOURCES)
  const isAsked = (source: Source) => included.has(source) && (source === 'local' || q !== '')

  const own = searchDatabase(context, q, { local: isAsked('local'), lines: isAsked('lines') })
  const finish: Finish = async (supplier, started) => {
    const found = await own
    const row = found ? found.suppliers.find(isUsable(supplier)) : 'unknown'
    return row ? finishLookup(context, started, row, options) : null
  }
  const [found, styles, supplierA] = await Promise.all([
    own,
    isAsked('supplier_b') ? finish('supplier_b', startLookup(context, stylesOfSupplierB(q))) : undefined,
    isAsked('supplier_a') ? findStyle(context, q, finish) : undefined,
  ])

  const ownState = (source: Source) => (isAsked(source) ? (found ? 'ok' : 'failed') : 'skipped')
  return {
    query: query.q ?? '',
    local_items: found?.items.map(presentCatalogItem) ?? [],
    supplier_b_styles: styles?.items ?? [],
    supplier_a: supplierA?.answer ?? NO_STYLE,
    invoice_lines: found?.lines.map(presentLine) ?? [],
    sources: {
      local: ownState('local'),
      supplier_b: styles === undefined ? 'skipped' : (styles?.state ?? 'not_configured'),
      supplier_a: supplierA?.state ?? 'skipped',
      lines: ownState('lines'),
    },
  }
}

const NO_STYLE: SearchAnswer['supplier_a'] = { style: null, products: [], count: 0, summary: null }

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

/** The first of the styles that `q` may mean which supplier_a knows. The caches of all are read at once. */
async function findStyle(
  context: RequestContext,
  q: string,
  finish: Finish,
): Promise<{ state: SourceState; answer: SearchAnswer['supplier_a'] }> {
  const styles = findStyleCandidates(q).slice(0, STYLE_TRIES)
  const tries = styles.map((style) => ({ style, started: startLookup(context, styleOfSupplierA(style)) }))
  const [first = null] = styles
  let state: SourceState = 'skipped'
  for (const { style, started } of tries) {
    const found = await finish('supplier_a', started)
    state = found?.state ?? 'not_configured'
    // A supplier that fails is not tried again, and what it might know stays open.
    if (found?.items.length) return { state, answer: presentStyle(style, found.items) }
    if (!found || found.state === 'failed') break
  }
  return { state, answer: { ...NO_STYLE, style: first } }
}

function presentStyle(style: string, products: SupplierAVariant[]): SearchAnswer['supplier_a'] {
  return { style, products, count: products.length, summary: summarise(style, products) }
}

function isUsable(supplier: SupplierName) {
  return (row: IntegrationRow) => row.kind === supplier && row.enabled
}
