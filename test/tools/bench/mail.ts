import { join } from 'node:path'
import { fillCompany } from '../harness/company.ts'
import { call, get, send, sendWell, type Wire } from '../harness/http.ts'
import {
  CONNECTIONS,
  column,
  compare,
  describePace,
  judged,
  type Load,
  loadOf,
  median,
  ROUNDS,
} from '../harness/load.ts'
import { makeIncompressibleThread, makeThread } from '../harness/mail-thread.ts'
import { watchHeap } from '../harness/memory.ts'
import { openBuild, type Running, startApi, startBare } from '../harness/worker.ts'

/** How much of the floor's p50 each work may take, of small threads and of others. */
const SMALL = { PUT: 2.2, 'PUT unchanged': 1.6, GET: 1.5 }
const TARGETS = { PUT: 3, 'PUT unchanged': 1.6, GET: 2 }
type Work = keyof typeof TARGETS
const WORKS = Object.keys(TARGETS) as Work[]

const MAILBOX = 'sales@shop.example'

/** A token may make 300 requests a minute: each makes many in a row, as a sync does, and rests while the others do. */
const TOKENS = 150
const REQUESTS_IN_A_ROW = 250

/** Large threads are sent one at a time: they would wait for each other's memory. */
const SIZES = [
  { name: '150 KB', bytes: 150_000, connections: 1, targets: SMALL },
  { name: '150 KB', bytes: 150_000, connections: CONNECTIONS, targets: SMALL },
  { name: '1 MB', bytes: 1_000_000, connections: CONNECTIONS, targets: TARGETS },
  { name: '5 MB', bytes: 5_000_000, connections: 1, targets: TARGETS },
  { name: '20 MB', bytes: 20_000_000, connections: 1, targets: TARGETS },
]
const PACE = { warmUpSeconds: 3, slices: 3, sliceSeconds: 1 }

/** The floor: the body read, parsed and returned, and nothing stored. */
const FLOOR = 'export default { async fetch(request) { return Response.json(await request.json()) } }'

/** A work on threads of a size, and what was measured of it in each round: the p50 of each in milliseconds. */
interface Cell {
  size: (typeof SIZES)[number]
  work: Work
  rounds: Record<'api' | 'floor' | 'storedPerSent', number>[]
}

/** Whole email threads, against a Worker in the same run that only parses and returns them. */
export async function run(): Promise<void> {
  await using build = await openBuild('no-company-limit.js')
  const measured: Cell[] = SIZES.flatMap((size) => WORKS.map((work) => ({ size, work, rounds: [] })))
  for (let round = 0; round < ROUNDS; round++) {
    await measureRound(measured, build.script, join(build.directory, String(round)))
  }
  print(measured)
  await measureMemory(build)
}

/** The memory alone, which takes a minute. */
export async function runMemory(): Promise<void> {
  await using build = await openBuild('no-company-limit.js')
  await measureMemory(build)
}

async function measureRound(measured: Cell[], script: string, directory: string): Promise<void> {
  await using floor = await startBare(FLOOR, join(directory, 'floor'))
  await using api = await startApi(script, join(directory, 'api'))
  const tokens = await prepare(api)
  for (const { size, work, rounds } of measured) {
    const text = JSON.stringify(makeThread(size.bytes))
    const next = requestsOf(work, String(size.bytes), tokens, text)
    const bare = { method: 'POST', path: '/', body: text }
    const drive = size.connections === 1 ? loadSingly : loadOf
    const figures = await compare({ floor: drive(floor.url, () => bare), api: drive(api.url, next) }, PACE)
    rounds.push({ ...figures, storedPerSent: (await storedBytes(api)) / text.length })
  }
}

/** A company and tokens that the Worker has seen. */
async function prepare(api: Running): Promise<string[]> {
  const tokens = await fillCompany(api.worker, 0, TOKENS)
  for (const token of tokens) await send(api.url, get('/mail/threads/none', token))
  return tokens
}

let turn = 0

/** Makes the requests of a work; a PUT sends other content than `text` each time, of the same length. */
export function requestsOf(work: Work, threadId: string, tokens: string[], text: string): () => Wire {
  const path = `/mail/email-threads/${threadId}`
  const token = () => tokens[Math.floor(turn++ / REQUESTS_IN_A_ROW) % tokens.length] ?? ''
  if (work === 'GET') return () => get(`${path}?account_email=${MAILBOX}`, token())
  const rest = text.slice(1).replace(/"labels":\[[^\]]*\],/, '')
  const label = () => (work === 'PUT' ? String(1_000_000 + turn) : 'INBOX')
  return () => call('PUT', path, token(), `{"labels":["${label()}"],${rest}`)
}

