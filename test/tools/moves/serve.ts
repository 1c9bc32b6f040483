import { applyMigrations } from '../../../src/cli/local-runtime.ts'
import { startApi, UNLIMITED } from '../harness/worker.ts'
import { ADMIN_TOKEN, NAMES } from './service.ts'

// The process of a service: see `service.ts`, which kills it.

const [script = '', state = '', port = '0'] = process.argv.slice(2)
const { worker } = await startApi(script, state, {
  port: Number(port),
  d1Databases: Object.fromEntries(NAMES.map((name) => [name, name])),
  // Each step of a move is a request of the operator.
  ratelimits: UNLIMITED,
  bindings: { ADMIN_TOKEN },
})
for (const name of NAMES) {
  const db = await worker.getD1Database(name)
  await applyMigrations(db)
  await db.exec(`CREATE TABLE IF NOT EXISTS named_${name} (x INTEGER)`)
}
process.send?.('ready')
