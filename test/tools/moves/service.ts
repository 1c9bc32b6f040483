import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { BUDGET_MS } from '../../../src/kernel/http/isolate.ts'
import { chooseFreePort } from '../../node/servers.ts'
import { ask as askFor } from '../harness/http.ts'
import { killProcess } from '../harness/processes.ts'
import { openBuild } from '../harness/worker.ts'

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
  await using opened = new AsyncDisposableStack()
  const { script, state } = opened.use(await openBuild())
  const port = await chooseFreePort()
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
    killProcess(-child.pid)
    await ended
  }
  opened.defer(kill)
  await start()
  /** Reads a database; the service need not run. */
  const read = <T>(name: Name, sql: string, ...values: (string | number)[]) => {
    // A service that was killed leaves a log, which the next one that opens the database reads first.
    using db = new DatabaseSync(fileOf(state, name), { readOnly: true, timeout: 5_000 })
    return db.prepare(sql).all(...values) as T[]
  }
  /** Changes a database while the service does not run. */
  const write = async (name: Name, work: (db: DatabaseSync) => void) => {
    await kill()
    const db = new DatabaseSync(fileOf(state, name), { timeout: 5_000 })
    work(db)
    db.close()
    await start()
  }
  const serving = opened.move()
  /** Ends the service, and removes its data. */
  const close = () => serving.disposeAsync()
  const url = `http://127.0.0.1:${port}`
  return { url, start, kill, read, write, close, [Symbol.asyncDispose]: close }
}

const files = new Map<string, string>()

/** The runtime's names of files tell nothing: each database has a table with its name. */
function fileOf(state: string, name: Name): string {
  const key = `${state} ${name}`
  const folder = join(state, 'd1/miniflare-D1DatabaseObject')
  for (const file of files.has(key) ? [] : readdirSync(folder).filter((each) => each.endsWith('.sqlite'))) {
    const db = new DatabaseSync(join(folder, file), { readOnly: true, timeout: 5_000 })
    const [table] = db.prepare("SELECT name FROM sqlite_master WHERE name LIKE 'named_%'").all()
    db.close()
    if (table) files.set(`${state} ${String(table.name).slice('named_'.length)}`, join(folder, file))
  }
  const found = files.get(key)
  if (found === undefined) throw new Error(`There is no file of ${name} in ${folder}: ${readdirSync(folder)}`)
  return found
}

/** A request that is repeated while the service still runs it may end after those that were sent later. */
const RESPONSE_MS = 2 * BUDGET_MS.handler

/** One request, as {@link askFor} sends it. */
export const ask = (
  service: Service,
  token: string,
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
) => askFor(service, token, method, path, { body, headers, timeoutMs: RESPONSE_MS })

/** A request of the operator that succeeds. */
export async function administer(service: Service, method: string, path: string, body?: object) {
  const answer = await ask(service, ADMIN_TOKEN, method, `/admin/v1${path}`, body)
  if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}

export async function makeTokens(service: Service, companyId: number, count: number): Promise<string[]> {
  const tokens: string[] = []
  for (let number = 0; number < count; number++) {
    tokens.push((await administer(service, 'POST', `/companies/${companyId}/tokens`, { name: `t${number}` })).token)
  }
  return tokens
}

/** `npm run companies -- move`, as a process of its own. */
export function startMove({ url }: Service, companyId: number, to: string) {
  const args = [join(import.meta.dirname, '../../../src/cli/companies.ts'), 'move', String(companyId), '--to', to]
  const { promise, resolve } = Promise.withResolvers<{ code: number | null; output: string }>()
  const env = { ...process.env, CRM_ADMIN_TOKEN: ADMIN_TOKEN }
  const child = execFile(process.execPath, [...args, '--remote', url], { env }, (_, stdout, stderr) => {
    resolve({ code: child.exitCode, output: stdout + stderr })
  })
  return { ended: promise, kill: () => child.kill('SIGKILL') }
}
