import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fillPlaceholders } from 'drizzle-orm'
import { drizzle, type SqliteRemoteDatabase } from 'drizzle-orm/sqlite-proxy'
import * as z from 'zod/mini'
import { type Database, databaseMessage, type Statements } from '../db/client.ts'
import { CommandError, FLAG, resolvePath, TEXT } from './command.ts'
import { type DevRecord, readDevRecord } from './start-dev.ts'
import { bindTexts, openWranglerTransport, PROJECT_ROOT, runWrangler, statement, type Transport } from './wrangler.ts'

/** The database that a command works on: the one in a local state directory, or the deployed one. */
export type Place = { state: string } | 'remote'

/** How a command line names it. */
export const PLACE = {
  options: { state: TEXT, remote: FLAG },
  usage: '[--state DIR] [--remote]',
  help: `  --state DIR  the local database in this directory, by default .wrangler/state
  --remote     the deployed database`,
}

/** A statement as Drizzle builds it. */
export type Query = { toSQL: () => { sql: string; params: unknown[] } }

export type Orm = SqliteRemoteDatabase

export interface CommandDatabase extends AsyncDisposable {
  /** Runs reads, and builds the queries for `write`. */
  orm: Orm
  /** Runs queries as one transaction. They must be idempotent: they may run twice. */
  write: (queries: Query[]) => Promise<void>
  /** The same database as the Worker's modules use it. */
  db: Database
  close: () => Promise<void>
}

/** What may lie in a directory that becomes a state directory: hidden files, and seed files. */
const HARMLESS = /^\.|\.json$/

/**
 * The state directory of `--state`, by default that of this folder. A mistyped one is refused, so that nothing is made.
 *
 * @param mayBeNew whether the directory may be absent, below one that exists
 * @throws CommandError when it is absent, no directory, or one of other files
 */
export function readState(directory?: string, mayBeNew = false): string {
  if (directory === undefined) return `${PROJECT_ROOT}.wrangler/state`
  const state = resolvePath(directory)
  if (!existsSync(state)) {
    if (!mayBeNew) throw new CommandError(`--state: there is no directory '${directory}'.`)
    if (!existsSync(dirname(state))) throw new CommandError(`--state: there is no directory '${dirname(state)}'.`)
    return state
  }
  const names = listNames(state)
  if (names.includes('v3') || names.every((name) => HARMLESS.test(name))) return state
  throw new CommandError(
    `--state: '${directory}' has other files and no data of this service: choose another directory.`,
  )
}

function listNames(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    throw new CommandError(`Cannot store data in '${directory}': it is not a writable directory.`)
  }
}

/**
 * @param mayBeNew whether the directory of `--state` may be absent
 * @throws CommandError when `--remote` and `--state` are both given, or `--state` is mistyped
 */
export function readPlace(
  { state, remote }: { state?: string | undefined; remote?: boolean | undefined },
  mayBeNew = false,
): Place {
  if (remote && state !== undefined) throw new CommandError("Options '--remote' and '--state' cannot be used together.")
  return remote ? 'remote' : { state: readState(state, mayBeNew) }
}

/** Opens a database, to be closed by `await using` or `close`, and brings its schema up to date. */
export async function openDatabase(place: Place): Promise<CommandDatabase> {
  const transport = place === 'remote' ? openWranglerTransport(['--remote']) : await openLocalTransport(place.state)
  await applyMigrations(transport, place).catch(async (error: unknown) => {
    await transport.close()
    throw error
  })
  return wrapTransport(transport)
}

/** Drizzle over a transport. */
export function wrapTransport({ query, write, close }: Transport): CommandDatabase {
  return {
    orm: drizzle(async (sql, params, method) => {
      const rows = await query({ sql, params })
      return { rows: method === 'get' ? (rows[0] ?? []) : rows }
    }),
    write: (queries) => write(queries.map((each) => statement.parse(each.toSQL()))),
    db: wrapDatabase({ query, write }),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A write returns no rows. */
function wrapDatabase({ query, write }: Pick<Transport, 'query' | 'write'>): Database {
  const prepareAll = (statements: Statements) =>
    statements.map((each) => {
      const { prepared, values } = 'prepared' in each ? each : { prepared: each.prepare(), values: {} }
      const { sql, params } = prepared.getQuery()
      return { prepared, text: statement.parse({ sql, params: fillPlaceholders(params, values) }) }
    })
  const read = async (statements: Statements) => {
    const results: unknown[] = []
    for (const { prepared, text } of prepareAll(statements)) {
      const rows = await query(text)
      results.push(prepared.mapResult({ results: rows.map((row) => ({ ...row })) }, true))
    }
    return results as never
  }
  const writeAll = async (statements: Statements) => {
    await write(prepareAll(statements).map(({ text }) => text))
    return statements.map(() => []) as never
  }
  return { read, write: writeAll, writeIdempotent: writeAll, bookmark: () => null, waitedMs: () => 0 }
}

/**
 * The database of a running `dev`. While it runs, only its process touches the files, so that no side meets a lock.
 * Null when there is none or it does not respond.
 */
export async function connectToDev(dev: DevRecord | null): Promise<Transport | null> {
  if (!dev) return null
  const transport = openRuntimeTransport(dev.url, async () => {})
  const probe = transport.query({ sql: 'SELECT 1', params: [] }).then(() => transport)
  return probe.catch(() => null)
}

/**
 * Starts what waits for delivery, by a `dev` on the same data. A deployed service delivers on its cron trigger.
 *
 * @returns when it is delivered, as the end of a sentence
 */
export async function startDeliveries(place: Place): Promise<string> {
  if (place === 'remote') return 'within 5 minutes.'
  const dev = readDevRecord(place.state)
  if (!dev) return "when 'npm run dev' runs on this data."
  const response = await fetch(`${dev.url}/cdn-cgi/local/scheduled`).catch(() => null)
  await response?.body?.cancel()
  return response?.ok ? 'at once.' : 'with the next change.'
}

/** The id of the database in `wrangler.toml`, which names its local files. */
function readDatabaseId(): string {
  const [, id] = /^database_id\s*=\s*"([^"]+)"/m.exec(readFileSync(`${PROJECT_ROOT}wrangler.toml`, 'utf8')) ?? []
  if (id === undefined) throw new CommandError('wrangler.toml has no database_id.')
  return id
}

