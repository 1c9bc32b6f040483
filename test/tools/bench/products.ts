import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Miniflare } from 'miniflare'
import { encryptCredentials } from '../../../src/kernel/db/credentials.ts'
import type { Simulator } from '../../../src/simulators/kit.ts'
import { look, spoil } from '../../../src/simulators/steer.ts'
import { CREDENTIALS as CREDENTIALS_A, ENDPOINT_PATH, startSupplierA } from '../../../src/simulators/supplier-a.ts'
import { CREDENTIALS as CREDENTIALS_B, startSupplierB } from '../../../src/simulators/supplier-b.ts'
import { STYLES } from '../../../src/simulators/supplier-b-catalogue.ts'
import { fillState, inDirectory } from '../harness/state.ts'
import { fillCompany } from './company.ts'
import { bearer, compare, type Figures, loadOf, quantile } from './load.ts'
import { measureSoapParsing } from './parse-soap.ts'
import { buildWorker, CREDENTIALS_KEY, type Running, startApi, startBare } from './worker.ts'

const SIZE = 10_000
const TOKENS = 150
const PACE = { warmUpSeconds: 1, slices: 12, sliceSeconds: 1 }
const COLD_RUNS = 40
const SLOW_MS = 3_000
const SLOW_RUNS = 4
const SLOW_AT_ONCE = 8

/** How much of the floor's p50 a search may take whose suppliers are cached. */
const WARM_TARGET = 2

/** Searches that find something in all four sources: a usual style, and the largest there is (558 variants). */
const USUAL = 'PC61'
const LARGEST = 'DT6000'

/** Search with all four sources: warm in KV against a floor in the same run, cold, and with slow suppliers. */
export const run = (): Promise<void> => inDirectory(measure)

