import { join } from 'node:path'
import type { Request } from 'autocannon'
import { inDirectory } from '../harness/state.ts'
import { CONNECTIONS, column, compare, type Load, loadOf, median, ROUNDS } from './load.ts'
import { measureMemory } from './mail-memory.ts'
import { prepare, requestsOf, sendOnce, TARGETS, WORKS, type Work } from './mail-requests.ts'
import { makeThread } from './mail-thread.ts'
import { buildWorker, type Running, startApi, startBare } from './worker.ts'

/** Large threads are sent one at a time: they would wait for each other's memory. */
const SIZES = [
  { name: '150 KB', bytes: 150_000, connections: 1 },
  { name: '150 KB', bytes: 150_000, connections: CONNECTIONS },
  { name: '1 MB', bytes: 1_000_000, connections: CONNECTIONS },
  { name: '5 MB', bytes: 5_000_000, connections: 1 },
  { name: '20 MB', bytes: 20_000_000, connections: 1 },
]
const PACE = { warmUpSeconds: 3, slices: 3, sliceSeconds: 1 }

/** The floor: the body read, parsed and returned, and nothing stored. */
const FLOOR = 'export default { async fetch(request) { return Response.json(await request.json()) } }'

/** A work on threads of a size, and what was measured of it in each round. */
interface Cell {
  size: (typeof SIZES)[number]
  work: Work
  rounds: Round[]
}

interface Round {
  /** The p50 of each, in milliseconds. */
  api: number
  floor: number
  storedPerSent: number
}

/** Whole email threads, against a Worker in the same run that only parses and returns them. */
export function run(): Promise<void> {
  return inDirectory(async (directory) => {
    const script = buildWorker(join(directory, 'build'), 'no-company-limit.js')
    const measured: Cell[] = SIZES.flatMap((size) => WORKS.map((work) => ({ size, work, rounds: [] })))
    for (let round = 0; round < ROUNDS; round++) await measureRound(measured, script, join(directory, String(round)))
    print(measured)
    await measureMemory(script, directory)
  })
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
    rounds.push({ ...figures, storedPerSent: (await storedBytes(api)) / bare.body.length })
  }
}

/** The ratio is taken within a round; what is printed is the median of the rounds. */
function print(measured: readonly Cell[]): void {
  console.log(
    `email threads: median of ${ROUNDS} rounds, each of ${PACE.slices} slices of ${PACE.sliceSeconds} s in turn and with new processes; p50 in ms`,
  )
  console.log('  size     at once  work               API    floor   ratio  target     stored/sent')
  for (const { size, work, rounds } of measured) {
    const of = (value: (round: Round) => number) => median(rounds.map(value))
    const ratio = of(({ api, floor }) => api / floor)
    const target = `${String(TARGETS[work]).padStart(5)}${ratio > TARGETS[work] ? '  over' : '      '}`
    const times = `${column(of(({ api }) => api))} ${column(of(({ floor }) => floor))}`
    const stored = work === 'PUT' ? of(({ storedPerSent }) => storedPerSent).toFixed(3) : ''
    console.log(
      `  ${size.name.padEnd(8)} ${String(size.connections).padStart(7)}  ${work.padEnd(13)} ${times}   ${ratio.toFixed(2).padStart(5)}   ${target}   ${stored.padStart(11)}`,
    )
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

/** As {@link loadOf}, one request after another. */
function loadSingly(url: string, next: () => Request): Load {
  return async (seconds) => {
    const times: number[] = []
    const end = performance.now() + seconds * 1_000
    while (performance.now() < end) times.push(await sendOnce(url, next()))
    return times
  }
}
