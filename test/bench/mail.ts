import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Request } from 'autocannon'
import { HeapWatch } from './heap.ts'
import { CONNECTIONS, compare, type Figures, type Load, loadOf, median, ROUNDS } from './load.ts'
import { makeIncompressibleThread, makeThread } from './mail-thread.ts'
import { childrenNamed, forgetPeakMemory, peakMemoryBytes } from './memory.ts'
import { buildWorker, migrationStatements, type Running, startApi, startBare } from './worker.ts'

/** Large threads are sent one at a time: eight at once are more than one isolate may hold. */
const SIZES = [
  { name: '150 KB', bytes: 150_000, connections: 1 },
  { name: '150 KB', bytes: 150_000, connections: CONNECTIONS },
  { name: '1 MB', bytes: 1_000_000, connections: CONNECTIONS },
  { name: '5 MB', bytes: 5_000_000, connections: 1 },
  { name: '20 MB', bytes: 20_000_000, connections: 1 },
]
const PACE = { warmUpSeconds: 3, slices: 3, sliceSeconds: 1 }

/** How much of the floor's p50 each work may take. */
const TARGETS = { PUT: 3, 'PUT unchanged': 1.5, GET: 2 } as const
type Work = keyof typeof TARGETS
const WORKS = Object.keys(TARGETS) as Work[]

/** A token may make 300 requests a minute: each makes many in a row, as a sync does, and rests while the others do. */
const TOKENS = 150
const REQUESTS_IN_A_ROW = 250

/** What a Worker may hold. */
const MEMORY_LIMIT_MB = 128

/** The floor: the body read, parsed and answered, and nothing kept. */
const FLOOR = 'export default { async fetch(request) { return Response.json(await request.json()) } }'

/** A work on threads of a size, and what was measured of it in each round. */
interface Cell {
  size: (typeof SIZES)[number]
  work: Work
  rounds: Round[]
}

interface Round {
  api: Figures
  floor: Figures
  apiMb: number
  floorMb: number
  storedPerSent: number
}

const MAILBOX = 'sales@shop.example'

