import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { readNumber } from '../harness/number.ts'
import { crashCreates } from './creates.ts'
import { crashImport } from './imports.ts'
import { crash } from './run.ts'

/*
 * npm run crash -- --times N --seed S
 * npm run crash -- --creates N --seed S
 * npm run crash -- --import N --seed S
 *
 * With `--creates`, kills the service while N creations are sent, each with a key until it is answered: there must be N
 * rows. With `--import`, kills it while a seed file of N orders is imported and resumed: there must be the rows of the file.
 * Else kills the service N times while it writes, the runtime alone and the whole process group in turn, and checks after
 * each restart that nothing is lost or torn. Ends with exit code 1 where something was. Needs Linux.
 */
const USAGE = 'npm run crash -- [--times N | --creates N | --import N] [--seed S]'
const SHOWN = 20

const { values } = parseArgs({
  options: {
    times: { type: 'string' },
    creates: { type: 'string' },
    import: { type: 'string' },
    seed: { type: 'string' },
  },
})
const times = readNumber(values.times ?? '10', USAGE)
const seed = readNumber(values.seed ?? String(randomInt(1_000_000_000)), USAGE)

if (values.creates !== undefined) {
  const creates = readNumber(values.creates, USAGE)
  console.log(`seed ${seed}, ${creates} creations`)
  const figures = await crashCreates({ seed, creates })
  console.log(JSON.stringify(figures))
  process.exitCode = figures.rows === creates && figures.ids === creates ? 0 : 1
} else if (values.import !== undefined) {
  const orders = readNumber(values.import, USAGE)
  console.log(`seed ${seed}, an import of ${orders} orders`)
  const { findings, ...figures } = await crashImport({ seed, orders })
  conclude(findings, JSON.stringify({ ...figures, findings: findings.length }))
} else await runCrashes()

function conclude(findings: string[], summary: string): void {
  for (const finding of findings.slice(0, SHOWN)) console.log(`\n${finding}`)
  console.log(`\n${summary}`)
  process.exitCode = findings.length > 0 ? 1 : 0
}

async function runCrashes(): Promise<void> {
  console.log(`seed ${seed}, ${times} crashes`)
  const started = Date.now()
  const { figures, findings, close } = await crash({ seed, times, report: console.log })
  await close()
  const { crashes, acknowledged, inFlight, carriedOut, refused, unnamedObjects } = figures
  conclude(
    findings,
    `${crashes.workerd + crashes.group} crashes (${crashes.workerd} of the runtime, ${crashes.group} of everything) in ${Math.round((Date.now() - started) / 1_000)} s: ${acknowledged} writes acknowledged, ${inFlight} in flight at a kill (${carriedOut} of them carried out), ${refused} refused, ${unnamedObjects} objects of mail left without a name; ${findings.length} findings`,
  )
}