/** @returns milliseconds until the last byte of the response */
async function timeOf(url: string, wire: Wire): Promise<number> {
  const body = typeof wire.body === 'string' ? Buffer.from(wire.body) : null
  const start = performance.now()
  await sendWell(url, { ...wire, body })
  return performance.now() - start
}

/** As {@link loadOf}, one request after another. */
function loadSingly(url: string, next: () => Wire): Load {
  return async (seconds) => {
    const times: number[] = []
    const end = performance.now() + seconds * 1_000
    while (performance.now() < end) times.push(await timeOf(url, next()))
    return times
  }
}

async function storedBytes(api: Running): Promise<number> {
  const db = await api.worker.getD1Database('DB')
  const sum = await db
    .prepare(
      `SELECT coalesce(length(content), (SELECT bytes FROM email_thread_objects WHERE thread_id = newest.id)) AS bytes
       FROM (SELECT id, content FROM email_threads ORDER BY updated_at DESC LIMIT 1) AS newest`,
    )
    .first<{ bytes: number }>()
  return sum?.bytes ?? 0
}

/** The ratio is taken within a round; what is printed is the median of the rounds. */
function print(measured: readonly Cell[]): void {
  console.log(`email threads: ${describePace(PACE, ROUNDS)}`)
  console.log('  size     at once  work               API    floor   ratio target      stored/sent')
  for (const { size, work, rounds } of measured) {
    const of = (value: (round: Cell['rounds'][number]) => number) => median(rounds.map(value))
    const times = `${column(of(({ api }) => api))} ${column(of(({ floor }) => floor))}`
    const ratio = judged(
      of(({ api, floor }) => api / floor),
      size.targets[work],
    )
    const stored = work === 'PUT' ? of(({ storedPerSent }) => storedPerSent).toFixed(3) : ''
    console.log(
      `  ${size.name.padEnd(8)} ${String(size.connections).padStart(7)}  ${work.padEnd(13)} ${times}  ${ratio}  ${stored}`,
    )
  }
}

/** A Worker may hold 128 MB; what is over this is printed as such. */
const TARGET_MB = 100
const THREADS_AT_ONCE = 16

/** What is sent at once, each request to a thread of its own. */
const SHAPES: [count: number, ...works: Work[]][] = [
  [1, 'PUT unchanged'],
  [8, 'PUT unchanged'],
  [1, 'GET'],
  [8, 'GET'],
  [1, 'PUT'],
  [8, 'PUT'],
  [8, 'PUT', 'GET'],
]

/** Prints what the Worker itself holds at most, of what counts against its limit, with threads of 20 MiB. */
async function measureMemory({ script, directory }: { script: string; directory: string }): Promise<void> {
  await using api = await startApi(script, join(directory, 'memory'), { inspectorPort: 0 })
  using watch = await watchHeap(api.worker)
  const tokens = await prepare(api)
  console.log(
    `\nheap and buffers of the Worker at their peak, in MB (target ${TARGET_MB}), and ms until the last response:`,
  )
  const threads = {
    '20 MiB of HTML mail': makeThread(20 * 1_048_576),
    '20 MiB that do not compress': makeIncompressibleThread(),
  }
  for (const [name, thread] of Object.entries(threads)) {
    const text = JSON.stringify(thread)
    const requestTo = (work: Work, index: number) => requestsOf(work, `memory-${index}`, tokens, text)()
    // As "PUT unchanged" sends them.
    for (let index = 0; index < THREADS_AT_ONCE; index++) await sendWell(api.url, requestTo('PUT unchanged', index))
    for (const [count, ...works] of SHAPES) {
      const requests = works.flatMap((work) => Array<Work>(count).fill(work)).map(requestTo)
      await watch.begin()
      const times = await Promise.all(requests.map((request) => timeOf(api.url, request)))
      const peakMb = (await watch.end()) / 1e6
      const shape = works.map((work) => `${count} × ${work}`).join(' and ')
      const over = peakMb > TARGET_MB ? '  over' : ''
      console.log(`  ${name.padEnd(28)} ${shape.padEnd(18)} ${column(peakMb)} ${column(Math.max(...times))}${over}`)
    }
  }
}