/** The database in the files of a state directory, through a running `dev` or a runtime of this process. */
async function openLocalTransport(state: string): Promise<Transport> {
  const dev = await connectToDev(readDevRecord(state))
  if (dev) return dev
  try {
    mkdirSync(join(state, 'v3/d1'), { recursive: true })
  } catch {
    throw new CommandError(`Cannot store data in '${state}': it is not a writable directory.`)
  }
  // It takes a third of a second to load.
  const { Miniflare } = await import('miniflare')
  const modules = { 'worker.mjs': { type: 'esm' as const, contents: 'export default {}' } }
  const config = {
    name: 'cli',
    compatibilityDate: '2026-10-20',
    manifest: { mainModule: 'worker.mjs', modulesRoot: PROJECT_ROOT, modules },
    env: { DB: { type: 'd1' as const, id: readDatabaseId() } },
  }
  const runtime = new Miniflare({
    resourcePersistencePath: join(state, 'v3'),
    unsafeLocalExplorer: true,
    handleStructuredLogs: () => {},
    cf: false,
    telemetry: { enabled: false },
    workers: [{ config, dev: { rootPath: PROJECT_ROOT } }],
  })
  return openRuntimeTransport((await runtime.ready).href, () => runtime.dispose())
}

const runtimeResponse = z.object({
  errors: z.array(z.object({ message: z.string() })),
  result: z.nullable(z.array(z.object({ results: z.object({ rows: z.array(z.array(z.unknown())) }) }))),
})

/** The file is locked (while workerd opens it, that is an internal error), or `wrangler dev` has just reloaded. */
const TRANSIENT =
  /SQLITE_BUSY|database is locked|internal error; reference|session commit token|restarted mid-request|other side closed|ECONNRESET/
const RETRY_FOR_MS = 15_000
/** How long another command may take to bring the same database up to date. */
const OTHER_COMMAND_MS = 10_000
const RETRY_PAUSE_MS = 50

/** The database of a local runtime, through the API of its explorer. */
function openRuntimeTransport(url: string, close: () => Promise<void>): Transport {
  const address = new URL(`/cdn-cgi/local/explorer/api/d1/database/${readDatabaseId()}/raw`, url)
  const headers = { 'content-type': 'application/json' }

  async function post(content: object) {
    const body = JSON.stringify(content)
    for (const deadline = Date.now() + RETRY_FOR_MS; ; ) {
      try {
        // After the long work of building a large body, the client must first notice a connection that has been closed.
        await sleep(0)
        const response = await fetch(address, { method: 'POST', headers, body })
        const received = await response.text()
        // A runtime that reloads responds with plain text.
        if (!received.startsWith('{')) throw new Error(received.split('\n')[0])
        const { errors, result } = runtimeResponse.parse(JSON.parse(received))
        if (!result) throw new Error(errors[0]?.message ?? `HTTP ${response.status}`)
        return result
      } catch (error) {
        const messages = error instanceof Error ? `${error.message} ${databaseMessage(error)}` : ''
        if (!TRANSIENT.test(messages) || Date.now() > deadline) throw error
        await sleep(RETRY_PAUSE_MS * (1 + Math.random()))
      }
    }
  }

  return {
    query: async (statement) => (await post(bindTexts(statement)))[0]?.results.rows ?? [],
    write: async (batch) => void (await post({ batch: batch.map(bindTexts) })),
    close,
  }
}

async function applyMigrations(transport: Transport, place: Place): Promise<void> {
  if (!(await lacksMigrations(transport))) return
  const location = place === 'remote' ? ['--remote'] : ['--local', '--persist-to', place.state]
  const deadline = Date.now() + OTHER_COMMAND_MS
  try {
    await runWrangler(['d1', 'migrations', 'apply', 'DB', ...location])
  } catch (error) {
    // Of two commands that start on a new database, the second waits for the first.
    while (await lacksMigrations(transport)) {
      if (place === 'remote' || Date.now() > deadline) throw error
      await sleep(200)
    }
  }
}

async function lacksMigrations({ query }: Transport): Promise<boolean> {
  const table = await query({ sql: "SELECT name FROM sqlite_master WHERE name = 'd1_migrations'", params: [] })
  if (table.length === 0) return true
  const applied = new Set((await query({ sql: 'SELECT name FROM d1_migrations', params: [] })).flat())
  return readdirSync(`${PROJECT_ROOT}drizzle`).some((name) => name.endsWith('.sql') && !applied.has(name))
}
