import { fillCompany } from '../harness/company.ts'
import { get, sendWell, type Wire } from '../harness/http.ts'
import { column, median } from '../harness/load.ts'
import { fillState, openBuild, type Running, startApi, startFloor } from '../harness/worker.ts'

const ROUNDS = 9
/** `ready` is until the runtime has parsed the script, run its modules, and listens; the others are requests. */
const TIMES = ['ready', 'first', 'second'] as const

/**
 * What a new isolate costs: the start of a runtime with the Worker and its first two requests, beside those of the floor.
 * Each round starts new processes.
 */
export async function run(): Promise<void> {
  await using build = await openBuild()
  const { script, state } = build
  const [token = ''] = await fillState(state, (worker) => fillCompany(worker, 100, 1))
  const rounds: Record<'api' | 'floor', number[]>[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const api = await measure(() => startApi(script, state), get('/clients/1', token))
    const floor = await measure(() => startFloor('floor.js', state), { path: '/client/1' })
    rounds.push({ api, floor })
  }
  console.log('start            API, ms   floor, ms')
  for (const [index, name] of TIMES.entries()) {
    const [api, floor] = (['api', 'floor'] as const).map((of) => median(rounds.map((round) => round[of][index] ?? 0)))
    console.log(`${name.padEnd(14)}  ${column(api ?? 0)}    ${column(floor ?? 0)}`)
  }
}

/** The milliseconds of each of {@link TIMES}. */
async function measure(start: () => Promise<Running>, request: Wire): Promise<number[]> {
  const startedAt = performance.now()
  await using running = await start()
  const times = [performance.now() - startedAt]
  for (let count = 0; count < 2; count++) {
    const sentAt = performance.now()
    await sendWell(running.url, request)
    times.push(performance.now() - sentAt)
  }
  return times
}
