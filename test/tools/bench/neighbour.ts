import { randomBytes } from 'node:crypto'
import { cpSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { styleText } from 'node:util'
import { SQLiteAsyncDialect } from 'drizzle-orm/sqlite-core'
import { storedBytes } from '../../../src/kernel/db/refusals.ts'
import { fillCompany, insertTokens, makeTokens } from '../harness/company.ts'
import { call, get, send, sendWell } from '../harness/http.ts'
import { callEvenly, databaseLeft, idAt, inTurn, median, quantile } from '../harness/load.ts'
import { fillOnce, openBuild, type Running, startApi } from '../harness/worker.ts'

/*
 * Two companies share a database. While one does its worst over 50 connections for a minute, with as many tokens, the
 * other's requests come at a steady rate. Each run has processes and data of its own, so that no limit that one has used
 * up protects the neighbour in the next.
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
  /** The neighbour's requests that were not served. */
  failed: number
  statuses: Record<number, number>
}

interface Attack {
  name: string
  /** @param n counts the requests of all connections */
  next: (n: number) => [method: string, path: string, body?: object]
}

export async function run(): Promise<void> {
  await using build = await openBuild()
  const { script, state } = build
  const { cached, tokens } = await fillOnce(`neighbour-${CLIENTS}`, fill)
  const served = async <T>(work: (api: Running) => Promise<T>) => {
    rmSync(state, { recursive: true, force: true })
    cpSync(cached, state, { recursive: true })
    await using api = await startApi(script, state)
    return await work(api)
  }
  const worst = await served(({ url }) => findWorst(url, tokens.spender.at(-1) ?? ''))
  for (const attack of attacksWith(worst)) {
    const outcomes: Outcome[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const outcome = await served(async (api) => {
        await limitStorage(api)
        return measure(api.url, attack, tokens.spender.slice(0, -1), tokens.neighbour)
      })
      outcomes.push(outcome)
    }
    print(attack, outcomes)
  }
}

function attacksWith(worst: { path: string; databaseMs: number }): Attack[] {
  const fill: Attack['next'] = (n) => [
    'PUT',
    `/mail/threads/fill-${n}`,
    { client_id: 1, participants_data: [{ name: noise(250_000) }] },
  ]
  const putItems = (lines: number, length: number): Attack['next'] => {
    const line = () => ({ title: 'Tee', quantity: 1, description: noise(length) })
    return (n) => ['PUT', `/orders/${1 + (n % CLIENTS)}/invoice-items`, { items: Array.from({ length: lines }, line) }]
  }
  const searches = `parallel searches: GET ${worst.path}, ${worst.databaseMs} ms`
  const items = 'heaviest writes: PUT /orders/{id}/invoice-items with'
  return [
    { name: searches, next: () => ['GET', worst.path] },
    { name: 'filling the database: PUT /mail/threads/{id} with 250 KB', next: fill },
    { name: `${items} 39 lines of 10,000 characters`, next: putItems(39, 10_000) },
    { name: `${items} 500 lines of 700 characters`, next: putItems(500, 700) },
  ]
}

/** Text that has hardly any trigram twice. */
function noise(characters: number): string {
  return randomBytes(Math.ceil((characters * 3) / 4))
    .toString('base64')
    .slice(0, characters)
}

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
  const leftAfter = async (path: string) => databaseLeft(await sendWell(url, get(path, token)))
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

async function measure(url: string, attack: Attack, spender: string[], neighbour: string[]): Promise<Outcome> {
  await sendSteadily(url, neighbour, 3)
  const alone = await sendSteadily(url, neighbour, ALONE_SECONDS)
  const endsAt = Date.now() + TOGETHER_SECONDS * 1_000
  const statuses: Record<number, number> = {}
  let count = 0
  const spend = async (_: unknown, connection: number) => {
    const token = spender[connection % spender.length] ?? ''
    while (Date.now() < endsAt) {
      const [method, path, body] = attack.next(count++)
      const response = await send(url, call(method, path, token, body)).catch(Response.error)
      const { status } = response
      statuses[status] = (statuses[status] ?? 0) + 1
      if (status === 200) continue
      const text = await response.text()
      // A slow body is 400.
      if (status >= 400 && status < 413 && !text.includes('in time')) {
        throw new Error(`${attack.name} got ${status}: ${text.slice(0, 300)}`)
      }
      await sleep(REFUSED_PAUSE_MS)
    }
  }
  const [together] = await Promise.all([
    sendSteadily(url, neighbour, TOGETHER_SECONDS),
    ...Array.from({ length: CONNECTIONS }, spend),
  ])
  const times = (samples: Sample[]) => samples.map(({ ms }) => ms)
  const failed = [...alone, ...together].filter(({ isServed }) => !isServed).length
  return { statuses, failed, alone: times(alone), together: times(together) }
}

interface Sample {
  ms: number
  isServed: boolean
}

/** Sends requests at a steady rate, whatever becomes of those before. */
async function sendSteadily(url: string, tokens: string[], seconds: number): Promise<Sample[]> {
  const token = inTurn(tokens)
  const pending: Promise<Sample>[] = []
  await callEvenly(REQUESTS_PER_SECOND, seconds, (number) => {
    const start = performance.now()
    const sent = send(url, get(`/clients/${idAt(number, NEIGHBOUR_CLIENTS)}`, token())).catch(Response.error)
    pending.push(sent.then(({ ok }) => ({ ms: performance.now() - start, isServed: ok })))
  })
  return Promise.all(pending)
}

function print({ name }: Attack, outcomes: Outcome[]): void {
  const of = (pick: (outcome: Outcome) => number) => median(outcomes.map(pick))
  const times = (side: 'alone' | 'together') =>
    `p50 ${of((outcome) => median(outcome[side])).toFixed(2)} ms (p99 ${of((outcome) => quantile(outcome[side], 0.99)).toFixed(0)})`
  const ratio = of(({ alone, together }) => median(together) / median(alone))
  const failed = of((outcome) => outcome.failed)
  const isOver = ratio > TARGET || failed > 0
  const shown = `${ratio.toFixed(2)}, target ${TARGET}; ${failed} of the neighbour’s requests failed`
  const statuses = [...new Set(outcomes.flatMap((outcome) => Object.keys(outcome.statuses)))].map(Number)
  const responses = statuses.map((each) => `${each || 'none'} × ${of((outcome) => outcome.statuses[each] ?? 0)}`)
  console.log(
    `\n${name}\n` +
      `  spender:   responses ${responses.join(', ')}, in ${TOGETHER_SECONDS} s over ${CONNECTIONS} connections\n` +
      `  neighbour: alone ${times('alone')}, beside it ${times('together')}\n` +
      `  ratio:     ${isOver ? styleText('bold', `${shown}: over`) : shown}`,
  )
}