/** Whole email threads, against a Worker in the same run that only parses and answers them. */
export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-mail-'))
  try {
    const script = buildWorker(join(directory, 'build'))
    await measureTimes(script, directory)
    await measureHeap(script, directory)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

async function measureTimes(script: string, directory: string): Promise<void> {
  const measured: Cell[] = SIZES.flatMap((size) => WORKS.map((work) => ({ size, work, rounds: [] })))
  for (let round = 0; round < ROUNDS; round++) await measureRound(measured, script, join(directory, String(round)))
  print(measured)
}

async function measureRound(measured: Cell[], script: string, directory: string): Promise<void> {
  const before = childrenNamed('workerd')
  const floor = await startBare(FLOOR, join(directory, 'floor'))
  const floorPids = childrenNamed('workerd').filter((pid) => !before.includes(pid))
  const api = await startApi(script, join(directory, 'api'))
  const apiPids = childrenNamed('workerd').filter((pid) => !before.includes(pid) && !floorPids.includes(pid))
  try {
    const tokens = await prepare(api)
    for (const { size, work, rounds } of measured) {
      const next = requestsOf(work, size.bytes, tokens)
      const bare = { method: 'POST', path: '/', body: JSON.stringify(makeThread(size.bytes)) }
      const drive = size.connections === 1 ? loadSingly : loadOf
      for (const pid of [...apiPids, ...floorPids]) forgetPeakMemory(pid)
      const figures = await compare({ floor: drive(floor.url, () => bare), api: drive(api.url, next) }, PACE)
      const [apiMb, floorMb] = [peakMb(apiPids), peakMb(floorPids)]
      rounds.push({ ...figures, apiMb, floorMb, storedPerSent: (await storedBytes(api)) / bare.body.length })
    }
  } finally {
    await api.worker.dispose()
    await floor.worker.dispose()
  }
}

function peakMb(pids: readonly number[]): number {
  return Math.max(...pids.map(peakMemoryBytes)) / 1e6
}

/** The ratio is taken within a round; what is printed is the median of the rounds. */
function print(measured: readonly Cell[]): void {
  console.log(
    `email threads: median of ${ROUNDS} rounds, each of ${PACE.slices} slices of ${PACE.sliceSeconds} s in turn and with new processes; p50/p99 in ms; memory is the peak of the whole simulated platform`,
  )
  console.log(
    '  size     at once  work            API p50      p99   floor p50      p99   ratio  target        API MB  floor MB   stored/sent',
  )
  for (const { size, work, rounds } of measured) {
    const of = (value: (round: Round) => number) => median(rounds.map(value))
    const ratio = of(({ api, floor }) => api.p50 / floor.p50)
    const target = `${String(TARGETS[work]).padStart(5)}${ratio > TARGETS[work] ? '  over' : '      '}`
    const times = (side: 'api' | 'floor') =>
      `${column(of((round) => round[side].p50))} ${column(of((round) => round[side].p99))}`
    const memory = `${column(of(({ apiMb }) => apiMb))}  ${column(of(({ floorMb }) => floorMb))}`
    const stored = work === 'PUT' ? of(({ storedPerSent }) => storedPerSent).toFixed(3) : ''
    console.log(
      `  ${size.name.padEnd(8)} ${String(size.connections).padStart(7)}  ${work.padEnd(13)} ${times('api')}    ${times('floor')}   ${ratio.toFixed(2).padStart(5)}   ${target}   ${memory}   ${stored.padStart(11)}`,
    )
  }
}

/** What the Worker itself holds at most, of what counts against its limit. */
async function measureHeap(script: string, directory: string): Promise<void> {
  const api = await startApi(script, join(directory, 'heap'), { inspectorPort: 0 })
  const watch = await HeapWatch.of(api.worker)
  try {
    const tokens = await prepare(api)
    console.log(`\nheap and buffers of the Worker at their peak, in MB (limit ${MEMORY_LIMIT_MB}):`)
    const threads = {
      '20 MB of HTML mail': makeThread(20_000_000),
      '20 MiB that do not compress': makeIncompressibleThread(),
    }
    for (const [name, thread] of Object.entries(threads)) {
      const body = JSON.stringify(thread)
      for (const work of WORKS) {
        const next = requestsOf(work, body.length, tokens, body)
        if (work !== 'PUT') await sendOnce(api.url, next())
        await watch.begin()
        await sendOnce(api.url, next())
        const peakMb = (await watch.end()) / 1e6
        console.log(
          `  ${name.padEnd(28)} ${work.padEnd(13)} ${column(peakMb)}${peakMb > MEMORY_LIMIT_MB ? '  over' : ''}`,
        )
      }
    }
  } finally {
    watch.close()
    await api.worker.dispose()
  }
}

async function prepare(api: Running): Promise<string[]> {
  const db = await api.worker.getD1Database('DB')
  for (const statement of migrationStatements()) await db.prepare(statement).run()
  const tokens = Array.from({ length: TOKENS }, () => randomBytes(32).toString('hex'))
  const hashes = tokens.map((token) => createHash('sha256').update(token).digest('hex'))
  await db.batch([
    db.prepare("INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (1, 0, 'Bench', 0, 0)"),
    db
      .prepare(
        `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at)
         SELECT 1, value, 'bench', '["mail:read","mail:write"]', 0 FROM json_each(?)`,
      )
      .bind(JSON.stringify(hashes)),
  ])
  for (const token of tokens) {
    await fetch(`${api.url}/api/v1/mail/threads/none`, { headers: { authorization: `Bearer ${token}` } })
  }
  return tokens
}

let turn = 0

/** Makes the requests of a work; a PUT has other content each time, of the same length. */
function requestsOf(work: Work, bytes: number, tokens: string[], text?: string): () => Request {
  const path = `/api/v1/mail/email-threads/${bytes}`
  const token = () => ({
    authorization: `Bearer ${tokens[Math.floor(turn++ / REQUESTS_IN_A_ROW) % tokens.length]}`,
  })
  if (work === 'GET') return () => ({ method: 'GET', path: `${path}?account_email=${MAILBOX}`, headers: token() })
  const same = text ?? JSON.stringify(makeThread(bytes))
  const [start, end] = [`{"labels":["`, `"],${same.slice(1).replace(/"labels":\[[^\]]*\],/, '')}`]
  return () => ({
    method: 'PUT',
    path,
    headers: { ...token(), 'content-type': 'application/json' },
    body: start + (work === 'PUT' ? String(1_000_000 + turn) : 'INBOX') + end,
  })
}

async function storedBytes(api: Running): Promise<number> {
  const db = await api.worker.getD1Database('DB')
  const sum = await db
    .prepare(
      `SELECT sum(length(data)) AS bytes FROM email_thread_segments
       WHERE thread_id = (SELECT id FROM email_threads ORDER BY updated_at DESC LIMIT 1)`,
    )
    .first<{ bytes: number }>()
  return sum?.bytes ?? 0
}

const agent = new Agent({ keepAlive: true })

/** As {@link loadOf}, one request after another. */
function loadSingly(url: string, next: () => Request): Load {
  return async (seconds) => {
    const times: number[] = []
    const end = performance.now() + seconds * 1_000
    while (performance.now() < end) times.push(await sendOnce(url, next()))
    return times
  }
}

/** @returns milliseconds until the last byte of the answer */
function sendOnce(url: string, { method, path, headers, body }: Request): Promise<number> {
  const bytes = body === undefined ? undefined : Buffer.from(body)
  const start = performance.now()
  return new Promise((resolve, reject) => {
    const options = { method, agent, headers: { ...headers, ...(bytes && { 'content-length': bytes.length }) } }
    const sent = httpRequest(`${url}${path}`, options, (response) => {
      response.on('data', () => {})
      response.on('end', () => {
        if (response.statusCode === 200) resolve(performance.now() - start)
        else reject(new Error(`${method} ${path}: ${response.statusCode}`))
      })
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(bytes)
  })
}

function column(value: number): string {
  return value.toFixed(1).padStart(8)
}

if (import.meta.main) await run()
