import { makeThread } from '../bench/mail-thread.ts'
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

interface Timed {
  text: string
  ms: number
  machineMs: number
}

interface Call {
  what: string
  method?: string
  path: string
  body?: string
}

/** Sends requests of callers at many sites to one simulated platform. */
export class Callers {
  readonly samples: Sample[] = []
  readonly failures: Failure[] = []
  readonly #served: Served
  readonly #data: Data
  #turn = 0

  constructor(served: Served, data: Data) {
    this.#served = served
    this.#data = data
  }

  async control(path: string): Promise<void> {
    const response = await fetch(`${this.#served.url}/edge/${path}`)
    await response.arrayBuffer()
    if (response.status !== 204) throw new Error(`${path}: ${response.status}`)
  }

  /** Sends one request. @returns the text of its response, or null after a failure, which is recorded. */
  async send(site: Site, token: number, isCold: boolean, call: Call): Promise<Timed | null> {
    const { what, method = 'GET', path, body } = call
    const response = await fetch(`${this.#served.url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.#data.tokens[token]}`,
        'x-edge-site': encodeURIComponent(site),
        ...(isCold && { 'x-edge-cold': '1' }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body }),
    })
    const text = await response.text()
    const [ms, machineMs] = ['x-edge-ms', 'x-edge-machine-ms'].map((name) => Number(response.headers.get(name)))
    if (response.ok && ms !== undefined && machineMs !== undefined) return { text, ms, machineMs }
    this.failures.push({ what: `${what} from ${site}`, status: response.status, text: text.slice(0, 300) })
    return null
  }

  /** Stores the threads that are read, from the primary's own region, with a token that sends nothing else. */
  async putThreads(token: number): Promise<void> {
    const { primary } = this.#served
    const body = JSON.stringify(makeThread(THREAD_BYTES))
    for (let index = 0; index < THREADS; index++) {
      const path = `/mail/email-threads/edge-${index}`
      await this.send(siteOf(primary), token, false, { what: 'put a thread', method: 'PUT', path, body })
    }
    // The other tokens may read from a copy that is seconds behind. What this one reads from there has its own writes.
    const far = CALLER_SITES.find((site) => nearestLocation(site) !== primary) ?? siteOf(primary)
    const path = `/mail/email-threads/edge-${THREADS - 1}?account_email=${MAILBOX}`
    await this.send(far, token, false, { what: 'wait for the copy', path })
  }

  /** The lanes of all sites, each of which sends its requests one after the other. */
  lanes(samples: number, coldShare: number): (() => Promise<void>)[] {
    return CALLER_SITES.flatMap((site, siteIndex) =>
      LANES.map((kinds, laneIndex) => {
        const firstToken = (siteIndex * LANES.length + laneIndex) * TOKENS_OF_A_LANE
        const coldEvery = coldShare > 0 ? Math.round(1 / coldShare) : Number.POSITIVE_INFINITY
        const send = async (turn: number) => {
          const measured = turn - WARM_UPS
          const kind = kinds[turn % kinds.length] ?? 'read'
          const isCold = measured >= 0 && Math.floor(measured / kinds.length) % coldEvery === coldEvery - 1
          const result = await this.send(site, firstToken + (turn % TOKENS_OF_A_LANE), isCold, this.#callOf(kind))
          if (result && measured >= 0) {
            const { ms, machineMs } = result
            this.samples.push({ site, kind, isCold, ms, machineMs })
          }
          await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
        }
        return async () => {
          for (let turn = 0; turn < WARM_UPS + samples * kinds.length; turn++) await send(turn)
        }
      }),
    )
  }

  #callOf(kind: Kind): Call {
    const turn = this.#turn++
    const id = 1 + ((turn * 7_919) % this.#data.clients)
    switch (kind) {
      case 'read':
        return { what: kind, path: `/clients/${id}` }
      case 'search':
        return { what: kind, path: `/clients?q=${Math.max(36, id).toString(36).toUpperCase()}` }
      case 'thread':
        return { what: kind, path: `/mail/email-threads/edge-${turn % THREADS}?account_email=${MAILBOX}` }
      case 'write':
        return { what: kind, method: 'PATCH', path: `/orders/${id}`, body: JSON.stringify({ title: `Order ${turn}` }) }
    }
  }
}
