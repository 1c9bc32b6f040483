import { join } from 'node:path'
import { inDirectory } from '../harness/state.ts'
import { HeapWatch } from './heap.ts'
import { column } from './load.ts'
import { prepare, requestsOf, sendOnce, type Work } from './mail-requests.ts'
import { makeIncompressibleThread, makeThread } from './mail-thread.ts'
import { buildWorker, type Running, startApi } from './worker.ts'

/** A Worker may hold 128 MB; what is over this is printed as such. */
const TARGET_MB = 100

/** What is sent at once, each request to a thread of its own. */
const SHAPES: Record<string, Work[]> = {
  'one PUT unchanged': ['PUT unchanged'],
  '8 PUTs unchanged': repeat('PUT unchanged', 8),
  'one GET': ['GET'],
  '8 GETs': repeat('GET', 8),
  'one PUT': ['PUT'],
  '8 PUTs': repeat('PUT', 8),
  '8 PUTs and 8 GETs': [...repeat('PUT', 8), ...repeat('GET', 8)],
}
const THREADS_AT_ONCE = 16

/** Prints what the Worker itself holds at most, of what counts against its limit, with threads of 20 MiB. */
export async function measureMemory(script: string, directory: string): Promise<void> {
  await using api = await startApi(script, join(directory, 'memory'), { inspectorPort: 0 })
  using watch = await HeapWatch.of(api.worker)
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
    await store(api, tokens, text)
    for (const [shape, works] of Object.entries(SHAPES)) {
      const requests = works.map((work, index) => requestsOf(work, `memory-${index}`, tokens, text)())
      await watch.begin()
      const times = await Promise.all(requests.map((request) => sendOnce(api.url, request)))
      const peakMb = (await watch.end()) / 1e6
      const over = peakMb > TARGET_MB ? '  over' : ''
      console.log(`  ${name.padEnd(28)} ${shape.padEnd(18)} ${column(peakMb)} ${column(Math.max(...times))}${over}`)
    }
  }
}

/** Stores the threads as "PUT unchanged" sends them. */
async function store(api: Running, tokens: string[], text: string): Promise<void> {
  for (let index = 0; index < THREADS_AT_ONCE; index++) {
    await sendOnce(api.url, requestsOf('PUT unchanged', `memory-${index}`, tokens, text)())
  }
}

function repeat(work: Work, times: number): Work[] {
  return Array<Work>(times).fill(work)
}

/** The memory alone, which takes a minute. */
export function run(): Promise<void> {
  return inDirectory(async (directory) => {
    await measureMemory(buildWorker(join(directory, 'build'), 'no-company-limit.js'), directory)
  })
}
