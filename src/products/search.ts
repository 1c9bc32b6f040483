import type { RequestContext } from '../http/context.ts'
import type { Answer } from '../http/contract.ts'
import { type searchProducts as contract, SOURCES, type Source, type SourceState } from './contract.ts'
import { presentCatalogItem, presentLine } from './present.ts'
import { type IntegrationRow, searchOwn } from './queries.ts'
import { findStyleCandidates } from './style-token.ts'

/** The answer of the search. A source that fails never makes it throw. */
export async function searchProducts(
  { db, token }: RequestContext,
  query: { q?: string | undefined; include?: Source[] | undefined },
): Promise<Answer<typeof contract>> {
  const q = query.q?.trim() ?? ''
  const included = new Set(query.include?.length ? query.include : SOURCES)
  const own = { local: included.has('local'), lines: included.has('lines') && q !== '' }
  const [style = null] = q === '' ? [] : findStyleCandidates(q)

  const { items, lines, suppliers } = await searchOwn(db, token, q, own)
  const stateOf = (name: 'supplier_a' | 'supplier_b'): SourceState => {
    if (q === '' || !included.has(name)) return 'skipped'
    return isConfigured(suppliers.find((row) => row.kind === name)) ? 'failed' : 'not_configured'
  }
  return {
    query: query.q ?? '',
    local_items: items.map(presentCatalogItem),
    supplier_b_styles: [],
    supplier_a: { style, products: [], count: 0, summary: null },
    invoice_lines: lines.map(presentLine),
    sources: {
      local: own.local ? 'ok' : 'skipped',
      supplier_b: stateOf('supplier_b'),
      supplier_a: stateOf('supplier_a'),
      lines: own.lines ? 'ok' : 'skipped',
    },
  }
}

function isConfigured(row: IntegrationRow | undefined): boolean {
  return row?.enabled === true
}
