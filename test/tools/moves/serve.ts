import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { applyMigrations } from '../../../src/cli/local-runtime.ts'
import { readConfiguration } from '../../../src/cli/wrangler.ts'
import { CREDENTIALS_KEY } from '../bench/worker.ts'
import { ADMIN_TOKEN, NAMES } from './two-databases.ts'

// The process of a service: see `two-databases.ts`, which kills it.

const [script = '', state = '', port = '0'] = process.argv.slice(2)
const { compatibility_date, compatibility_flags, kv_namespaces, r2_buckets, durable_objects, ratelimits } =
  readConfiguration()
const worker = new Miniflare(
  convertV4MiniflareOptions({
    host: '127.0.0.1',
    port: Number(port),
    cf: false,
    compatibilityDate: compatibility_date,
    compatibilityFlags: compatibility_flags,
    modules: [{ type: 'ESModule', path: script }],
    modulesRoot: '/',
    d1Databases: Object.fromEntries(NAMES.map((name) => [name, name])),
    kvNamespaces: kv_namespaces.map(({ binding }) => binding),
    r2Buckets: r2_buckets.map(({ binding }) => binding),
    durableObjects: Object.fromEntries(
      durable_objects.bindings.map(({ name, class_name }) => [name, { className: class_name, useSQLite: true }]),
    ),
    ratelimits: Object.fromEntries(
      // Each step of a move is a request of the operator.
      ratelimits.map(({ name, namespace_id }) => [name, { namespace_id, simple: { limit: 100_000, period: 60 } }]),
    ),
    // The shops' suppliers are at a loopback address.
    bindings: { CREDENTIALS_KEY, ADMIN_TOKEN, WEBHOOK_LOOPBACK: 'development' },
    resourcePersistencePath: state,
    handleStructuredLogs: ({ level, message }: { level: string; message: string }) => {
      if (level === 'error' && process.env.VERBOSE) console.error(message)
    },
  } as Parameters<typeof convertV4MiniflareOptions>[0]),
)
await worker.ready
for (const name of NAMES) {
  const db = await worker.getD1Database(name)
  await applyMigrations(db)
  await db.exec(`CREATE TABLE IF NOT EXISTS named_${name} (x INTEGER)`)
}
process.send?.('ready')
