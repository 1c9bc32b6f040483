import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { brokenRequests } from './broken-requests.ts'
import { operations } from './description.ts'
import { type Draft, toCurl, toWire } from './draft.ts'
import { judge } from './oracles.ts'
import { SELDOM_CARRIED_OUT } from './rules.ts'
import { closeConnections, sendWire } from './send.ts'
import { type LogLine, type Served, serve } from './server.ts'
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
export async function fuzz(options: Options): Promise<Report> {
  const served = await serve(options.tokens)
  try {
    return await new Fuzzer(served, options).run()
  } finally {
    closeConnections()
    await served.close()
  }
}

class Fuzzer {
  private readonly served: Served
  private readonly options: Options
  private readonly report: Report = { counts: {}, statuses: {}, neverCarriedOut: [], failures: [] }
  private readonly carriedOut = new Set<string>()
  private readonly lines = new Map<string, LogLine[]>()
  private sent = 0
  /** What was sent since the log was last looked at. */
  private awaited: { id: string; status: number; draft: Draft }[] = []

  constructor(served: Served, options: Options) {
    this.served = served
    this.options = options
    served.onLog((line) => {
      const id = line.request_id ?? ''
      this.lines.set(id, [...(this.lines.get(id) ?? []), line])
    })
  }

  async run(): Promise<Report> {
    const { runs } = this.options
    const brokenRuns = Math.ceil(runs / BROKEN_SHARE)
    const properties = operations.flatMap((operation): Property[] => [
      { name: `${operation.id}, valid`, requests: validRequest(operation), runs, hasFailed: false },
      ...brokenRequests(operation).map((requests) => ({
        name: `${operation.id}, broken`,
        requests,
        runs: brokenRuns,
        hasFailed: false,
      })),
    ])
    for (const seed of this.options.seeds) {
      const end = Date.now() + this.options.seconds * 1_000
      let round = 0
      do {
        const queue = properties.filter(({ hasFailed }) => !hasFailed)
        const work = async () => {
          for (let next = queue.shift(); next; next = queue.shift()) await this.check(next, seed + round)
        }
        await Promise.all(Array.from({ length: AT_ONCE }, work))
        await this.checkLog()
        round += 1
      } while (Date.now() < end)
    }
    this.report.neverCarriedOut = operations
      .map(({ id }) => id)
      .filter((id) => !this.carriedOut.has(id) && !SELDOM_CARRIED_OUT.includes(id))
    return this.report
  }

  private async check(property: Property, seed: number): Promise<void> {
    const outcome = await fc.check(
      fc.asyncProperty(property.requests, async (draft) => {
        const problems = await this.attempt(draft)
        if (problems.length > 0) throw new Error(problems.join('\n'))
      }),
      { seed, numRuns: property.runs, interruptAfterTimeLimit: SHRINK_MS, markInterruptAsFailure: false },
    )
    if (!outcome.failed) return
    property.hasFailed = true
    const error = outcome.errorInstance instanceof Error ? outcome.errorInstance.message : String(outcome.errorInstance)
    const [draft] = outcome.counterexample ?? []
    const where = `seed ${seed}, path ${outcome.counterexamplePath}, shrunk ${outcome.numShrinks} times`
    this.report.failures.push(`${property.name} (${where})\n${error}\n${draft ? this.curlOf(draft) : ''}`)
  }

  /** Sends a request and lists what is wrong with its response. */
  private async attempt(draft: Draft): Promise<string[]> {
    const wire = toWire(draft)
    const number = this.sent++
    const headers: Record<string, string> = { 'x-request-id': `fuzz-${number}`, ...wire.headers }
    if (draft.isAuthorized) headers.authorization = `Bearer ${this.tokenOf(number)}`
    let response: Response
    try {
      response = await sendWire(this.served.url, { ...wire, headers })
    } catch (error) {
      return [`no response: ${error instanceof Error ? error.message : String(error)}`]
    }
    this.count(draft, response.status)
    this.awaited.push({ id: response.headers.get('x-request-id') ?? '', status: response.status, draft })
    return judge(draft, this.served.url, wire, response)
  }

  private count(draft: Draft, status: number): void {
    const { counts, statuses } = this.report
    const kind = draft.refusedWith === null ? 'valid' : 'broken'
    counts[kind] = (counts[kind] ?? 0) + 1
    statuses[status] = (statuses[status] ?? 0) + 1
    if (status < 400) this.carriedOut.add(draft.operation.id)
  }

  private tokenOf(number: number): string {
    const { tokens } = this.served
    return tokens[Math.floor(number / REQUESTS_PER_TOKEN) % tokens.length] ?? ''
  }

  /** Every request must have logged one line with its operation and status, and no failure. */
  private async checkLog(): Promise<void> {
    const requestLines = (id: string) => (this.lines.get(id) ?? []).filter(({ event }) => event === 'request')
    const end = Date.now() + LOG_WAIT_MS
    while (Date.now() < end && this.awaited.some(({ id }) => requestLines(id).length === 0)) await sleep(50)
    for (const { id, status, draft } of this.awaited) {
      const lines = requestLines(id)
      const problems = []
      if (lines.length !== 1) problems.push(`${lines.length} log lines of the request ${id}`)
      if (lines[0] && lines[0].status !== status) problems.push(`returned ${status}, logged ${lines[0].status}`)
      if (status < 400 && lines[0]?.operation !== draft.operation.id) problems.push(`logged as ${lines[0]?.operation}`)
      for (const line of this.lines.get(id) ?? []) if (line.event === 'failure') problems.push(`logged ${line.error}`)
      if (problems.length > 0) this.report.failures.push(`log\n${problems.join('\n')}\n${this.curlOf(draft)}`)
    }
    this.awaited = []
    this.lines.clear()
  }

  private curlOf(draft: Draft): string {
    return toCurl(this.served.url, draft.isAuthorized ? this.tokenOf(0) : null, toWire(draft))
  }
}
