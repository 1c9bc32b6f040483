import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Request } from 'autocannon'
import { fillCompany } from './company.ts'
import { type Figures, load, medianOf } from './load.ts'
import { buildWorker, migrationStatements, startApi, startBare } from './worker.ts'

const SIZES = [10_000, 200_000]
const ROUNDS = 5
const SECONDS = 2
const WARM_UP_SECONDS = 1

/**
 * A token may make 300 requests a minute, so the load goes round many; not more than it needs, for a token that rests
 * is read anew (a Worker believes it for 25 s, writes its last use once a minute), which a busy one hardly pays.
 */
const TOKENS = 150

/** How much of the floor's p50 a route may take, and how much of its own when the company grows twentyfold. */
const READ_TARGET = 1.5
const WRITE_TARGET = 1.8
const GROWTH_TARGET = 1.3

interface Work {
  name: string
  target: number
  api: () => Request
  floor: () => Request
}

/** Clients and orders: each route against a floor Worker in the same run, on a small and on a large company. */
export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-'))
  try {
    const script = buildWorker(join(directory, 'build'))
    const floorScript = readFileSync(join(import.meta.dirname, 'floor.js'), 'utf8')
    const p50 = new Map<string, number[]>()
    for (const size of SIZES) {
      const { state, tokens } = await prepare(size, floorScript, directory)
      for (const [name, figures] of await measure(size, tokens, script, floorScript, state)) {
        p50.set(name, [...(p50.get(name) ?? []), figures.p50])
      }
    }
    console.log(`\np50 at ${SIZES[1]} clients over p50 at ${SIZES[0]} (target ${GROWTH_TARGET}):`)
    for (const [name, [small = 1, large = 1]] of p50) {
      console.log(`  ${name.padEnd(22)} ${(large / small).toFixed(2)}${large / small > GROWTH_TARGET ? '  over' : ''}`)
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Fills a company once per schema and keeps it under `.bench/`; the benchmark works on a copy. */
async function prepare(
  size: number,
  floorScript: string,
  directory: string,
): Promise<{ state: string; tokens: string[] }> {
  const schema = createHash('sha256').update(migrationStatements().join()).digest('hex').slice(0, 8)
  const kept = join(import.meta.dirname, '../../.bench', `${size}-${TOKENS}-${schema}`)
  const tokensFile = join(kept, 'tokens.json')
  if (!existsSync(tokensFile)) {
    rmSync(kept, { recursive: true, force: true })
    mkdirSync(kept, { recursive: true })
    const { worker } = await startBare(floorScript, kept)
    const start = Date.now()
    const tokens = await fillCompany(worker, size, TOKENS)
    await worker.dispose()
    writeFileSync(tokensFile, JSON.stringify(tokens))
    console.log(
      `filled a company of ${size} clients and ${size * 2} orders in ${((Date.now() - start) / 1000).toFixed(0)} s`,
    )
  }
  const state = join(directory, String(size))
  cpSync(kept, state, { recursive: true })
  return { state, tokens: JSON.parse(readFileSync(tokensFile, 'utf8')) }
}

async function measure(size: number, tokens: string[], script: string, floorScript: string, state: string) {
  // Each side has data of its own, so that neither waits for the other's lock.
  const floorState = `${state}-floor`
  cpSync(state, floorState, { recursive: true })
  const api = await startApi(script, state)
  const floor = await startBare(floorScript, floorState)
  const results = new Map<string, Figures>()
  try {
    console.log(
      `\n${size} clients, ${size * 2} orders: median of ${ROUNDS} alternating rounds of ${SECONDS} s, p50/p99 in ms`,
    )
    console.log('  work                       API p50    p99   req/s    floor p50    p99   req/s   ratio  target')
    for (const work of worksOf(size, tokens)) {
      await Promise.all(
        tokens.map((token) => fetch(`${api.url}/api/v1/clients/1`, { headers: bearer(token) }).then((r) => r.text())),
      )
      await load(api.url, work.api, WARM_UP_SECONDS)
      await load(floor.url, work.floor, WARM_UP_SECONDS)
      const runs: { api: Figures; floor: Figures }[] = []
      for (let round = 0; round < ROUNDS; round++) {
        runs.push({ floor: await load(floor.url, work.floor, SECONDS), api: await load(api.url, work.api, SECONDS) })
      }
      const apiFigures = medianOf(runs.map((run) => run.api))
      const floorFigures = medianOf(runs.map((run) => run.floor))
      const ratio = apiFigures.p50 / floorFigures.p50
      results.set(work.name, apiFigures)
      console.log(
        `  ${work.name.padEnd(22)} ${columns(apiFigures)}    ${columns(floorFigures)}   ${ratio.toFixed(2)}  ${work.target}${ratio > work.target ? '  over' : ''}`,
      )
    }
  } finally {
    await api.worker.dispose()
    await floor.worker.dispose()
  }
  return results
}

function worksOf(size: number, tokens: string[]): Work[] {
  let turn = 0
  const clientId = () => 1 + ((turn * 7_919) % size)
  const get = (path: () => string) => () => ({ method: 'GET', path: `/api/v1${path()}`, headers: bearer(token()) })
  const token = () => tokens[turn++ % tokens.length] ?? ''
  const bare = (path: () => string) => () => {
    turn++
    return { method: 'GET', path: path() }
  }
  const write = (method: string, path: () => string, body: () => unknown, authorised: boolean) => () => ({
    method,
    path: path(),
    headers: { 'content-type': 'application/json', ...(authorised && bearer(token())) },
    body: JSON.stringify(body()),
  })
  // Names end in the id in base 36: all of it but its last digit, behind a name in S, is met by about seven clients.
  const needle = () => `S ${Math.max(36, clientId()).toString(36).slice(0, -1).toUpperCase()}`
  const newClient = () => ({ company_name: `New Client ${turn++}`, email: `new.${turn}@client.example` })
  const change = () => ({ title: `Order ${turn++}`, client_notes: 'Please call before delivery' })
  return [
    {
      name: 'one client',
      target: READ_TARGET,
      api: get(() => `/clients/${clientId()}`),
      floor: bare(() => `/client/${clientId()}`),
    },
    { name: '25 clients and total', target: READ_TARGET, api: get(() => '/clients'), floor: bare(() => '/clients') },
    {
      name: 'search',
      target: READ_TARGET,
      api: get(() => `/clients?q=${encodeURIComponent(needle())}`),
      floor: bare(() => `/search?q=${encodeURIComponent(needle())}`),
    },
    {
      name: 'orders of a client',
      target: READ_TARGET,
      api: get(() => `/orders?client_id=${clientId()}`),
      floor: bare(() => `/orders/${clientId()}`),
    },
    {
      name: 'full order',
      target: READ_TARGET,
      api: get(() => `/orders/${clientId()}`),
      floor: bare(() => `/order/${clientId()}`),
    },
    {
      name: 'create client',
      target: WRITE_TARGET,
      api: write('POST', () => '/api/v1/clients', newClient, true),
      floor: write('POST', () => '/client', newClient, false),
    },
    {
      name: 'patch order',
      target: WRITE_TARGET,
      api: write('PATCH', () => `/api/v1/orders/${clientId()}`, change, true),
      floor: write('PATCH', () => `/order/${clientId()}`, change, false),
    },
  ]
}

function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` }
}

function columns({ p50, p99, requestsPerSecond }: Figures): string {
  return `${p50.toFixed(2).padStart(7)} ${p99.toFixed(1).padStart(6)} ${requestsPerSecond.toFixed(0).padStart(7)}`
}
