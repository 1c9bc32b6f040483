import { createHash, randomBytes } from 'node:crypto'
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fillCompany } from './company.ts'
import { median, quantile } from './load.ts'
import { buildWorker, migrationStatements, type Running, startApi, startBare } from './worker.ts'

/*
 * Two companies share a database. While one spends its whole allowance of a minute on the worst requests, and asks for
 * more, the other's requests come at a steady rate.
 */
const CLIENTS = 200_000
const NEIGHBOUR_CLIENTS = 1_000
const CONNECTIONS = 50
const ROUNDS = 3
const ALONE_SECONDS = 20
const TOGETHER_SECONDS = 60
const REQUESTS_PER_SECOND = 20
const TARGET = 2

/** Of a connection that is refused: 50 of them then still ask for 3,000 requests a minute. */
const REFUSED_PAUSE_MS = 1_000

/** So many rows take about 200 ms. */
const SLOW_ROWS = 1_500_000

/** The neighbour's: a token may make 300 requests a minute. */
const NEIGHBOUR_TOKENS = 10
/** The spender's: one for each run, and one to look for the worst request. */
const SPENDER_TOKENS = 20

const CANDIDATES = [
  '/clients?per_page=100',
  `/clients?per_page=100&page=${CLIENTS / 200}`,
  `/clients?per_page=100&page=${CLIENTS / 100}`,
  '/clients?q=club',
  `/clients?q=club&per_page=100&page=${CLIENTS / 2_000}`,
  '/clients?q=e',
  '/clients?q=co',
  '/orders?per_page=100',
  `/orders?per_page=100&page=${CLIENTS / 100}`,
  '/products/search?q=tee&include=local,lines',
  '/products/search?q=heavy%20cotton%20tee&include=local,lines',
  '/products/search?q=a%20b%20c%20d%20e&include=local,lines',
]

interface Sides {
  spender: string[]
  neighbour: string[]
}

interface Outcome {
  alone: number[]
  together: number[]
  /** Those of `together` that were sent while the spender was still served. */
  whileServed: number[]
  served: number
  refused: number
  databaseMs: number
}

interface Attack {
  name: string
  path: string
  headers: Record<string, string>
}

export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-'))
  let api: Running | undefined
  try {
    const script = buildWorker(join(directory, 'build'))
    const wrapper = join(dirname(script), 'slow-database.js')
    copyFileSync(join(import.meta.dirname, 'slow-database.js'), wrapper)
    const sides = await prepare(join(directory, 'state'))
    api = await startApi(script, join(directory, 'state'), {
      modules: [wrapper, script].map((path) => ({ type: 'ESModule', path })),
    })
    const worst = await findWorst(api.url, sides.spender.pop() ?? '')
    const attacks: Attack[] = [
      { name: `worst request: GET ${worst.path}, ${worst.databaseMs} ms`, path: worst.path, headers: {} },
      {
        name: 'made slow: GET /clients/1 and a statement of about 200 ms',
        path: '/clients/1',
        headers: { 'x-slow-rows': String(SLOW_ROWS) },
      },
    ]
    for (const attack of attacks) {
      const outcomes: Outcome[] = []
      for (let round = 0; round < ROUNDS; round++) {
        outcomes.push(await measure(api.url, attack, sides.spender.pop() ?? '', sides.neighbour))
      }
      print(attack.name, outcomes)
    }
  } finally {
    await api?.worker.dispose()
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Fills the two companies once per schema and caches them under `.bench/`; the benchmark works on a copy. */
async function prepare(state: string): Promise<Sides> {
  const schema = createHash('sha256').update(migrationStatements().join()).digest('hex').slice(0, 8)
  const cached = join(import.meta.dirname, '../../../.bench', `neighbour-${CLIENTS}-${schema}`)
  const sidesFile = join(cached, 'tokens.json')
  if (!existsSync(sidesFile)) {
    rmSync(cached, { recursive: true, force: true })
    mkdirSync(cached, { recursive: true })
    const { worker } = await startBare('export default { fetch: () => new Response() }', cached)
    const spender = await fillCompany(worker, CLIENTS, SPENDER_TOKENS)
    const neighbour = Array.from({ length: NEIGHBOUR_TOKENS }, () => randomBytes(32).toString('hex'))
    const db = await worker.getD1Database('DB')
    await db
      .prepare("INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (2, 1, 'Neighbour', 0, 0)")
      .run()
    await db.prepare("UPDATE api_tokens SET permissions = json_insert(permissions, '$[#]', 'products:read')").run()
    const hashes = neighbour.map((token) => createHash('sha256').update(token).digest('hex'))
    await db
      .prepare(
        `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at)
         SELECT 2, value, 'bench', '["clients:read"]', 0 FROM json_each(?)`,
      )
      .bind(JSON.stringify(hashes))
      .run()
    const { results } = await db.prepare("SELECT name FROM pragma_table_info('clients')").all<{ name: string }>()
    const columns = results.map(({ name }) => name)
    const values = columns.map((name) => (name === 'company_id' ? '2' : name))
    await db
      .prepare(
        `INSERT INTO clients (${columns}) SELECT ${values} FROM clients WHERE company_id = 1 AND id <= ${NEIGHBOUR_CLIENTS}`,
      )
      .run()
    await worker.dispose()
    writeFileSync(sidesFile, JSON.stringify({ spender, neighbour }))
  }
  cpSync(cached, state, { recursive: true })
  return JSON.parse(readFileSync(sidesFile, 'utf8'))
}

/** The candidate that uses most database time, as the API's headers report it. */
async function findWorst(url: string, token: string): Promise<{ path: string; databaseMs: number }> {
  const measured: { path: string; databaseMs: number }[] = []
  let left = await databaseLeft(await get(url, token, '/clients/1'))
  for (const path of CANDIDATES) {
    const times: number[] = []
    for (let i = 0; i < 3; i++) {
      const before = left
      left = await databaseLeft(await get(url, token, path))
      times.push(before - left)
    }
    measured.push({ path, databaseMs: median(times) })
  }
  console.log('\ndatabase time of the candidates, ms:')
  for (const { path, databaseMs } of measured) console.log(`  ${String(databaseMs).padStart(5)}  GET ${path}`)
  return measured.reduce((worst, each) => (each.databaseMs > worst.databaseMs ? each : worst))
}

async function databaseLeft(response: Response): Promise<number> {
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`${response.url} returned ${response.status}.`)
  return Number(/"database";r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1])
}

