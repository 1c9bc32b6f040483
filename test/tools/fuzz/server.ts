import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openAdminApi } from '../../../src/cli/admin-api.ts'
import { applyMigrations } from '../../../src/cli/local-runtime.ts'
import { readSampleSeed } from '../../../src/cli/sample-company.ts'
import { importSeed } from '../../../src/cli/seed-file.ts'
import { type Simulators, startSimulators } from '../../../src/simulators/start.ts'
import { insertTokens, LOOK_ALIKE, makeTokens } from '../bench/company.ts'
import { buildWorker, type Running, startApi, UNLIMITED } from '../bench/worker.ts'

const DESCRIPTION = join(import.meta.dirname, '../../../src/site/reference/openapi.json')

export interface LogLine {
  event: string
  request_id?: string
  [field: string]: unknown
}

export type Served = Awaited<ReturnType<typeof serve>>

/**
 * Builds the Worker as it is deployed and serves it on a free port, on data of its own, with the sample company and
 * simulators of the outside systems. A token may make 300 requests a minute, so requests go round many of them.
 */
export async function serve(tokenCount: number) {
  await using started = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'crm-fuzz-'))
  started.defer(() => rm(directory, { recursive: true, force: true }))
  const listeners: ((line: LogLine) => void)[] = []
  const script = buildWorker(join(directory, 'build'))
  const description = await readFile(DESCRIPTION, 'utf8')
  const adminToken = randomBytes(32).toString('hex')
  const running = await startApi(script, join(directory, 'state'), {
    ratelimits: UNLIMITED,
    serviceBindings: {
      ASSETS: () => new Response(description, { headers: { 'content-type': 'application/json' } }),
    },
    bindings: {
      CREDENTIALS_KEY: randomBytes(32).toString('base64'),
      ADMIN_TOKEN: adminToken,
      STORAGE_RELAY: 'development',
      STORAGE_BUCKET: 'files',
      STORAGE_ACCESS_KEY_ID: 'fuzz',
      STORAGE_SECRET_ACCESS_KEY: 'fuzz',
    },
    handleStructuredLogs: ({ message }) => {
      if (!message.startsWith('{"event":')) return
      const line: LogLine = JSON.parse(message)
      for (const listener of listeners) listener(line)
    },
  })
  started.use(running)
  const simulators = await startSimulators()
  started.defer(simulators.close)
  const tokens = await fill(running, simulators, adminToken, tokenCount)
  const serving = started.move()
  return {
    url: running.url,
    tokens,
    /** Called with every line that the Worker logs. */
    onLog: (listener: (line: LogLine) => void) => void listeners.push(listener),
    close: () => serving.disposeAsync(),
  }
}

/** Migrations, the sample company with its integrations, and tokens. */
async function fill({ worker, url }: Running, simulators: Simulators, adminToken: string, tokenCount: number) {
  const db = await worker.getD1Database('DB')
  await applyMigrations(db)
  const api = openAdminApi({ url, token: adminToken })
  const sample = readSampleSeed(Date.now())
  await importSeed(api, { ...sample, company: { id: LOOK_ALIKE, name: 'Look-alike' } }, 'The look-alike')
  const file = { ...sample, integrations: simulators.integrations }
  await importSeed(api, file, 'The sample company')
  const tokens = makeTokens(tokenCount)
  await insertTokens(db, file.company.id, tokens)
  return tokens
}
