import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { chooseFreePort } from '../../node/start-dev.ts'
import { buildWorker } from '../bench/worker.ts'

/** The databases of companies, as they are bound. */
export const NAMES = ['DB', 'DB_TWO'] as const
export type Name = (typeof NAMES)[number]

export type Service = Awaited<ReturnType<typeof openService>>

export const ADMIN_TOKEN = 'a'.repeat(64)

/**
 * Builds the service and starts it on two databases, in a process group of its own, on data that outlives it. Both
 * databases have the schema, and nothing else.
 */
export async function openService() {
  const directory = mkdtempSync(join(tmpdir(), 'crm-moves-'))
  const script = buildWorker(join(directory, 'build'))
  const port = await chooseFreePort()
  const state = join(directory, 'state')
  let child: ChildProcess | null = null

  async function start() {
    const args = [script, state, String(port)]
    child = fork(join(import.meta.dirname, 'serve.ts'), args, {
      detached: true,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const outcome = await Promise.race([once(child, 'message'), once(child, 'exit').then(() => null)])
    if (outcome === null) throw new Error('The service has ended.')
  }
  /** Ends all of its processes at once. */
  async function kill() {
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    process.kill(-child.pid, 'SIGKILL')
    await ended
  }
  /** Ends the service, and removes its data. */
  async function close() {
    await kill()
    rmSync(directory, { recursive: true, force: true })
  }
  try {
    await start()
  } catch (error) {
    await close()
    throw error
  }
  /** Reads a database; the service need not run. */
  const read = <T>(name: Name, sql: string, ...values: (string | number)[]) => {
    const db = new DatabaseSync(fileOf(state, name), { readOnly: true })
    try {
      return db.prepare(sql).all(...values) as T[]
    } finally {
      db.close()
    }
  }
  /** Changes a database while the service does not run. */
  const write = async (name: Name, work: (db: DatabaseSync) => void) => {
    await kill()
    const db = new DatabaseSync(fileOf(state, name))
    work(db)
    db.close()
    await start()
  }
  return { url: `http://127.0.0.1:${port}`, start, kill, read, write, close }
}

const files = new Map<string, string>()

/** The runtime's names of files tell nothing: each database has a table with its name. */
function fileOf(state: string, name: Name): string {
  const key = `${state} ${name}`
  const folder = join(state, 'd1/miniflare-D1DatabaseObject')
  for (const file of files.has(key) ? [] : readdirSync(folder).filter((each) => each.endsWith('.sqlite'))) {
    const db = new DatabaseSync(join(folder, file), { readOnly: true })
    const [table] = db.prepare("SELECT name FROM sqlite_master WHERE name LIKE 'named_%'").all()
    db.close()
    if (table) files.set(`${state} ${String(table.name).slice('named_'.length)}`, join(folder, file))
  }
  const found = files.get(key)
  if (found === undefined) throw new Error(`There is no file of ${name} in ${folder}: ${readdirSync(folder)}`)
  return found
}
