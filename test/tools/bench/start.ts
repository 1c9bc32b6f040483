import { join } from 'node:path'
import { fillState, inDirectory } from '../harness/state.ts'
import { fillCompany } from './company.ts'
import { median } from './load.ts'
import { buildWorker, type Running, startApi, startFloor } from './worker.ts'

const ROUNDS = 9

/** Milliseconds. */
interface Times {
  /** Until the runtime has parsed the script, run its modules, and listens. */
  ready: number
  first: number
  second: number
}

/**
 * What a new isolate costs: the start of a runtime with the Worker and its first two requests, beside those of the floor.
 * Each round starts new processes.
 */
export function run(): Promise<void> {
  return inDirectory(async (directory) => {
    const script = buildWorker(join(directory, 'build'))
    const state = join(directory, 'state')
    const [token] = await fillState(state, (worker) => fillCompany(worker, 100, 1))
    const headers = { authorization: `Bearer ${token}` }
    const rounds: { api: Times; floor: Times }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const api = await measure(() => startApi(script, state), '/api/v1/clients/1', headers)
      const floor = await measure(() => startFloor('floor.js', state), '/client/1')
      rounds.push({ api, floor })
    }
    const of = (name: keyof Times, worker: 'api' | 'floor') => median(rounds.map((times) => times[worker][name]))
    console.log('start            API, ms   floor, ms')
    for (const name of ['ready', 'first', 'second'] as const) {
      console.log(
        `${name.padEnd(14)} ${of(name, 'api').toFixed(1).padStart(9)} ${of(name, 'floor').toFixed(1).padStart(11)}`,
      )
    }
  })
}

async function measure(start: () => Promise<Running>, path: string, headers = {}): Promise<Times> {
  const startedAt = performance.now()
  await using running = await start()
  const ready = performance.now() - startedAt
  const timed = async () => {
    const sentAt = performance.now()
    const response = await fetch(running.url + path, { headers })
    await response.arrayBuffer()
    if (!response.ok) throw new Error(`${path}: ${response.status}`)
    return performance.now() - sentAt
  }
  return { ready, first: await timed(), second: await timed() }
}
