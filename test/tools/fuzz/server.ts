import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Miniflare } from 'miniflare'
import { PERMISSIONS } from '../../../src/auth/permissions.ts'
import { type CommandDatabase, wrapTransport } from '../../../src/cli/database.ts'
import { readSampleCompany, type Simulators, startSimulators } from '../../../src/cli/sample-company.ts'
import { loadSeed } from '../../../src/cli/seed.ts'
import type { Statement, Transport } from '../../../src/cli/wrangler.ts'
import { apiTokens } from '../../../src/db/schema.ts'
import { buildWorker, migrationStatements, type Running, startApi } from '../bench/worker.ts'

const DESCRIPTION = join(import.meta.dirname, '../../../src/openapi/openapi.json')

/** Requests with unknown tokens come from one address here, and their limit must not be reached. */
const AUTH_FAILURES_PER_MINUTE = 1_000_000

export interface LogLine {
  event: string
  request_id?: string
  [field: string]: unknown
}

/** A served application of its own, with the sample company and simulators of the outside systems. */
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
    const { worker, url } = await startWorker(script, join(directory, 'state'), key, description, (text) => {
      const line = parseLine(text)
      if (line) for (const listener of listeners) listener(line)
    })
    close.push(() => worker.dispose())
    const simulators = await startSimulators()
    close.push(simulators.close)
    const tokens = await fill(worker, simulators, key, tokenCount)
    return {
      url,
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
): Promise<Running> {
  return startApi(script, state, {
    ratelimits: { AUTH_FAILURES: { namespace_id: '1', simple: { limit: AUTH_FAILURES_PER_MINUTE, period: 60 } } },
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
    handleStructuredLogs: ({ message }) => onText(message),
  })
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
    company_id: companyId,
    token_hash: createHash('sha256').update(token).digest('hex'),
    name: `fuzz ${index}`,
    permissions: [...PERMISSIONS],
    created_at: now,
  }))
  await database.write(rows.map((row) => database.orm.insert(apiTokens).values(row)))
  return tokens
}
