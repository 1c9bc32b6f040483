import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { KEY, MALFORMED_KEY, splitKeys } from '../kernel/db/credentials.ts'
import { BEFORE_RELEASE, DATABASE_BINDING } from '../kernel/db/names.ts'
import { CommandError } from './command.ts'
import { PROJECT_ROOT, readConfiguration } from './wrangler.ts'

/** The secrets of the service in development, as `wrangler dev` reads them. @throws CommandError without them */
export function readDevVars(file = `${PROJECT_ROOT}.dev.vars`): { ADMIN_TOKEN: string } & NodeJS.Dict<string> {
  const vars = existsSync(file) ? parseEnv(readFileSync(file, 'utf8')) : {}
  const { ADMIN_TOKEN, CREDENTIALS_KEY = '' } = vars
  const isValid = splitKeys(CREDENTIALS_KEY).every((key) => KEY.test(key))
  if (!isValid) throw new CommandError(`.dev.vars: ${MALFORMED_KEY}`)
  if (ADMIN_TOKEN) return { ...vars, ADMIN_TOKEN }
  throw new CommandError('.dev.vars has no ADMIN_TOKEN: restore the file of this repository.')
}

/** Prefix of classes that start no delivery: it would be cut off when the command ends, and is left to `dev`. */
const IDLE = 'Idle'
const ENTRY = `
  import { AccountingDelivery, WebhookDelivery } from './src/index.ts'
  export * from './src/index.ts'
  export { default } from './src/index.ts'
  export class ${IDLE}AccountingDelivery extends AccountingDelivery { start() {} alarm() {} }
  export class ${IDLE}WebhookDelivery extends WebhookDelivery { start() {} alarm() {} }`

async function buildWorker(): Promise<string> {
  const { build } = await import('esbuild')
  const { outputFiles } = await build({
    stdin: { contents: ENTRY, resolveDir: PROJECT_ROOT, loader: 'ts' },
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*', 'node:*'],
    logLevel: 'silent',
  })
  return outputFiles[0]?.text ?? ''
}

/** A runtime on the data of a claimed state directory, whose schema it updates; with the Worker where it serves. */
export async function startRuntime(state: string, serves = true): Promise<{ url: string; close: () => Promise<void> }> {
  const { vars, d1_databases, kv_namespaces, r2_buckets, ratelimits, ...config } = readConfiguration()
  // A test or a company's network sets WEBHOOK_RESOLVER in the environment; all others are those of `dev`.
  const { WEBHOOK_RESOLVER } = process.env
  const objects = config.durable_objects.bindings.map(({ name, class_name }) => {
    const className = name.endsWith('_DELIVERY') ? IDLE + class_name : class_name
    return [name, { className, useSQLite: true }]
  })
  // Both take a third of a second.
  const built = serves ? buildWorker() : 'export default {}'
  const [{ convertV4MiniflareOptions, Miniflare }, script] = await Promise.all([import('miniflare'), built])
  const options = convertV4MiniflareOptions({
    name: config.name,
    compatibilityDate: config.compatibility_date,
    compatibilityFlags: config.compatibility_flags,
    modules: true,
    script,
    bindings: { ...vars, ...readDevVars(), ...(WEBHOOK_RESOLVER && { WEBHOOK_RESOLVER }) },
    d1Databases: Object.fromEntries(d1_databases.map(({ binding, database_id }) => [binding, database_id])),
    kvNamespaces: Object.fromEntries(kv_namespaces.map(({ binding, id }) => [binding, id])),
    r2Buckets: Object.fromEntries(r2_buckets.map(({ binding, bucket_name }) => [binding, bucket_name])),
    ratelimits: Object.fromEntries(ratelimits.map(({ name, ...limit }) => [name, limit])),
    durableObjects: Object.fromEntries(serves ? objects : []),
    resourcePersistencePath: join(state, 'v3'),
    handleStructuredLogs: ({ level, message }) => level === 'error' && console.error(message),
    cf: false,
    telemetry: { enabled: false },
  })
  const runtime = new Miniflare(options)
  try {
    const { origin } = await runtime.ready
    const databases = d1_databases.map(({ binding }) => binding).filter((name) => DATABASE_BINDING.test(name))
    for (const name of databases) await applyMigrations(await runtime.getD1Database(name))
    return { url: origin, close: () => runtime.dispose() }
  } catch (error) {
    await runtime.dispose()
    throw error
  }
}

/** @throws the error of a port of this machine that cannot be used */
export async function checkPort(port: number): Promise<void> {
  await using server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
}

const OLD_STATE =
  'The local data was made by a version before the first release: delete its directory (.wrangler/state), or name another with --state.'

const RECORDS = `CREATE TABLE IF NOT EXISTS d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`

/** Applies the migrations that a local database lacks, each in one transaction, and records them as wrangler does. */
export async function applyMigrations(db: Pick<D1Database, 'prepare' | 'batch'>): Promise<void> {
  await db.prepare(RECORDS).run()
  const { results } = await db.prepare('SELECT name FROM d1_migrations').all<{ name: string }>()
  const applied = new Set(results.map(({ name }) => name))
  const names = readdirSync(`${PROJECT_ROOT}drizzle`).filter((name) => name.endsWith('.sql'))
  const [first = ''] = names.sort()
  // Until the first release, the first migration changed in place.
  const isFirst = [...applied].join() === first
  if (applied.has(BEFORE_RELEASE) || (isFirst && (await differs(db, first)))) throw new CommandError(OLD_STATE)
  for (const name of names.filter((name) => !applied.has(name))) {
    const record = db.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name)
    await db.batch([...statementsOf(name).map((sql) => db.prepare(sql)), record])
  }
}

const statementsOf = (name: string) =>
  readFileSync(`${PROJECT_ROOT}drizzle/${name}`, 'utf8').split('--> statement-breakpoint')

/** Whether the database lacks what a migration makes: SQLite stores the text that made a table, an index or a trigger. */
async function differs(db: Pick<D1Database, 'prepare'>, name: string): Promise<boolean> {
  const { results } = await db.prepare('SELECT sql FROM sqlite_master').all<{ sql: string | null }>()
  const texts = new Set(results.map(({ sql }) => sql))
  const made = statementsOf(name).flatMap((text) => /^CREATE[\s\S]*(?=;)/m.exec(text) ?? [])
  return made.some((text) => !texts.has(text))
}
