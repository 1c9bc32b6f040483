import { fillCompany } from '../harness/company.ts'
import { get, sendWell } from '../harness/http.ts'
import { loadOf } from '../harness/load.ts'
import { type HeapWatch, watchHeap } from '../harness/memory.ts'
import { fillState, openBuild, startApi } from '../harness/worker.ts'
import { figuresOf, isSustained, noteFailure, recoveryMs, watchMemory, windowMedians } from './report.ts'
import { openLoop, type Traffic, trafficOf } from './traffic.ts'

/** A rate is sustained while its p99 stays below this. */
export const P99_LIMIT_MS = 300
/** Shares of what the closed loop reaches that are tried in turn. */
const TRIED = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
/** Callers at once of the closed loop. */
const CLOSED_CONNECTIONS = 16
/** Those of the open loop: many more than any rate that is sustained needs. */
const CONNECTIONS = 256
const WATCHED_SECONDS = 10
const MIB = 1_048_576
const BUCKET = 'files'
const STORAGE_KEYS = { accessKeyId: 'load', secretAccessKey: 'load-only-not-a-secret' }

export interface Settings {
  /** Of the run at the sustained rate, and of that at twice it. */
  seconds: number
  /** Of each run that looks for the rate. */
  trialSeconds: number
  clients: number
  threads: number
  tokens: number
  say?: (line: string) => void
}

export type Report = Awaited<ReturnType<typeof runLoad>>
export type MeasuredPhase = Report['steady']

/** Builds the Worker, serves a company from it, and puts it under load. */
export async function runLoad(settings: Settings) {
  const { seconds, trialSeconds, clients, threads, say = () => {} } = settings
  await using build = await openBuild('no-company-limit.js')
  const { script, state } = build
  const tokens = await fillState(state, (worker) => fillCompany(worker, clients, settings.tokens))
  say(`a company of ${clients} clients and ${2 * clients} orders, ${threads} threads, ${tokens.length} tokens`)
  /** What the Worker logged, by the id of the request. */
  const failures = new Map<string, string>()
  // The local bucket has its S3 endpoint, and uploads are relayed as in local development.
  await using api = await startApi(script, state, {
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
    handleStructuredLogs: ({ message }) => noteFailure(failures, message),
  })
  const traffic = trafficOf(tokens, { clients, threads })
  const load = openLoop(api.url, traffic, CONNECTIONS)
  using heap = await watchHeap(api.worker)
  using memory = watchMemory()
  // The first request of a token makes its rate limiter's database, which would be measured, too.
  for (const token of tokens) await sendWell(api.url, get('/clients/1', token))
  for (let index = 0; index < threads; index++) await sendWell(api.url, traffic.make('putThread'))

  const capacityPerSecond = await measureCapacity(api.url, traffic, trialSeconds)
  say(`closed loop: ${Math.round(capacityPerSecond)} requests a second`)
  const sustainedPerSecond = await findSustained(load, capacityPerSecond, trialSeconds, say)

  /** Runs a phase; `memory` has the MiB of the runtime, second by second. */
  const runWatched = async (name: string, rate: number, seconds: number) => {
    memory.take()
    const { phase, done } = await load(name, rate, seconds)
    return { measured: { phase, memory: memory.take() }, done }
  }
  const start = await liveHeapMib(heap)
  const steady = await runWatched('sustained rate', sustainedPerSecond, seconds)
  await steady.done
  const afterSteady = await liveHeapMib(heap)

  // What waits at the end of this one is still there when the load goes down.
  const doubled = await runWatched('twice that', 2 * sustainedPerSecond, seconds)
  const after = await runWatched('after it', sustainedPerSecond, Math.min(seconds, WATCHED_SECONDS))
  await Promise.all([doubled.done, after.done])
  return {
    failures,
    steady: steady.measured,
    doubled: doubled.measured,
    after: after.measured,
    /** Since the load went back to the sustained rate. */
    recoveryMs: recoveryMs(windowMedians(steady.measured.phase), windowMedians(after.measured.phase)),
    /** MiB of the Worker, garbage collected: before the first run, after it, and after the second. */
    heap: { start, afterSteady, afterDoubled: await liveHeapMib(heap) },
  }
}

/**
 * Requests a second when each of a few callers sends its next request as soon as it has a response (a closed loop). It
 * is the highest possible rate; it says nothing of latency, since slow responses delay the next requests.
 *
 * Uploads are left at the presign here: a request of this loop cannot depend on another one's response.
 */
async function measureCapacity(url: string, traffic: Traffic, seconds: number): Promise<number> {
  const start = performance.now()
  const times = await loadOf(url, traffic.next, CLOSED_CONNECTIONS)(seconds)
  return (times.length * 1_000) / (performance.now() - start)
}

/**
 * The highest of some rates that two short runs in a row sustain, so that luck does not count; the lowest of them when
 * none is.
 */
async function findSustained(
  load: ReturnType<typeof openLoop>,
  capacity: number,
  seconds: number,
  say: (line: string) => void,
) {
  const isSustainedAt = async (rate: number) => {
    const { phase, done } = await load('trial', rate, seconds)
    await done
    const isKept = isSustained(phase, P99_LIMIT_MS)
    say(`${rate} a second: p99 ${Math.round(figuresOf(phase).p99)} ms, ${isKept ? 'sustained' : 'too much'}`)
    return isKept
  }
  let rate = capacity
  for (const share of TRIED) {
    rate = Math.max(1, Math.round(capacity * share))
    if ((await isSustainedAt(rate)) && (await isSustainedAt(rate))) break
  }
  return rate
}

async function liveHeapMib(heap: HeapWatch): Promise<number> {
  await heap.begin()
  return (await heap.end()) / MIB
}
