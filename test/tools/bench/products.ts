import { cpSync } from 'node:fs'
import type { Miniflare } from 'miniflare'
import { encryptCredentials } from '../../../src/kernel/db/credentials.ts'
import type { Simulator } from '../../../src/simulators/kit.ts'
import { spoil } from '../../../src/simulators/steer.ts'
import { CREDENTIALS as CREDENTIALS_A, ENDPOINT_PATH, startSupplierA } from '../../../src/simulators/supplier-a.ts'
import { CREDENTIALS as CREDENTIALS_B, startSupplierB } from '../../../src/simulators/supplier-b.ts'
import { STYLES } from '../../../src/simulators/supplier-b-catalogue.ts'
import { fillCompany } from '../harness/company.ts'
import { get, sendWell } from '../harness/http.ts'
import { column, compare, inTurn, judged, loadOf } from '../harness/load.ts'
import { CREDENTIALS_KEY, fillState, openBuild, type Running, startApi, startFloor } from '../harness/worker.ts'

const SIZE = 10_000
const TOKENS = 150
const PACE = { warmUpSeconds: 1, slices: 12, sliceSeconds: 1 }

/** How much of the floor's p50 a search may take whose suppliers are cached. */
const WARM_TARGET = 2

/** Searches that find something in all four sources: a usual style, and the largest there is (558 variants). */
const USUAL = 'PC61'
const LARGEST = 'DT6000'

/** Search with all four sources, whose suppliers' responses are in KV, against a floor in the same run. */
export async function run(): Promise<void> {
  await using build = await openBuild('no-company-limit.js')
  const { script, state } = build
  const suppliers = { a: await startSupplierA(), b: await startSupplierB() }
  try {
    // Whatever is searched for, supplier_b finds these; its own search knows no style number of supplier_a.
    await spoil(suppliers.b.url, { body: JSON.stringify(STYLES.slice(0, 20)), times: -1 })
    const tokens = await fillState(state, (worker) => fill(worker, suppliers))
    const keys = await warmCache(script, state, tokens)

    // A new process: what it knows of the suppliers it must read from KV.
    const floorState = `${state}-floor`
    cpSync(state, floorState, { recursive: true })
    await using api = await startApi(script, state)
    await using floor = await startFloor('floor-products.js', floorState)
    await Promise.all(tokens.map((token) => search(api, token, USUAL)))
    await compareWarm(api, floor, tokens, keys)
  } finally {
    await Promise.all([suppliers.a.close(), suppliers.b.close()])
  }
}

type Suppliers = Record<'a' | 'b', Simulator>

async function fill(worker: Miniflare, suppliers: Suppliers): Promise<string[]> {
  const tokens = await fillCompany(worker, SIZE, TOKENS)
  const db = await worker.getD1Database('DB')
  const integration = async (kind: 'supplier_a' | 'supplier_b', baseUrl: string, credentials: object) =>
    db
      .prepare(
        'INSERT INTO integrations (company_id, kind, enabled, base_url, credentials, updated_at) VALUES (1, ?, 1, ?, ?, 1)',
      )
      .bind(kind, baseUrl, await encryptCredentials(CREDENTIALS_KEY, 1, kind, credentials))
  const title = `'Heavy cotton tee ' || CASE id % 200 WHEN 0 THEN '${USUAL}' WHEN 1 THEN '${LARGEST}' ELSE 'N' || id END`
  await db.batch([
    db.prepare(
      `INSERT INTO catalog_items (company_id, id, title, price_cents, search_text)
       SELECT 1, id, ${title}, 950, upper(${title}) FROM clients WHERE company_id = 1 AND id <= ${SIZE}`,
    ),
    db.prepare(
      `UPDATE invoice_items SET title = ${title}, search_text = upper(${title}) WHERE company_id = 1 AND id <= ${SIZE}`,
    ),
    await integration('supplier_a', `${suppliers.a.url}${ENDPOINT_PATH}`, CREDENTIALS_A),
    await integration('supplier_b', suppliers.b.url, CREDENTIALS_B),
  ])
  return tokens
}

/** KV's keys of the two suppliers' responses to one search. */
type Keys = { a: string; b: string }

/** Searches once, so that KV holds the suppliers' responses; returns their keys by search. */
async function warmCache(script: string, state: string, tokens: string[]): Promise<Map<string, Keys>> {
  await using api = await startApi(script, state)
  const kv = await api.worker.getKVNamespace('CACHE')
  const known = new Map<string, Keys>()
  const seen = new Set<string>()
  for (const q of [USUAL, LARGEST]) {
    const found = await search(api, tokens[0] ?? '', q)
    const sizes = [found.local_items, found.invoice_lines, found.supplier_b_styles, found.supplier_a.products]
    if (sizes.some((list) => list.length === 0)) throw new Error(`${q} does not find something in all four sources.`)
    for (let tries = 0; !known.has(q); tries++) {
      if (tries > 100) throw new Error('The cache was not filled.')
      await new Promise((resolve) => setTimeout(resolve, 50))
      const fresh = (await kv.list()).keys.map(({ name }) => name).filter((name) => !seen.has(name))
      const [a, b] = ['supplier_a', 'supplier_b'].map((supplier) => fresh.find((name) => name.includes(supplier)))
      if (a && b) known.set(q, { a, b })
    }
    for (const key of Object.values(known.get(q) ?? {})) seen.add(key)
  }
  return known
}

async function compareWarm(api: Running, floor: Running, tokens: string[], keys: Map<string, Keys>): Promise<void> {
  console.log(`\nWarm in KV: ${PACE.slices} slices of ${PACE.sliceSeconds} s in turn, p50 in ms`)
  console.log('  search                      API    floor   ratio target')
  const token = inTurn(tokens)
  for (const [q, { a, b }] of keys) {
    const ofApi = () => get(`/products/search?q=${q}`, token())
    const ofFloor = () => ({ path: `/?${new URLSearchParams({ q, a, b })}` })
    const p50 = await compare({ floor: loadOf(floor.url, ofFloor), api: loadOf(api.url, ofApi) }, PACE)
    const ratio = judged(p50.api / p50.floor, WARM_TARGET)
    console.log(`  ${q.padEnd(22)} ${column(p50.api)} ${column(p50.floor)}  ${ratio}`)
  }
}

interface SearchResponse {
  local_items: unknown[]
  supplier_b_styles: unknown[]
  supplier_a: { products: unknown[] }
  invoice_lines: unknown[]
  sources: Record<string, string>
}

async function search({ url }: Running, token: string, q: string): Promise<SearchResponse> {
  const response = await sendWell(url, get(`/products/search?q=${q}`, token))
  const found = (await response.json()) as SearchResponse
  const states = Object.values(found.sources)
  if (states.some((state) => state !== 'ok')) throw new Error(`A source of the search for ${q}: ${states}`)
  return found
}
