import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Request } from 'autocannon'
import { fold } from '../../../src/kernel/db/search.ts'
import { clientRow } from '../harness/client-row.ts'
import { dataVersion, insert } from '../harness/rows.ts'
import { fillCompany } from './company.ts'
import { compare, type Figures, loadOf, median } from './load.ts'
import { buildWorker, startApi, startBare } from './worker.ts'
import { run as measureWrites } from './writes.ts'

const SIZE = 200_000
const SMALL_SIZE = 50
const CHUNK = 5_000
const TOKENS = 400
const ROUNDS = 3
const PACE = { warmUpSeconds: 1, slices: 2, sliceSeconds: 1 }

/** How much of the p50 of a list's first page, or of a usual search, its worst shapes may take. */
const TARGET = 3

/** Two of these words never stand in one title; the last is in every one. */
const WORDS = 'cotton wool fleece canvas denim linen hoodie'.split(' ')
const ALWAYS = 'blank'

/** The first path of a list is what the others are compared with. */
const LISTS: Record<string, { company: 'large' | 'small'; paths: [name: string, path: string][] }> = {
  clients: {
    company: 'large',
    paths: [
      ['first page', '/clients'],
      ['middle page', '/clients?page=4000'],
      ['last page', '/clients?page=8000'],
      ['page=1000000', '/clients?page=1000000'],
      ['q=a', '/clients?q=a'],
      ['q=a, middle page', '/clients?q=a&page=4000'],
      ['q=a, last page', '/clients?q=a&page=8000'],
      ['q=a, page=1000000', '/clients?q=a&page=1000000'],
      ['q=on', '/clients?q=on'],
      ['q=zz', '/clients?q=zz'],
      ['q=5', '/clients?q=5'],
      ['q=son', '/clients?q=son'],
      ['q=.example', '/clients?q=.example'],
      ['q=.example, middle', '/clients?q=.example&page=4000'],
      ['q=.example, last', '/clients?q=.example&page=8000'],
      ['q=.example, 1000000', '/clients?q=.example&page=1000000'],
      ['q=555', '/clients?q=555'],
    ],
  },
  orders: {
    company: 'large',
    paths: [
      ['first page', '/orders'],
      ['middle page', '/orders?page=4000'],
      ['last page', '/orders?page=8000'],
      ['page=1000000', '/orders?page=1000000'],
      ['status, middle page', '/orders?status=1&page=2000'],
    ],
  },
  products: {
    company: 'large',
    paths: [
      ['q=hoodie navy', '/products/search?q=hoodie%20navy'],
      ['q=hoodie xl', '/products/search?q=hoodie%20xl'],
      ['q=hoodie qq', '/products/search?q=hoodie%20qq'],
      ['q=cotton wool', '/products/search?q=cotton%20wool'],
      [
        '90 letters',
        `/products/search?q=${Array.from({ length: 90 }, (_, n) => encodeURIComponent(String.fromCodePoint(0x61 + n * 5))).join('+')}`,
      ],
      ['26 letters', `/products/search?q=${'abcdefghijklmnopqrstuvwxyz'.split('').join('+')}`],
    ],
  },
  'clients of a small neighbour': {
    company: 'small',
    paths: [
      ['first page', '/clients'],
      ['q=a', '/clients?q=a'],
      ['q=on', '/clients?q=on'],
      ['q=.example', '/clients?q=.example'],
    ],
  },
}

