import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { readNumber } from '../harness/number.ts'
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

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string' },
    times: { type: 'string', default: '1' },
    runs: { type: 'string', default: '20' },
  },
})
const seconds = readNumber(values.seconds, USAGE)
const times = readNumber(values.times, USAGE)
const runs = readNumber(values.runs, USAGE)
const seeds = Array.from({ length: times }, () => randomInt(1_000_000_000))
if (values.seed !== undefined) seeds.splice(0, 1, readNumber(values.seed, USAGE))

console.log(`seeds ${seeds.join(', ')}, ${seconds} s each`)
const started = Date.now()
const { counts, statuses, neverCarriedOut, failures } = await fuzz({ seeds, seconds, tokens: TOKENS, runs })
for (const failure of failures) console.log(`\n${failure}`)
const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
console.log(
  `\n${total} requests in ${Math.round((Date.now() - started) / 1_000)} s (${counts.valid ?? 0} valid, ${counts.broken ?? 0} broken), ${failures.length} failures`,
)
console.log(
  `responses: ${Object.entries(statuses)
    .map(([status, count]) => `${status} × ${count}`)
    .join(', ')}`,
)
if (neverCarriedOut.length > 0) console.log(`never carried out: ${neverCarriedOut.join(', ')}`)
process.exitCode = failures.length + neverCarriedOut.length > 0 ? 1 : 0