async function measure(directory: string): Promise<void> {
  const suppliers = { a: await startSupplierA(), b: await startSupplierB() }
  try {
    // Whatever is searched for, supplier_b finds these; its own search knows no style number of supplier_a.
    await spoil(suppliers.b.url, { body: JSON.stringify(STYLES.slice(0, 20)), times: -1 })
    const script = buildWorker(join(directory, 'build'), 'no-company-limit.js')
    const floorScript = readFileSync(join(import.meta.dirname, 'floor-products.js'), 'utf8')
    const state = join(directory, 'state')
    const tokens = await fillState(state, (worker) => fill(worker, suppliers))
    const keys = await warmCache(script, state, tokens)

    // A new process: what it knows of the suppliers it must read from KV.
    const floorState = `${state}-floor`
    cpSync(state, floorState, { recursive: true })
    const api = await startApi(script, state)
    const floor = await startBare(floorScript, floorState)
    try {
      await Promise.all(tokens.map((token) => search(api, token, USUAL)))
      await compareWarm(api, floor, tokens, keys, suppliers)
      await measureCold(api, tokens, suppliers)
      await measureSlow(api, tokens, suppliers)
    } finally {
      await api.worker.dispose()
      await floor.worker.dispose()
    }
  } finally {
    await Promise.all([suppliers.a.close(), suppliers.b.close()])
  }
  const { rows, coldMs, medianMs, worstMs } = measureSoapParsing()
  console.log(
    `\nCPU to parse ${rows} SOAP rows: ${medianMs.toFixed(1)} ms (worst ${worstMs.toFixed(1)}, first ${coldMs.toFixed(1)})`,
  )
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
  const numbers = (count: number) => `(SELECT id FROM clients WHERE company_id = 1 AND id <= ${count})`
  const title = `'Heavy cotton tee ' || CASE id % 200 WHEN 0 THEN '${USUAL}' WHEN 1 THEN '${LARGEST}' ELSE 'N' || id END`
  await db.batch([
    db.prepare(
      `INSERT INTO catalog_items (company_id, id, title, price_cents, search_text)
       SELECT 1, id, ${title}, 950, upper(${title}) FROM ${numbers(SIZE)}`,
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
  const api = await startApi(script, state)
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
  await api.worker.dispose()
  return known
}

async function compareWarm(
  api: Running,
  floor: Running,
  tokens: string[],
  keys: Map<string, Keys>,
  suppliers: Suppliers,
): Promise<void> {
  console.log(`\nWarm in KV: ${PACE.slices} slices of ${PACE.sliceSeconds} s in turn, p50/p99 in ms`)
  console.log('  search                     API p50    p99   req/s    floor p50    p99   req/s   ratio  target')
  let turn = 0
  for (const [q, { a, b }] of keys) {
    const ofApi = () => ({
      path: `/api/v1/products/search?q=${q}`,
      headers: bearer(tokens[turn++ % tokens.length] ?? ''),
    })
    const ofFloor = () => ({ path: `/?${new URLSearchParams({ q, a, b })}` })
    const before = await countCalls(suppliers)
    const figures = await compare({ floor: loadOf(floor.url, ofFloor), api: loadOf(api.url, ofApi) }, PACE)
    const ratio = figures.api.p50 / figures.floor.p50
    console.log(
      `  ${q.padEnd(22)} ${columns(figures.api)}    ${columns(figures.floor)}   ${ratio.toFixed(2)}  ${WARM_TARGET}${ratio > WARM_TARGET ? '  over' : ''}`,
    )
    console.log(`  ${''.padEnd(22)} upstream calls: ${(await countCalls(suppliers)) - before}`)
  }
}

/** One search after another, each on an account that nothing is cached of. */
async function measureCold(api: Running, tokens: string[], suppliers: Suppliers): Promise<void> {
  console.log('\nCold, one after another: p50/p99 in ms')
  for (const q of [USUAL, LARGEST]) {
    const before = await countCalls(suppliers)
    const times: number[] = []
    for (let run = 0; run < COLD_RUNS; run++) {
      await changeAccounts(api.worker)
      times.push(await time(() => search(api, tokens[run] ?? '', q)))
    }
    report(`${q}, ${COLD_RUNS} searches`, times, (await countCalls(suppliers)) - before)
  }
}

/** Several at once with both suppliers slow: they share the calls. Afterwards the suppliers do not matter. */
async function measureSlow(api: Running, tokens: string[], suppliers: Suppliers): Promise<void> {
  console.log(`\nBoth suppliers at ${SLOW_MS} ms, ${SLOW_AT_ONCE} searches at once: p50/p99 in ms`)
  await spoil(suppliers.a.url, { delayMs: SLOW_MS, times: -1 })
  await spoil(suppliers.b.url, { delayMs: SLOW_MS, body: JSON.stringify(STYLES.slice(0, 20)), times: -1 })
  const cold: number[] = []
  const then: number[] = []
  let calls = 0
  let callsThen = 0
  for (let run = 0; run < SLOW_RUNS; run++) {
    await changeAccounts(api.worker)
    const before = await countCalls(suppliers)
    const atOnce = () =>
      Promise.all(Array.from({ length: SLOW_AT_ONCE }, (_, i) => time(() => search(api, tokens[i] ?? '', USUAL))))
    cold.push(...(await atOnce()))
    const between = await countCalls(suppliers)
    then.push(...(await atOnce()))
    calls += between - before
    callsThen += (await countCalls(suppliers)) - between
  }
  report(`nothing cached, ${cold.length} searches`, cold, calls)
  report(`after that, ${then.length} searches`, then, callsThen)
}

interface SearchResponse {
  local_items: unknown[]
  supplier_b_styles: unknown[]
  supplier_a: { products: unknown[] }
  invoice_lines: unknown[]
  sources: Record<string, string>
}

async function search({ url }: Running, token: string, q: string): Promise<SearchResponse> {
  const response = await fetch(`${url}/api/v1/products/search?q=${q}`, { headers: bearer(token) })
  const found = (await response.json()) as SearchResponse
  const states = Object.values(found.sources ?? { none: response.status })
  if (states.some((state) => state !== 'ok')) throw new Error(`A source of the search for ${q}: ${states}`)
  return found
}

/** What is cached was fetched by other accounts from now on. */
async function changeAccounts(worker: Miniflare): Promise<void> {
  const db = await worker.getD1Database('DB')
  await db.prepare('UPDATE integrations SET updated_at = updated_at + 1').run()
}

async function countCalls({ a, b }: Suppliers): Promise<number> {
  const [ofA, ofB] = await Promise.all([look(a.url), look(b.url)])
  return ofA.calls.length + ofB.calls.length
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return performance.now() - start
}

function report(name: string, times: number[], calls: number): void {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) => quantile(sorted, share).toFixed(1)
  console.log(`  ${name.padEnd(32)} ${at(0.5).padStart(8)} ${at(0.99).padStart(8)}   upstream calls: ${calls}`)
}

function columns({ p50, p99, requestsPerSecond }: Figures): string {
  return `${p50.toFixed(2).padStart(7)} ${p99.toFixed(1).padStart(6)} ${requestsPerSecond.toFixed(0).padStart(7)}`
}
