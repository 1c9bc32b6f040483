import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { openAdminApi } from '../../../src/cli/admin-api.ts'
import { applyMigrations } from '../../../src/cli/local-runtime.ts'
import { readSampleSeed } from '../../../src/cli/sample-company.ts'
import { importSeed } from '../../../src/cli/seed-file.ts'
import { type Simulators, startSimulators } from '../../../src/simulators/start.ts'
import { insertTokens, LOOK_ALIKE, makeTokens } from '../harness/company.ts'
import { bearer, send } from '../harness/http.ts'
import { openBuild, type Running, startApi, UNLIMITED } from '../harness/worker.ts'
import { brokenRequests } from './broken-requests.ts'
import { operations } from './description.ts'
import { type Draft, judge, toCurl, toWire } from './oracles.ts'
import { SELDOM_CARRIED_OUT } from './rules.ts'
import { validRequest } from './valid-requests.ts'

const AT_ONCE = 8
/** There are about eight ways to break a request: each has this part of the requests that valid ones have. */
const BROKEN_SHARE = 5
/** In a row, so that most requests meet a token and a limiter that are warm; fewer than a token may make in a minute. */
const REQUESTS_PER_TOKEN = 200
/** How long a log line may take from the Worker to here, on a machine that is busy. */
const LOG_WAIT_MS = 15_000
/** A failure may take this much longer to shrink. */
const SHRINK_MS = 20_000

export interface Options {
  /** One after the other, against the same application. */
  seeds: readonly number[]
  /** Goes on with further rounds of a seed for so long; one round where it is 0. */
  seconds: number
  tokens: number
  /** Valid requests of one operation before the next has its turn. */
  runs: number
}

export interface Report {
  /** By the kind of request, how many were sent. */
  counts: Record<string, number>
  statuses: Record<string, number>
  /** Operations of which no valid request was ever carried out: all that was asked of them was not found. */
  neverCarriedOut: string[]
  failures: string[]
}

interface Property {
  name: string
  runs: number
  requests: fc.Arbitrary<Draft>
  hasFailed: boolean
}

