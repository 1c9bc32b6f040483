import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { readConfiguration } from '../../../src/cli/wrangler.ts'

const DATABASE_ID = 'bench'
const MAIN = 'index.js'

/** The API's key in benchmarks, for integrations that they store. */
export const CREDENTIALS_KEY = btoa('0123456789abcdef0123456789abcdef')

const ROOT = join(import.meta.dirname, '../../..')
const BENCH = join(ROOT, 'test/tools/bench')

/**
 * Builds the Worker as it is deployed, minified, in a temporary directory that is removed in the end.
 *
 * @param wrapper a module of `bench` that exports the Worker with changes
 * @param options further options of `wrangler deploy`
 * @param root a directory of this repository's form
 */
export async function openBuild(wrapper = MAIN, options: string[] = [], root = ROOT) {
  const { path: directory, remove } = await mkdtempDisposable(join(tmpdir(), 'crm-tool-'))
  const out = join(directory, 'build')
  const args = ['deploy', '--dry-run', '--env', 'production', '--outdir', out, ...options]
  execFileSync('wrangler', args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
  if (wrapper !== MAIN) copyFileSync(join(BENCH, wrapper), join(out, wrapper))
  return { script: join(out, wrapper), directory, state: join(directory, 'state'), [Symbol.asyncDispose]: remove }
}

const unlimited = (namespace_id: string) => ({ namespace_id, simple: { limit: 1_000_000, period: 60 } as const })

/** Limits of callers, of which a tool is one for many. */
export const UNLIMITED = { AUTH_FAILURES: unlimited('1'), ADMIN_REQUESTS: unlimited('2') }

/** Miniflare's settings, which it checks itself. */
type Settings = Record<string, unknown> & {
  bindings?: Record<string, string>
  handleStructuredLogs?: (log: { level: string; message: string }) => void
}

/** The built API with the bindings of `wrangler.toml`, on the data of a state directory, in a runtime of its own. */
export function startApi(scriptPath: string, stateDir: string, settings: Settings = {}): Promise<Running> {
  const { kv_namespaces, r2_buckets, durable_objects, ratelimits } = readConfiguration()
  const objects = durable_objects.bindings.map(({ name, class_name: className }) => [
    name,
    { className, useSQLite: true },
  ])
  const paths = [...new Set([scriptPath, join(dirname(scriptPath), MAIN)])]
  return startRuntime(stateDir, {
    modules: paths.map((path) => ({ type: 'ESModule' as const, path })),
    modulesRoot: '/',
    kvNamespaces: kv_namespaces.map(({ binding }) => binding),
    r2Buckets: r2_buckets.map(({ binding }) => binding),
    durableObjects: Object.fromEntries(objects),
    ratelimits: Object.fromEntries(ratelimits.map(({ name, ...limit }) => [name, limit])),
    ...settings,
    // Suppliers are simulated on a loopback address.
    bindings: { CREDENTIALS_KEY, WEBHOOK_LOOPBACK: 'development', ...settings.bindings },
  })
}

/** A Worker that has the database, the cache and nothing else: the floor, and the way to fill the data. */
export function startBare(script: string, stateDir: string, settings: Settings = {}): Promise<Running> {
  return startRuntime(stateDir, { modules: true, script, kvNamespaces: ['CACHE'], ...settings })
}

/** A Worker of `bench` that does what a request needs and nothing else. */
export function startFloor(file: string, stateDir: string, settings: Settings = {}): Promise<Running> {
  return startBare(readFileSync(join(BENCH, file), 'utf8'), stateDir, settings)
}

export type Running = Awaited<ReturnType<typeof startRuntime>>

/** A runtime of the service's dates and flags. */
export async function startRuntime(stateDir: string, settings: Settings) {
  const { compatibility_date, compatibility_flags } = readConfiguration()
  const worker = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      cf: false,
      compatibilityDate: compatibility_date,
      compatibilityFlags: compatibility_flags,
      d1Databases: { DB: DATABASE_ID },
      resourcePersistencePath: stateDir,
      // Dropped, since printing a line for each request would be measured, too.
      handleStructuredLogs: () => {},
      ...settings,
    } as never),
  )
  return { worker, url: (await worker.ready).origin, [Symbol.asyncDispose]: () => worker.dispose() }
}

/** Fills the data of a state directory in a runtime that ends with it. */
export async function fillState<T>(state: string, fill: (worker: Miniflare) => Promise<T>): Promise<T> {
  await using runtime = await startBare('export default { fetch: () => new Response() }', state)
  return await fill(runtime.worker)
}

/** Names data that was filled once and is used again: other migrations, or another company, need other data. */
function dataVersion(): string {
  const migrations = readdirSync(join(ROOT, 'drizzle')).filter((name) => name.endsWith('.sql'))
  const hash = createHash('sha256')
  for (const path of [...migrations.sort().map((name) => join('drizzle', name)), 'test/tools/harness/company.ts']) {
    hash.update(readFileSync(join(ROOT, path)))
  }
  return hash.digest('hex').slice(0, 8)
}

/** Fills a state directory once per schema and caches it under `.bench/`: benchmarks work on copies. */
export async function fillOnce<Tokens>(name: string, fill: (worker: Miniflare) => Promise<Tokens>) {
  const cached = join(ROOT, '.bench', `${name}-${dataVersion()}`)
  const file = join(cached, 'tokens.json')
  if (!existsSync(file)) {
    rmSync(cached, { recursive: true, force: true })
    mkdirSync(cached, { recursive: true })
    writeFileSync(file, JSON.stringify(await fillState(cached, fill)))
  }
  const tokens: Tokens = JSON.parse(readFileSync(file, 'utf8'))
  return { cached, tokens }
}
