import { parseArgs } from 'node:util'
import { killMoves } from './kill.ts'
import { measureMove } from './measure.ts'

/*
 * npm run moves -- --orders N
 * npm run moves -- --kill
 *
 * Moves a company of N orders from one database to another while it is read and written, and prints for how long writes
 * were refused. With `--kill`, kills moves at ten points while the company is written, and continues them or takes them
 * back: ends with exit code 1 where something was lost or doubled.
 */
const { values } = parseArgs({ options: { orders: { type: 'string', default: '100000' }, kill: { type: 'boolean' } } })
if (values.kill) {
  const { figures, close } = await killMoves(console.log)
  await close()
  console.log(JSON.stringify(figures, null, 2))
  process.exitCode = figures.findings.length > 0 ? 1 : 0
} else console.log(JSON.stringify(await measureMove(Number(values.orders)), null, 2))
