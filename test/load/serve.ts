import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { PERMISSIONS } from '../../src/auth/permissions.ts'
import { fillCompany } from '../bench/company.ts'
import { CREDENTIALS_KEY, startBare } from '../bench/worker.ts'

const BUCKET = 'files'
const STORAGE_KEYS = { accessKeyId: 'load', secretAccessKey: 'load-only-not-a-secret' }
const BARE = 'export default { fetch: () => new Response() }'

/** Fills a state directory with one company; gives tokens with every permission. */
export async function prepareState(state: string, clients: number, tokenCount: number): Promise<string[]> {
  const { worker } = await startBare(BARE, state)
  try {
    const tokens = await fillCompany(worker, clients, tokenCount)
    const db = await worker.getD1Database('DB')
    await db.prepare('UPDATE api_tokens SET permissions = ?').bind(JSON.stringify(PERMISSIONS)).run()
    return tokens
  } finally {
    await worker.dispose()
  }
}

/**
 * The built Worker with everything that it binds, files included: the local bucket is behind its S3 endpoint, and
 * uploads take the way of the local development.
 *
 * @param onLog called with every line that it logs
 */
export function startLoaded(script: string, state: string, onLog: (line: string) => void): Miniflare {
  const options = {
    host: '127.0.0.1',
    port: 0,
    inspectorPort: 0,
    cf: false,
    compatibilityDate: '2026-10-20',
    compatibilityFlags: ['nodejs_compat'],
    modules: [{ type: 'ESModule', path: script }],
    modulesRoot: '/',
    // As `test/bench/worker.ts` names it.
    d1Databases: { DB: 'bench' },
    kvNamespaces: ['CACHE'],
    r2Buckets: { FILES: { id: BUCKET, s3Credentials: STORAGE_KEYS } },
    durableObjects: {
      RATE_LIMITER: { className: 'RateLimiter', useSQLite: true },
      ACCOUNTING_DELIVERY: { className: 'AccountingDelivery', useSQLite: true },
    },
    ratelimits: { AUTH_FAILURES: { namespace_id: '1', simple: { limit: 600, period: 60 } } },
    bindings: {
      CREDENTIALS_KEY,
      STORAGE_RELAY: 'development',
      STORAGE_BUCKET: BUCKET,
      STORAGE_ACCESS_KEY_ID: STORAGE_KEYS.accessKeyId,
      STORAGE_SECRET_ACCESS_KEY: STORAGE_KEYS.secretAccessKey,
    },
    resourcePersistencePath: state,
    handleStructuredLogs: ({ message }: { message: string }) => onLog(message),
  }
  return new Miniflare(convertV4MiniflareOptions(options as Parameters<typeof convertV4MiniflareOptions>[0]))
}
