import { execFileSync } from 'node:child_process'
import { copyFileSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { readConfiguration } from '../../../src/cli/wrangler.ts'

const DATABASE_ID = 'bench'
const MAIN = 'index.js'

/** The API's key in benchmarks, for integrations that they store. */
export const CREDENTIALS_KEY = btoa('0123456789abcdef0123456789abcdef')

/**
 * Builds the Worker as it is deployed, minified.
 *
 * @param wrapper a module of this folder that exports the Worker with changes
 * @param options further options of `wrangler deploy`
 */
export function buildWorker(directory: string, wrapper?: string, options: string[] = []): string {
  execFileSync('wrangler', ['deploy', '--dry-run', '--env', 'production', '--outdir', directory, ...options], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if (wrapper === undefined) return join(directory, MAIN)
  copyFileSync(join(import.meta.dirname, wrapper), join(directory, wrapper))
  return join(directory, wrapper)
}

const unlimited = (namespace_id: string) => ({ namespace_id, simple: { limit: 1_000_000, period: 60 } as const })

/** Limits of callers, of which a tool is one for many. */
export const UNLIMITED = { AUTH_FAILURES: unlimited('1'), ADMIN_REQUESTS: unlimited('2') }

type Settings = Partial<Parameters<typeof convertV4MiniflareOptions>[0]>

/** Miniflare's settings that a caller may replace; `bindings` are added to those of the API. */
export interface ApiSettings {
  port?: number
  d1Databases?: Record<string, string>
  inspectorPort?: number
  bindings?: Record<string, string>
  serviceBindings?: Record<string, () => Response>
  r2Buckets?: Record<string, { id: string; s3Credentials: { accessKeyId: string; secretAccessKey: string } }>
  ratelimits?: Record<string, { namespace_id: string; simple: { limit: number; period: 60 } }>
  handleStructuredLogs?: (log: { message: string }) => void
}

/** The built API with the bindings of `wrangler.toml`, on the data of a state directory, in a runtime of its own. */
export function startApi(scriptPath: string, stateDir: string, settings: ApiSettings = {}): Promise<Running> {
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

/** A Worker of this folder that does what a request needs and nothing else. */
export function startFloor(file: string, stateDir: string, settings: Settings = {}): Promise<Running> {
  return startBare(readFileSync(join(import.meta.dirname, file), 'utf8'), stateDir, settings)
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
    } as Parameters<typeof convertV4MiniflareOptions>[0]),
  )
  return { worker, url: (await worker.ready).origin, [Symbol.asyncDispose]: () => worker.dispose() }
}
