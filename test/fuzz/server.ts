import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { PERMISSIONS } from '../../src/auth/permissions.ts'
import { type CommandDatabase, wrapTransport } from '../../src/cli/database.ts'
import { type Simulators, startSimulators } from '../../src/cli/dev-sample.ts'
import { readSampleCompany } from '../../src/cli/sample-company.ts'
import { loadSeed } from '../../src/cli/seed-plan.ts'
import type { Statement, Transport } from '../../src/cli/transport.ts'
import { apiTokens } from '../../src/db/schema.ts'
import { buildWorker, migrationStatements } from '../bench/worker.ts'

const DESCRIPTION = join(import.meta.dirname, '../../src/docs/openapi.json')

/** Unknown tokens from one address that are looked up in a minute: here the guard against guessing must not answer. */
const GUESSES = 1_000_000

export interface LogLine {
  event: string
  request_id?: string
  [field: string]: unknown
}

/** A served application of its own, with the sample company and simulators of the suppliers and the accounting system. */
export interface Served {
  url: string
  /** With every permission. A token may make 300 requests a minute, so requests go round many of them. */
  tokens: string[]
  /** Called with every line that the Worker logs. */
  onLog: (listener: (line: LogLine) => void) => void
  close: () => Promise<void>
}

/** Builds the Worker as it is deployed and serves it on a free port, on data of its own. */
export async function serve(tokenCount: number): Promise<Served> {
  const directory = await mkdtemp(join(tmpdir(), 'crm-fuzz-'))
  const listeners: ((line: LogLine) => void)[] = []
  const close: (() => Promise<void>)[] = [() => rm(directory, { recursive: true, force: true })]
  const closeAll = async () => {
    for (const step of close.reverse()) await step()
  }
  try {
    const script = buildWorker(join(directory, 'build'))
    const description = await readFile(DESCRIPTION, 'utf8')
    const key = randomBytes(32).toString('base64')
    const worker = startWorker(script, join(directory, 'state'), key, description, (text) => {
      const line = parseLine(text)
      if (line) for (const listener of listeners) listener(line)
    })
    close.push(() => worker.dispose())
    const simulators = await startSimulators()
    close.push(simulators.close)
    const tokens = await fill(worker, simulators, key, tokenCount)
    return {
      url: (await worker.ready).origin,
      tokens,
      onLog: (listener) => void listeners.push(listener),
      close: closeAll,
    }
  } catch (error) {
    await closeAll()
    throw error
  }
}

function startWorker(
  script: string,
  state: string,
  key: string,
  description: string,
  onText: (text: string) => void,
): Miniflare {
  const options = {
    host: '127.0.0.1',
    port: 0,
    cf: false,
    compatibilityDate: '2026-10-20',
    compatibilityFlags: ['nodejs_compat'],
    modules: [{ type: 'ESModule', path: script }],
    modulesRoot: '/',
    d1Databases: { DB: 'fuzz' },
    kvNamespaces: ['CACHE'],
    r2Buckets: ['FILES'],
    durableObjects: {
      RATE_LIMITER: { className: 'RateLimiter', useSQLite: true },
      ACCOUNTING_DELIVERY: { className: 'AccountingDelivery', useSQLite: true },
    },
    ratelimits: { AUTH_FAILURES: { namespace_id: '1', simple: { limit: GUESSES, period: 60 } } },
    serviceBindings: {
      ASSETS: () => new Response(description, { headers: { 'content-type': 'application/json' } }),
    },
    bindings: {
      CREDENTIALS_KEY: key,
      STORAGE_RELAY: 'development',
      STORAGE_BUCKET: 'files',
      STORAGE_ACCESS_KEY_ID: 'fuzz',
      STORAGE_SECRET_ACCESS_KEY: 'fuzz',
    },
    resourcePersistencePath: state,
    handleStructuredLogs: ({ message }: { message: string }) => onText(message),
  }
  return new Miniflare(convertV4MiniflareOptions(options as Parameters<typeof convertV4MiniflareOptions>[0]))
}

function parseLine(text: string): LogLine | undefined {
  return text.startsWith('{"event":') ? JSON.parse(text) : undefined
}

/** Migrations, the sample company with its integrations, and tokens. */
async function fill(worker: Miniflare, simulators: Simulators, key: string, tokenCount: number): Promise<string[]> {
  const transport = await openTransport(worker)
  await transport.write(migrationStatements().map((sql) => ({ sql, params: [] })))
  const database = wrapTransport(transport)
  const now = Date.now()
  const file = { ...readSampleCompany(now), integrations: simulators.integrations }
  await loadSeed(database, file, 'sample', key, now)
  return mintTokens(database, file.company.id, tokenCount, now)
}

async function openTransport(worker: Miniflare): Promise<Transport> {
  const db = await worker.getD1Database('DB')
  const prepare = ({ sql, params }: Statement) => db.prepare(sql).bind(...params)
  return {
    query: (statement) => prepare(statement).raw(),
    write: async (batch) => void (await db.batch(batch.map(prepare))),
    close: async () => {},
  }
}

async function mintTokens(database: CommandDatabase, companyId: number, count: number, now: number) {
  const tokens = Array.from({ length: count }, () => randomBytes(32).toString('hex'))
  const rows = tokens.map((token, index) => ({
    companyId,
    tokenHash: createHash('sha256').update(token).digest('hex'),
    name: `fuzz ${index}`,
    permissions: [...PERMISSIONS],
    createdAt: now,
  }))
  await database.write(rows.map((row) => database.orm.insert(apiTokens).values(row)))
  return tokens
}
