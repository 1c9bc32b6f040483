import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { fuzz } from './run.ts'

/*
 * npm run fuzz -- --seconds N --seed S
 *
 * Sends requests made from the published description, valid and broken, to a served application and checks every response.
 * The same seed makes the same requests. Ends with exit code 1 where something was wrong.
 */
const USAGE = 'npm run fuzz -- [--seconds N] [--seed S]'
const TOKENS = 500
const RUNS = 20

const { values } = parseArgs({ options: { seconds: { type: 'string' }, seed: { type: 'string' } } })
const seconds = readNumber(values.seconds ?? '60')
const seed = readNumber(values.seed ?? String(randomInt(1_000_000_000)))

console.log(`seed ${seed}, ${seconds} s`)
const started = Date.now()
const { counts, statuses, neverCarriedOut, failures } = await fuzz({ seed, seconds, tokens: TOKENS, runs: RUNS })
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

function readNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error(`A whole number was expected, not '${text}'. Usage: ${USAGE}`)
  return Number(text)
}