function get(url: string, token: string, path: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${url}/api/v1${path}`, { headers: { authorization: `Bearer ${token}`, ...headers } })
}

async function measure(url: string, attack: Attack, spender: string, neighbour: string[]): Promise<Outcome> {
  await sendSteadily(url, neighbour, 3)
  const alone = await sendSteadily(url, neighbour, ALONE_SECONDS)
  const endsAt = Date.now() + TOGETHER_SECONDS * 1_000
  const spent = { served: 0, refused: 0, databaseMs: 0, lastServedAt: 0 }
  const spend = async () => {
    while (Date.now() < endsAt) {
      const response = await get(url, spender, attack.path, attack.headers)
      await response.arrayBuffer()
      const left = Number(/"database";r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1])
      spent.databaseMs = Math.max(spent.databaseMs, 15_000 - left)
      if (response.status === 200) {
        spent.served++
        spent.lastServedAt = Date.now()
      } else {
        spent.refused++
        await new Promise((resolve) => setTimeout(resolve, REFUSED_PAUSE_MS))
      }
    }
  }
  const [together] = await Promise.all([
    sendSteadily(url, neighbour, TOGETHER_SECONDS),
    ...Array.from({ length: CONNECTIONS }, spend),
  ])
  const times = (samples: Sample[]) => samples.map(({ ms }) => ms)
  const whileServed = together.filter(({ sentAt }) => sentAt <= spent.lastServedAt)
  return { ...spent, alone: times(alone), together: times(together), whileServed: times(whileServed) }
}

interface Sample {
  sentAt: number
  ms: number
}

/** Sends requests at a steady rate, whatever becomes of those before. */
async function sendSteadily(url: string, tokens: string[], seconds: number): Promise<Sample[]> {
  const count = seconds * REQUESTS_PER_SECOND
  const start = performance.now()
  const pending: Promise<Sample>[] = []
  for (let i = 0; i < count; i++) {
    const wait = start + (i * 1_000) / REQUESTS_PER_SECOND - performance.now()
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
    pending.push(sendOne(url, tokens[i % tokens.length] ?? '', `/clients/${1 + ((i * 7_919) % NEIGHBOUR_CLIENTS)}`))
  }
  return Promise.all(pending)
}

async function sendOne(url: string, token: string, path: string): Promise<Sample> {
  const sentAt = Date.now()
  const start = performance.now()
  const response = await get(url, token, path)
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`The neighbour got ${response.status}.`)
  return { sentAt, ms: performance.now() - start }
}

function print(name: string, outcomes: Outcome[]): void {
  const of = (pick: (outcome: Outcome) => number) => median(outcomes.map(pick))
  const at = (times: number[], share: number) =>
    quantile(
      times.toSorted((a, b) => a - b),
      share,
    )
  const ratio = of(({ alone, together }) => at(together, 0.5) / at(alone, 0.5))
  console.log(
    `\n${name}\n` +
      `  spender:   ${of(({ served }) => served)} requests served, ${of(({ refused }) => refused)} refused, ${of(({ databaseMs }) => databaseMs)} ms of database time or more, in ${TOGETHER_SECONDS} s over ${CONNECTIONS} connections\n` +
      `  neighbour: p50 ${of(({ alone }) => at(alone, 0.5)).toFixed(2)} ms alone (p99 ${of(({ alone }) => at(alone, 0.99)).toFixed(0)}), ${of(({ together }) => at(together, 0.5)).toFixed(2)} ms beside it (p99 ${of(({ together }) => at(together, 0.99)).toFixed(0)})\n` +
      `  ratio:     ${ratio.toFixed(2)}, target ${TARGET}${ratio > TARGET ? ' over' : ''}\n` +
      `  while the spender was served: p50 ${of(({ whileServed }) => at(whileServed, 0.5)).toFixed(2)} ms (${of(({ whileServed }) => whileServed.length).toFixed(0)} of ${TOGETHER_SECONDS * REQUESTS_PER_SECOND} requests)`,
  )
}
