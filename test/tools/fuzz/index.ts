import { randomInt } from 'node:crypto'
import { conclude, readFlags } from '../harness/arguments.ts'
import { fuzz } from './run.ts'

/*
 * npm run fuzz -- --seconds N --seed S --times T --runs R
 *
 * Sends requests made from the published description, valid and broken, to a served application and checks every response.
 * The same seed makes the same requests: R valid ones of each operation in a round, and rounds for N seconds. T times, each
 * with a seed of its own: S, then random ones. Ends with exit code 1 where something was wrong.
 */
const USAGE = 'npm run fuzz -- [--seconds N] [--seed S] [--times T] [--runs R]'
/** Inserted beside the limit of 50: a quiet machine sends more requests a minute than those may. */
const TOKENS = 200

const ANY: [number, number] = [0, 999_999_999]

const flags = readFlags(USAGE, { seconds: ANY, seed: ANY, times: ANY, runs: ANY })
const { seconds = 60, seed, times = 1, runs = 20 } = flags
const seeds = Array.from({ length: times }, () => randomInt(1_000_000_000))
if (seed !== undefined) seeds.splice(0, 1, seed)

console.log(`seeds ${seeds.join(', ')}, ${seconds} s each`)
const started = Date.now()
const { counts, statuses, neverCarriedOut, failures } = await fuzz({ seeds, seconds, tokens: TOKENS, runs })
const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
console.log(
  `\n${total} requests in ${Math.round((Date.now() - started) / 1_000)} s (${counts.valid ?? 0} valid, ${counts.broken ?? 0} broken), ${failures.length} failures`,
)
const byStatus = Object.entries(statuses).map(([status, count]) => `${status} × ${count}`)
console.log(`responses: ${byStatus.join(', ')}`)
conclude([...failures, ...neverCarriedOut.map((id) => `${id} was never carried out`)])
