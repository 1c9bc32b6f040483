import { randomInt } from 'node:crypto'
import { conclude, readFlags } from '../harness/arguments.ts'
import { crashCreates, crashImport } from './resumed.ts'
import { crash, describe } from './run.ts'

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
const ANY: [number, number] = [0, 999_999_999]

const flags = readFlags(USAGE, { times: ANY, creates: ANY, import: ANY, seed: ANY })
const { times = 10, creates, import: orders, seed = randomInt(1_000_000_000) } = flags
console.log(`seed ${seed}`)
if (creates !== undefined) {
  const figures = await crashCreates({ seed, creates })
  console.log(JSON.stringify(figures))
  conclude([figures.rows, figures.ids].filter((count) => count !== creates).map((count) => `${count}, not ${creates}`))
} else if (orders !== undefined) {
  const { findings, ...figures } = await crashImport({ seed, orders })
  console.log(JSON.stringify(figures))
  conclude(findings)
} else {
  const { figures, findings, close } = await crash({ seed, times, report: console.log })
  await close()
  console.log(describe(figures))
  conclude(findings)
}