/** The worst shapes of paged lists and searches, each beside the first page of its list in the same run; then of writes. */
export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-shapes-'))
  try {
    const script = buildWorker(join(directory, 'build'), 'no-company-limit.js')
    const { cached, tokens } = await prepare()
    const measured = new Map<string, { first: number[]; rounds: Figures[] }>()
    for (let round = 0; round < ROUNDS; round++) {
      const state = join(directory, `round-${round}`)
      cpSync(cached, state, { recursive: true })
      await measureRound(script, state, tokens, measured)
      rmSync(state, { recursive: true, force: true })
    }
    print(measured)
    await measureWrites()
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Tokens by company. */
type Tokens = Record<'large' | 'small', string[]>

/** Fills two companies once per schema and caches them under `.bench/`. Nothing gathers statistics. */
async function prepare(): Promise<{ cached: string; tokens: Tokens }> {
  const cached = join(import.meta.dirname, '../../../.bench', `shapes-${SIZE}-${dataVersion()}`)
  const tokensFile = join(cached, 'tokens.json')
  if (!existsSync(tokensFile)) {
    rmSync(cached, { recursive: true, force: true })
    mkdirSync(cached, { recursive: true })
    const { worker } = await startBare(readFileSync(join(import.meta.dirname, 'floor.js'), 'utf8'), cached)
    const tokens = await fill(worker)
    await worker.dispose()
    writeFileSync(tokensFile, JSON.stringify(tokens))
  }
  return { cached, tokens: JSON.parse(readFileSync(tokensFile, 'utf8')) }
}

async function fill(worker: Parameters<typeof fillCompany>[0]): Promise<Tokens> {
  const tokens = await fillCompany(worker, 0, TOKENS * 2)
  const db = await worker.getD1Database('DB')
  await db.batch([
    db.prepare("INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (2, 2, 'Small', 0, 0)"),
    db.prepare(`UPDATE api_tokens SET permissions = '["clients:read","orders:read","products:read"]'`),
    db.prepare(`UPDATE api_tokens SET company_id = 2 WHERE id > ${TOKENS}`),
    db.prepare(
      "INSERT INTO clients (company_id, id, company_name, company_name_key, deleted, created_at, updated_at) VALUES (1, 1000000, 'Holder', 'HOLDER', 1, 0, 0)",
    ),
    db.prepare(
      "INSERT INTO orders (company_id, id, title, client_id, created_date, created_at, updated_at) VALUES (1, 1000000, 'Holder', 1000000, '2020-01-01', 0, 0)",
    ),
    db.prepare(
      "INSERT INTO invoices (company_id, id, project_id, number, created_at, updated_at) VALUES (1, 1, 1000000, '1', 0, 0)",
    ),
  ])
  for (let from = 1; from <= SIZE; from += CHUNK) {
    const ids = Array.from({ length: CHUNK }, (_, index) => from + index)
    await insert(db, 'clients', ids.map(clientRow))
    await insert(db, 'orders', ids.map(orderRow))
    await insert(db, 'catalog_items', ids.map(itemRow))
    await insert(
      db,
      'invoice_items',
      ids.map((id) => ({ ...itemRow(id), invoice_id: 1, quantity: 1, unit_price_cents: 950 })),
    )
  }
  const few = Array.from({ length: SMALL_SIZE }, (_, index) => ({ ...clientRow(index + 1), company_id: 2 }))
  await insert(db, 'clients', few)
  return { large: tokens.slice(0, TOKENS), small: tokens.slice(TOKENS) }
}

function orderRow(id: number) {
  const day = new Date(Date.UTC(2026, 9, 1) - (id % 1_000) * 86_400_000).toISOString().slice(0, 10)
  return {
    company_id: 1,
    id,
    title: `Order ${id}`,
    client_id: id,
    order_status_id: (id % 2) + 1,
    created_date: day,
    created_at: 0,
    updated_at: 0,
  }
}

function itemRow(id: number) {
  const of = (list: string[], n: number) => list[n % list.length] ?? ''
  const title = `${of(WORDS, id)} ${ALWAYS} ${of(['navy', 'black', 'white'], id >>> 2)} ${of(['s', 'm', 'l'], id >>> 4)} ${id}`
  return { company_id: 1, id, title, search_text: fold(title) }
}

async function measureRound(
  script: string,
  state: string,
  tokens: Tokens,
  measured: Map<string, { first: number[]; rounds: Figures[] }>,
): Promise<void> {
  const { worker, url } = await startApi(script, state)
  try {
    let turn = 0
    for (const [list, { company, paths }] of Object.entries(LISTS)) {
      const request = (path: string) => (): Request => {
        const token = tokens[company][turn++ % TOKENS] ?? ''
        return { method: 'GET', path: `/api/v1${path}`, headers: { authorization: `Bearer ${token}` } }
      }
      for (let n = 0; n < 20; n++) await send(url, request(paths[0]?.[1] ?? '')())
      const first: number[] = []
      for (const [, path] of paths) first.push(await send(url, request(path)()))
      const loads = paths.map(([name, path]) => [name, loadOf(url, request(path))])
      const figures: Record<string, Figures> = await compare(Object.fromEntries(loads), PACE)
      for (const [index, [name]] of paths.entries()) {
        const key = `${list}\n${name}`
        const known = measured.get(key) ?? { first: [], rounds: [] }
        measured.set(key, known)
        known.first.push(first[index] ?? Number.NaN)
        const { [name]: ofName } = figures
        if (ofName) known.rounds.push(ofName)
      }
    }
  } finally {
    await worker.dispose()
  }
}

/** Milliseconds until the whole response has come. */
async function send(url: string, { path, headers }: Request): Promise<number> {
  const start = performance.now()
  const response = await fetch(`${url}${path}`, { headers: headers as Record<string, string> })
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`${path}: ${response.status}`)
  return performance.now() - start
}

function print(measured: ReadonlyMap<string, { first: number[]; rounds: Figures[] }>): void {
  console.log(
    `\nworst shapes at ${SIZE} clients, orders, catalog items and lines; median of ${ROUNDS} rounds; p50 in ms over 8 connections; ratio: p50 over that of the first; once: the first request of a shape in a process, alone`,
  )
  for (const [list, { paths }] of Object.entries(LISTS)) {
    console.log(`  ${list.padEnd(30)}     p50   ratio  target      once`)
    const base = measured.get(`${list}\n${paths[0]?.[0]}`)?.rounds ?? []
    for (const [name] of paths) {
      const { first, rounds } = measured.get(`${list}\n${name}`) ?? { first: [], rounds: [] }
      const ratio = median(rounds.map(({ p50 }, round) => p50 / (base[round]?.p50 ?? Number.NaN)))
      const over = ratio > TARGET ? ' over' : ''
      console.log(
        `    ${name.padEnd(28)} ${median(rounds.map(({ p50 }) => p50))
          .toFixed(2)
          .padStart(
            7,
          )}  ${ratio.toFixed(2).padStart(6)}  ${TARGET}${over.padEnd(5)} ${median(first).toFixed(1).padStart(9)}`,
      )
    }
  }
}
