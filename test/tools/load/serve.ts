import { PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'
import { fillCompany } from '../bench/company.ts'
import { type Running, startApi, startBare } from '../bench/worker.ts'

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
 * The built Worker with everything that it binds. The local bucket has its S3 endpoint, and uploads are relayed as in
 * local development.
 *
 * @param onLog called with every line that it logs
 */
export function startLoaded(script: string, state: string, onLog: (line: string) => void): Promise<Running> {
  return startApi(script, state, {
    inspectorPort: 0,
    // Without it, the runtime's own first request of the page is a failure in the log.
    serviceBindings: { ASSETS: () => new Response(null, { status: 404 }) },
    r2Buckets: { FILES: { id: BUCKET, s3Credentials: STORAGE_KEYS } },
    bindings: {
      STORAGE_RELAY: 'development',
      STORAGE_BUCKET: BUCKET,
      STORAGE_ACCESS_KEY_ID: STORAGE_KEYS.accessKeyId,
      STORAGE_SECRET_ACCESS_KEY: STORAGE_KEYS.secretAccessKey,
    },
    handleStructuredLogs: ({ message }) => onLog(message),
  })
}
