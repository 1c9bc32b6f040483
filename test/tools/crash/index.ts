import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { crashCreates } from './creates.ts'
import { crash } from './run.ts'

/*
 * npm run crash -- --times N --seed S
 * npm run crash -- --creates N --seed S
 *
 * With `--creates`, kills the service while N creations are sent, each with a key until it is answered: there must be N
 * rows. Else kills the service N times while it writes, the runtime alone and the whole process group in turn, and checks after
 * each restart that nothing is lost or torn. Ends with exit code 1 where something was. Needs Linux.
 */
const USAGE = 'npm run crash -- [--times N | --creates N] [--seed S]'
const SHOWN = 20

const { values } = parseArgs({
  options: { times: { type: 'string' }, creates: { type: 'string' }, seed: { type: 'string' } },
})
const times = readNumber(values.times ?? '10')
const seed = readNumber(values.seed ?? String(randomInt(1_000_000_000)))

if (values.creates === undefined) await runCrashes()
else await runCreates(readNumber(values.creates))

async function runCreates(creates: number): Promise<void> {
  console.log(`seed ${seed}, ${creates} creations`)
  const figures = await crashCreates({ seed, creates })
  console.log(JSON.stringify(figures))
  process.exitCode = figures.rows === creates && figures.ids === creates ? 0 : 1
}

async function runCrashes(): Promise<void> {
  console.log(`seed ${seed}, ${times} crashes`)
  const started = Date.now()
  const { figures, findings, close } = await crash({ seed, times, report: console.log })
  await close()
  for (const finding of findings.slice(0, SHOWN)) console.log(`\n${finding}`)
  const { crashes, acknowledged, inFlight, carriedOut, refused } = figures
  console.log(
    `\n${crashes.workerd + crashes.group} crashes (${crashes.workerd} of the runtime, ${crashes.group} of everything) in ${Math.round((Date.now() - started) / 1_000)} s: ${acknowledged} writes acknowledged, ${inFlight} in flight at a kill (${carriedOut} of them carried out), ${refused} refused; ${findings.length} findings`,
  )
  process.exitCode = findings.length > 0 ? 1 : 0
}

function readNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error(`A whole number was expected, not '${text}'. Usage: ${USAGE}`)
  return Number(text)
}