/** Serves the application and fuzzes every operation of its description. */
export async function fuzz({ seeds, seconds, tokens: tokenCount, runs }: Options): Promise<Report> {
  await using served = await serve(tokenCount)
  const { url, tokens, lines } = served
  const report: Report = { counts: {}, statuses: {}, neverCarriedOut: [], failures: [] }
  const carriedOut = new Set<string>()
  let sent = 0
  /** What was sent since the log was last looked at. */
  let awaited: { id: string; status: number; draft: Draft }[] = []

  const tokenOf = (number: number) => tokens[Math.floor(number / REQUESTS_PER_TOKEN) % tokens.length] ?? ''
  const curlOf = (draft: Draft) => toCurl(url, draft.isAuthorized ? tokenOf(0) : null, toWire(draft))

  async function check(property: Property, seed: number): Promise<void> {
    const outcome = await fc.check(
      fc.asyncProperty(property.requests, async (draft) => {
        const problems = await attempt(draft)
        if (problems.length > 0) throw new Error(problems.join('\n'))
      }),
      { seed, numRuns: property.runs, interruptAfterTimeLimit: SHRINK_MS, markInterruptAsFailure: false },
    )
    if (!outcome.failed) return
    property.hasFailed = true
    const error = outcome.errorInstance instanceof Error ? outcome.errorInstance.message : String(outcome.errorInstance)
    const [draft] = outcome.counterexample ?? []
    const where = `seed ${seed}, path ${outcome.counterexamplePath}, shrunk ${outcome.numShrinks} times`
    report.failures.push(`${property.name} (${where})\n${error}\n${draft ? curlOf(draft) : ''}`)
  }

  async function attempt(draft: Draft): Promise<string[]> {
    const wire = toWire(draft)
    const number = sent++
    const token = draft.isAuthorized ? bearer(tokenOf(number)) : {}
    const headers = { 'x-request-id': `fuzz-${number}`, ...wire.headers, ...token }
    const response = await send(url, { ...wire, headers }).catch((error: Error) => error)
    if (response instanceof Error) return [`no response: ${response.message}`]
    const { status } = response
    const kind = draft.refusedWith === null ? 'valid' : 'broken'
    report.counts[kind] = (report.counts[kind] ?? 0) + 1
    report.statuses[status] = (report.statuses[status] ?? 0) + 1
    if (status < 400) carriedOut.add(draft.operation.id)
    awaited.push({ id: response.headers.get('x-request-id') ?? '', status, draft })
    return judge(draft, url, wire, response)
  }

  /** Every request must have logged one line with its operation and status, and no failure. */
  async function checkLog(): Promise<void> {
    const requestLines = (id: string) => (lines.get(id) ?? []).filter(({ event }) => event === 'request')
    const end = Date.now() + LOG_WAIT_MS
    while (Date.now() < end && awaited.some(({ id }) => requestLines(id).length === 0)) await sleep(50)
    for (const { id, status, draft } of awaited) {
      const [first, ...others] = requestLines(id)
      const problems = []
      if (!first || others.length > 0) problems.push(`${requestLines(id).length} log lines of the request ${id}`)
      if (first && first.status !== status) problems.push(`returned ${status}, logged ${first.status}`)
      if (status < 400 && first?.operation !== draft.operation.id) problems.push(`logged as ${first?.operation}`)
      for (const line of lines.get(id) ?? []) if (line.event === 'failure') problems.push(`logged ${line.error}`)
      if (problems.length > 0) report.failures.push(`log\n${problems.join('\n')}\n${curlOf(draft)}`)
    }
    awaited = []
    lines.clear()
  }

  const brokenRuns = Math.ceil(runs / BROKEN_SHARE)
  const properties = operations.flatMap((operation): Property[] => {
    const broken = { name: `${operation.id}, broken`, runs: brokenRuns, hasFailed: false }
    return [
      { name: `${operation.id}, valid`, requests: validRequest(operation), runs, hasFailed: false },
      ...brokenRequests(operation).map((requests) => ({ ...broken, requests })),
    ]
  })
  for (const seed of seeds) {
    const end = Date.now() + seconds * 1_000
    let round = 0
    do {
      const queue = properties.filter(({ hasFailed }) => !hasFailed)
      const work = async () => {
        for (let next = queue.shift(); next; next = queue.shift()) await check(next, seed + round)
      }
      await Promise.all(Array.from({ length: AT_ONCE }, work))
      await checkLog()
      round += 1
    } while (Date.now() < end)
  }
  const neverCarriedOut = operations.flatMap(({ id }) =>
    carriedOut.has(id) || SELDOM_CARRIED_OUT.includes(id) ? [] : [id],
  )
  return { ...report, neverCarriedOut }
}

const DESCRIPTION = join(import.meta.dirname, '../../../src/site/reference/openapi.json')

interface LogLine {
  event: string
  request_id?: string
  [field: string]: unknown
}

/**
 * Builds the Worker as it is deployed and serves it on a free port, on data of its own, with the sample company and
 * simulators of the outside systems. A token may make 300 requests a minute, so requests go round many of them.
 */
async function serve(tokenCount: number) {
  await using started = new AsyncDisposableStack()
  /** What the Worker logs, by the id of the request. */
  const lines = new Map<string, LogLine[]>()
  const { script, state } = started.use(await openBuild())
  const description = await readFile(DESCRIPTION, 'utf8')
  const adminToken = randomBytes(32).toString('hex')
  const running = await startApi(script, state, {
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
      const id = line.request_id ?? ''
      lines.set(id, [...(lines.get(id) ?? []), line])
    },
  })
  started.use(running)
  const simulators = await startSimulators()
  started.defer(simulators.close)
  const tokens = await fill(running, simulators, adminToken, tokenCount)
  const serving = started.move()
  return { url: running.url, tokens, lines, [Symbol.asyncDispose]: () => serving.disposeAsync() }
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
