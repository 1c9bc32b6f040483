import { conclude, readFlags } from '../harness/arguments.ts'
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
const USAGE = 'npm run moves -- [--orders N | --kill]'
const { orders = 100_000, kill } = readFlags(USAGE, { orders: [1, 9_999_999] }, ['kill'])
if (kill) {
  const { figures, close } = await killMoves(console.log)
  await close()
  console.log(JSON.stringify(figures, null, 2))
  conclude(figures.findings)
} else console.log(JSON.stringify(await measureMove(orders), null, 2))
