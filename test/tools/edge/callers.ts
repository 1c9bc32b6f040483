import { setTimeout as sleep } from 'node:timers/promises'
import { call, send, sendWell } from '../harness/http.ts'
import { idAt } from '../harness/load.ts'
import { makeThread } from '../harness/mail-thread.ts'
import { CALLER_SITES, nearestLocation, type Site, siteOf } from './places.ts'
import type { Data, Served } from './serve.ts'

export const KINDS = ['read', 'search', 'write', 'thread'] as const
export type Kind = (typeof KINDS)[number]

/** One request: the milliseconds of its hops and its databases, and those of this machine beside them. */
interface Sample {
  site: Site
  kind: Kind
  isCold: boolean
  ms: number
  machineMs: number
}

export interface Failure {
  what: string
  status: number
  text: string
}

const THREADS = 8
const THREAD_BYTES = 50_000
const MAILBOX = 'sales@shop.example'
/** Requests of a lane that are not measured: they make its token known to the isolates of its site. */
const WARM_UPS = 6
const PAUSE_MS = 40

/** Tokens of one lane; reads and writes are measured with different ones, so that none waits for its own write. */
const TOKENS_OF_A_LANE = 2
const LANES: readonly (readonly Kind[])[] = [['read', 'search', 'thread'], ['write']]
export const LANE_TOKENS = CALLER_SITES.length * LANES.length * TOKENS_OF_A_LANE

interface Call {
  what: string
  method?: string
  path: string
  body?: object
}

export type Callers = ReturnType<typeof openCallers>

/** Sends requests of callers at many sites to one simulated platform. */
export function openCallers({ url, primary }: Served, { tokens, clients }: Data) {
  const samples: Sample[] = []
  const failures: Failure[] = []
  let turns = 0

  const control = (path: string) => sendWell(url, { path: `/edge/${path}` })

  /** Sends one request. @returns the text of its response, or null after a failure, which is recorded. */
  async function request(site: Site, token: number, isCold: boolean, { what, method = 'GET', path, body }: Call) {
    const wire = call(method, path, tokens[token] ?? '', body)
    const edge = { 'x-edge-site': encodeURIComponent(site), ...(isCold && { 'x-edge-cold': '1' }) }
    const response = await send(url, { ...wire, headers: { ...wire.headers, ...edge } })
    const text = await response.text()
    const [ms, machineMs] = ['x-edge-ms', 'x-edge-machine-ms'].map((name) => Number(response.headers.get(name)))
    if (response.ok && ms !== undefined && machineMs !== undefined) return { text, ms, machineMs }
    failures.push({ what: `${what} from ${site}`, status: response.status, text: text.slice(0, 300) })
    return null
  }

  /** Stores the threads that are read, from the primary's own region, with a token that sends nothing else. */
  async function putThreads(token: number): Promise<void> {
    const body = makeThread(THREAD_BYTES)
    for (let index = 0; index < THREADS; index++) {
      const path = `/mail/email-threads/edge-${index}`
      await request(siteOf(primary), token, false, { what: 'put a thread', method: 'PUT', path, body })
    }
    // The other tokens may read from a copy that is seconds behind. What this one reads from there has its own writes.
    const far = CALLER_SITES.find((site) => nearestLocation(site) !== primary) ?? siteOf(primary)
    const path = `/mail/email-threads/edge-${THREADS - 1}?account_email=${MAILBOX}`
    await request(far, token, false, { what: 'wait for the copy', path })
  }

  /** Sends the requests of all sites; those of a lane come one after the other. */
  async function runLanes(count: number, coldShare: number): Promise<void> {
    const coldEvery = coldShare > 0 ? Math.round(1 / coldShare) : Number.POSITIVE_INFINITY
    const lanes = CALLER_SITES.flatMap((site) => LANES.map((kinds) => ({ site, kinds })))
    const run = async ({ site, kinds }: (typeof lanes)[number], lane: number) => {
      for (let turn = 0; turn < WARM_UPS + count * kinds.length; turn++) {
        const measured = turn - WARM_UPS
        const kind = kinds[turn % kinds.length] ?? 'read'
        const isCold = measured >= 0 && Math.floor(measured / kinds.length) % coldEvery === coldEvery - 1
        const token = lane * TOKENS_OF_A_LANE + (turn % TOKENS_OF_A_LANE)
        const result = await request(site, token, isCold, { what: kind, ...callOf(kind) })
        if (result && measured >= 0) samples.push({ site, kind, isCold, ms: result.ms, machineMs: result.machineMs })
        await sleep(PAUSE_MS)
      }
    }
    await Promise.all(lanes.map(run))
  }

  function callOf(kind: Kind): Omit<Call, 'what'> {
    const turn = turns++
    const id = idAt(turn, clients)
    switch (kind) {
      case 'read':
        return { path: `/clients/${id}` }
      case 'search':
        return { path: `/clients?q=${Math.max(36, id).toString(36).toUpperCase()}` }
      case 'thread':
        return { path: `/mail/email-threads/edge-${turn % THREADS}?account_email=${MAILBOX}` }
      case 'write':
        return { method: 'PATCH', path: `/orders/${id}`, body: { title: `Order ${turn}` } }
    }
  }

  return { samples, failures, control, request, putThreads, runLanes }
}
