import { type Running, startApi } from '../bench/worker.ts'

const BUCKET = 'files'
const STORAGE_KEYS = { accessKeyId: 'load', secretAccessKey: 'load-only-not-a-secret' }

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
