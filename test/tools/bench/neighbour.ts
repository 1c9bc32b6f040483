import { randomBytes } from 'node:crypto'
import { cpSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { styleText } from 'node:util'
import { SQLiteAsyncDialect } from 'drizzle-orm/sqlite-core'
import { storedBytes } from '../../../src/kernel/db/quota.ts'
import { fillOnce, inDirectory } from '../harness/state.ts'
import { fillCompany, insertTokens, makeTokens } from './company.ts'
import { bearer, databaseLeft, median, quantile } from './load.ts'
import { childrenNamed } from './memory.ts'
import { buildWorker, type Running, startApi } from './worker.ts'

/*
 * Two companies share a database. While one does its worst over 50 connections for a minute, with one token or with 50,
 * the other's requests come at a steady rate. Each run has processes and data of its own, so that no limit that one
 * has used up protects the neighbour in the next.
 */
const CLIENTS = Number(process.env.CLIENTS ?? 200_000)
const NEIGHBOUR_CLIENTS = 1_000
const CONNECTIONS = 50
const ROUNDS = Number(process.env.ROUNDS ?? 3)
const ALONE_SECONDS = 20
const TOGETHER_SECONDS = 60
const REQUESTS_PER_SECOND = 20
const TARGET = 2

/** Of a connection that is refused: 50 of them then still ask for 3,000 requests a minute. */
const REFUSED_PAUSE_MS = 1_000

/** Stands for the status of a request whose connection was closed. */
const LOST = 0

/** So many rows take about 200 ms. */
const SLOW_ROWS = 1_500_000

/** The neighbour's: a token may make 300 requests a minute. */
const NEIGHBOUR_TOKENS = 10
/** As many as a company may have, and one more to look for the worst request. */
const SPENDER_TOKENS = 50 + 1

/** The spender reaches its quota within the run. */
const QUOTA_LEFT_BYTES = 100_000_000

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

interface Outcome {
  alone: number[]
  together: number[]
  /** Those of `together` that were sent while the spender was still served. */
  whileServed: number[]
  /** The neighbour's requests that were not served. */
  failed: number
  /** The spender's requests by their status. */
  statuses: Record<number, number>
  /** Shares of the time beside it: of the thread that runs Worker and database, and of the spender's statements. */
  busy: number
  inDatabase: number
}

/** The spender's database time so far, in milliseconds, by the log. */
let spentMs = 0

interface Attack {
  name: string
  tokens: number
  /** The requests are invalid: they cost the Worker as much, and the database nothing. The ratio has no target. */
  isRefused?: true
  /** @param n counts the requests of all connections */
  next: (n: number) => Sent
}

interface Sent {
  path: string
  method?: string
  headers?: Record<string, string>
  body?: object
}

export function run(): Promise<void> {
  return inDirectory(async (directory) => {
    const script = buildWorker(join(directory, 'build'), 'slow-database.js')
    const { cached, tokens } = await fillOnce(`neighbour-${CLIENTS}`, fill)
    const served = async <T>(work: (api: Running) => Promise<T>) => {
      const state = join(directory, 'state')
      rmSync(state, { recursive: true, force: true })
      cpSync(cached, state, { recursive: true })
      await using api = await startApi(script, state, {
        handleStructuredLogs: ({ message }) => {
          if (message.includes('"company_id":1,')) spentMs += Number(/"database_ms":([\d.]+)/.exec(message)?.[1] ?? 0)
        },
      })
      return await work(api)
    }
    const worst = await served(({ url }) => findWorst(url, tokens.spender.at(-1) ?? ''))
    for (const attack of attacksWith(worst).filter(({ name }) => name.includes(process.env.ATTACK ?? ''))) {
      const outcomes: Outcome[] = []
      for (let round = 0; round < ROUNDS; round++) {
        outcomes.push(
          await served(async (api) => {
            await limitStorage(api)
            return measure(api.url, attack, tokens.spender.slice(0, attack.tokens), tokens.neighbour)
          }),
        )
      }
      print(attack, outcomes)
    }
  })
}

function attacksWith(worst: { path: string; databaseMs: number }): Attack[] {
  const fill = (client_id: number) => (n: number) => ({
    method: 'PUT',
    path: `/mail/threads/fill-${n}`,
    body: { client_id, participants_data: [{ name: noise(250_000) }] },
  })
  const putItems = (lines: number, length: number, quantity: number) => (n: number) => ({
    method: 'PUT',
    path: `/orders/${1 + (n % CLIENTS)}/invoice-items`,
    body: { items: Array.from({ length: lines }, () => ({ title: 'Tee', quantity, description: noise(length) })) },
  })
  const slow = { path: '/clients/1', headers: { 'x-slow-rows': String(SLOW_ROWS) } }
  const attack = (name: string, next: Attack['next'], tokens = 50): Attack => ({ name, tokens, next })
  const refused = (name: string, next: Attack['next']): Attack => {
    return { ...attack(`for comparison, without the database: ${name} 400`, next), isRefused: true }
  }
  return [
    attack(`worst request: GET ${worst.path}, ${worst.databaseMs} ms`, () => ({ path: worst.path }), 1),
    attack('made slow: GET /clients/1 and a statement of about 200 ms', () => slow, 1),
    attack(`parallel searches: GET ${worst.path}, ${worst.databaseMs} ms`, () => ({ path: worst.path })),
    refused('GET /clients?per_page=0, which is', () => ({ path: '/clients?per_page=0' })),
    attack('filling the database: PUT /mail/threads/{id} with 250 KB', fill(1)),
    refused('the same with a client_id that is', fill(-1)),
    attack(
      'heaviest writes: PUT /orders/{id}/invoice-items with 39 lines of 10,000 characters',
      putItems(39, 10_000, 1),
    ),
    attack('heaviest writes: PUT /orders/{id}/invoice-items with 500 lines of 700 characters', putItems(500, 700, 1)),
    refused('the same with a quantity that is', putItems(500, 700, -1)),
  ]
}

/** Text that has hardly any trigram twice. */
function noise(characters: number): string {
  return randomBytes(Math.ceil((characters * 3) / 4))
    .toString('base64')
    .slice(0, characters)
}

/** Leaves the spender little of its quotas. */
async function limitStorage({ worker }: Running): Promise<void> {
  const db = await worker.getD1Database('DB')
  const stored = new SQLiteAsyncDialect().sqlToQuery(storedBytes).sql
  await db
    .prepare(
      `UPDATE companies SET recounted_at = 1, storage_quota_bytes = ${stored} + ?1, mail_quota_bytes = mail_bytes + ?1
       WHERE id = 1`,
    )
    .bind(QUOTA_LEFT_BYTES)
    .run()
}

/** Fills the two companies, and gives the tokens of each. */
async function fill(worker: Running['worker']) {
  const spender = await fillCompany(worker, CLIENTS, SPENDER_TOKENS)
  const neighbour = makeTokens(NEIGHBOUR_TOKENS)
  const db = await worker.getD1Database('DB')
  await db
    .prepare("INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (2, 2, 'Neighbour', 0, 0)")
    .run()
  await insertTokens(db, 2, neighbour)
  const { results } = await db.prepare("SELECT name FROM pragma_table_info('clients')").all<{ name: string }>()
  const columns = results.map(({ name }) => name)
  const values = columns.map((name) => (name === 'company_id' ? '2' : name))
  await db
    .prepare(
      `INSERT INTO clients (${columns}) SELECT ${values} FROM clients WHERE company_id = 1 AND id <= ${NEIGHBOUR_CLIENTS}`,
    )
    .run()
  return { spender, neighbour }
}

/** The candidate that uses most database time, as the API's headers report it. */
async function findWorst(url: string, token: string): Promise<{ path: string; databaseMs: number }> {
  const measured: { path: string; databaseMs: number }[] = []
  const leftAfter = async (path: string) => {
    const response = await send(url, token, { path })
    await response.arrayBuffer()
    if (response.status !== 200) throw new Error(`${response.url} returned ${response.status}.`)
    return databaseLeft(response)
  }
  let left = await leftAfter('/clients/1')
  for (const path of CANDIDATES) {
    const times: number[] = []
    for (let i = 0; i < 3; i++) {
      const before = left
      left = await leftAfter(path)
      times.push(before - left)
    }
    measured.push({ path, databaseMs: median(times) })
  }
  console.log('\ndatabase time of the candidates, ms:')
  for (const { path, databaseMs } of measured) console.log(`  ${String(databaseMs).padStart(5)}  GET ${path}`)
  return measured.reduce((worst, each) => (each.databaseMs > worst.databaseMs ? each : worst))
}

function send(url: string, token: string, { path, method = 'GET', headers, body }: Sent): Promise<Response> {
  return fetch(`${url}/api/v1${path}`, {
    method,
    headers: { ...bearer(token), ...(body && { 'content-type': 'application/json' }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  })
}

async function measure(url: string, attack: Attack, spender: string[], neighbour: string[]): Promise<Outcome> {
  await sendSteadily(url, neighbour, 3)
  const alone = await sendSteadily(url, neighbour, ALONE_SECONDS)
  const [spentBefore, busyBefore] = [spentMs, processorSeconds()]
  const endsAt = Date.now() + TOGETHER_SECONDS * 1_000
  const statuses: Record<number, number> = {}
  let lastServedAt = 0
  let count = 0
  const spend = async (_: unknown, connection: number) => {
    const token = spender[connection % spender.length] ?? ''
    while (Date.now() < endsAt) {
      const { status, text } = await send(url, token, attack.next(count++))
        .then(async (response) => ({ status: response.status, text: await response.text() }))
        .catch((error: unknown) => ({ status: LOST, text: String(error) }))
      statuses[status] = (statuses[status] ?? 0) + 1
      if (status === (attack.isRefused ? 400 : 200)) lastServedAt = Date.now()
      // A slow body is also 400.
      else if (status >= 400 && status < 413 && !text.includes('in time')) {
        throw new Error(`${attack.name} got ${status}: ${text.slice(0, 300)}`)
      } else await new Promise((resolve) => setTimeout(resolve, REFUSED_PAUSE_MS))
    }
  }
  const [together] = await Promise.all([
    sendSteadily(url, neighbour, TOGETHER_SECONDS),
    ...Array.from({ length: CONNECTIONS }, spend),
  ])
  const busy = (processorSeconds() - busyBefore) / TOGETHER_SECONDS
  const inDatabase = (spentMs - spentBefore) / 1_000 / TOGETHER_SECONDS
  const times = (samples: Sample[]) => samples.map(({ ms }) => ms)
  const whileServed = together.filter(({ sentAt }) => sentAt <= lastServedAt)
  const failed = [...alone, ...together].filter(({ isServed }) => !isServed).length
  return {
    ...{ statuses, failed, busy, inDatabase },
    ...{ alone: times(alone), together: times(together), whileServed: times(whileServed) },
  }
}

/** Processor time of the runtimes that this process started (proc(5), fields 14 and 15, in hundredths of a second). */
function processorSeconds(): number {
  const ticks = childrenNamed('workerd').map((pid) => {
    const [, fields = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
    const [user, system] = fields.split(' ').slice(11)
    return Number(user) + Number(system)
  })
  return ticks.reduce((sum, each) => sum + each, 0) / 100
}

interface Sample {
  sentAt: number
  ms: number
  isServed: boolean
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
  const isServed = await send(url, token, { path })
    .then(async (response) => (await response.arrayBuffer()) && response.status === 200)
    .catch(() => false)
  return { sentAt, ms: performance.now() - start, isServed }
}

function print({ name, tokens, isRefused }: Attack, outcomes: Outcome[]): void {
  const of = (pick: (outcome: Outcome) => number) => median(outcomes.map(pick))
  const percent = (pick: (outcome: Outcome) => number) => `${(of(pick) * 100).toFixed(0)} %`
  const ratio = of(({ alone, together }) => median(together) / median(alone))
  const failed = of((outcome) => outcome.failed)
  const isOver = !isRefused && (ratio > TARGET || failed > 0)
  const shown = `${ratio.toFixed(2)}${isRefused ? '' : `, target ${TARGET}`}; ${failed} of the neighbour’s requests failed`
  const statuses = [...new Set(outcomes.flatMap((outcome) => Object.keys(outcome.statuses)))].map(Number)
  console.log(
    `\n${name}\n` +
      `  spender:   responses ${statuses.map((status) => `${status || 'none'} × ${of((outcome) => outcome.statuses[status] ?? 0)}`).join(', ')}, in ${TOGETHER_SECONDS} s over ${CONNECTIONS} connections with ${tokens} token${tokens > 1 ? 's' : ''}\n` +
      `  neighbour: p50 ${of(({ alone }) => median(alone)).toFixed(2)} ms alone (p99 ${of(({ alone }) => quantile(alone, 0.99)).toFixed(0)}), ${of(({ together }) => median(together)).toFixed(2)} ms beside it (p99 ${of(({ together }) => quantile(together, 0.99)).toFixed(0)})\n` +
      `  ratio:     ${isOver ? styleText('bold', `${shown}: over`) : shown}\n` +
      `  runtime:   its thread busy ${percent(({ busy }) => busy)}, the spender’s statements ${percent(({ inDatabase }) => inDatabase)} of the time\n` +
      `  while the spender was served: p50 ${of(({ whileServed }) => median(whileServed)).toFixed(2)} ms (${of(({ whileServed }) => whileServed.length).toFixed(0)} of ${TOGETHER_SECONDS * REQUESTS_PER_SECOND} requests)`,
  )
}
