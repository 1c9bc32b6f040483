import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Place } from './database.ts'
import type { Transport } from './transport.ts'
import { PROJECT_ROOT, runWrangler } from './wrangler.ts'

/** How long another command may take to bring the same database up to date. */
const OTHER_COMMAND_MS = 10_000

/** Applies the migrations that a database lacks; asks wrangler only when there are any. */
export async function prepareDatabase(transport: Transport, place: Place): Promise<void> {
  if (!(await lacksMigrations(transport))) return
  const where = place === 'remote' ? ['--remote'] : ['--local', '--persist-to', place.state]
  const deadline = Date.now() + OTHER_COMMAND_MS
  try {
    await runWrangler(['d1', 'migrations', 'apply', 'DB', ...where])
  } catch (error) {
    // Two commands may start on a new database at once: the one that came second waits for the first.
    while (await lacksMigrations(transport)) {
      if (place === 'remote' || Date.now() > deadline) throw error
      await sleep(200)
    }
  }
}

async function lacksMigrations(transport: Transport): Promise<boolean> {
  const table = await transport.query({
    sql: "SELECT name FROM sqlite_master WHERE name = 'd1_migrations'",
    params: [],
  })
  if (table.length === 0) return true
  const applied = new Set((await transport.query({ sql: 'SELECT name FROM d1_migrations', params: [] })).flat())
  return readdirSync(`${PROJECT_ROOT}/drizzle`).some((name) => name.endsWith('.sql') && !applied.has(name))
}
