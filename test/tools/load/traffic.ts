import { needleOf } from '../harness/company.ts'
import { call, get, send, silence, type Wire } from '../harness/http.ts'
import { callEvenly, idAt } from '../harness/load.ts'
import { makeThread } from '../harness/mail-thread.ts'

/** Callers give up after so long. */
const PATIENCE_MS = 20_000
export const GAVE_UP = silence(PATIENCE_MS)

export interface Outcome {
  kind: Call['kind']
  /** When it was due, in milliseconds since the phase began. */
  dueMs: number
  /** From when it was due, not from when it could be sent, until the last byte of the response. */
  latencyMs: number
  /** 0 without a response. */
  status: number
  requestId: string
  /** The beginning of an unsuccessful response. */
  text: string
}

export interface Phase {
  name: string
  askedPerSecond: number
  seconds: number
  outcomes: Outcome[]
  /** Requests for which no connection was left when they were due: callers wait for none. */
  turnedAway: number
  inFlightAtEnd: number
}

/**
 * Callers that come at their own pace, whether the others are served or not (an open loop): requests are due at even
 * times and their latency counts from then. At most so many are under way at once, as many as there are connections;
 * a call without a free connection is counted and turned away, so that none waits here.
 */
export function openLoop(url: string, traffic: Traffic, connections: number) {
  let inFlight = 0

  async function request(phase: Phase, { kind, follow, ...wire }: Call, start: number, dueMs: number): Promise<void> {
    inFlight++
    const response = await send(url, wire, { timeoutMs: PATIENCE_MS }).catch((error: Error) => error)
    const isLost = response instanceof Error
    const [text, status] = isLost ? [response.message, 0] : [await response.text(), response.status]
    const requestId = isLost ? '' : (response.headers.get('x-request-id') ?? '')
    inFlight--
    const endMs = performance.now() - start
    const isSuccess = status === 200
    const shown = isSuccess ? '' : text.slice(0, 200)
    phase.outcomes.push({ kind, status, requestId, dueMs, latencyMs: endMs - dueMs, text: shown })
    // The same caller continues at once, on its connection.
    if (follow && isSuccess) await request(phase, follow(text), start, endMs)
  }

  /**
   * Makes requests for some seconds.
   *
   * @returns when the last one is due: `done` resolves with the last response
   */
  return async (name: string, askedPerSecond: number, seconds: number) => {
    const phase: Phase = { name, askedPerSecond, seconds, outcomes: [], turnedAway: 0, inFlightAtEnd: 0 }
    const requests: Promise<void>[] = []
    const start = performance.now()
    await callEvenly(askedPerSecond * CALLS_PER_REQUEST, seconds, (_, dueMs) => {
      if (inFlight >= connections) phase.turnedAway++
      else requests.push(request(phase, traffic.next(), start, dueMs))
    })
    phase.inFlightAtEnd = inFlight
    return { phase, done: Promise.all(requests) }
  }
}

export interface Call extends Wire {
  kind: Kind | 'uploadBytes'
  /** The call that follows the response: the upload to a presigned address. */
  follow?: (response: string) => Call
}

const THREAD_BYTES = 150_000
const UPLOAD_BYTES = 200_000
const MAILBOX = 'sales@shop.example'
const UPLOAD_TYPE = 'image/png'
/** Files have so many names in turn, so that the storage does not grow without end. */
const FILE_NAMES = 200

/** Of a hundred requests, 70 read; an upload is two. */
const WEIGHTS = {
  readClient: 16,
  listClients: 8,
  searchClients: 10,
  listOrders: 10,
  readOrder: 14,
  readThread: 12,
  createClient: 9,
  patchOrder: 9,
  putThread: 6,
  upload: 3,
} as const

export type Kind = keyof typeof WEIGHTS
const REQUESTS_OF_A_DECK = 100

/** How many of {@link trafficOf}'s calls make so many requests. */
const CALLS_PER_REQUEST = Object.values(WEIGHTS).reduce((sum, weight) => sum + weight, 0) / REQUESTS_OF_A_DECK

export type Traffic = ReturnType<typeof trafficOf>

/**
 * Endless requests of a company's day, in fixed shares, each under the next of many tokens.
 *
 * @param sizes of what there is to ask for: clients (and twice as many orders) from id 1, threads from `load-0`
 */
export function trafficOf(tokens: readonly string[], sizes: { clients: number; threads: number }) {
  const deck = shuffle(Object.entries(WEIGHTS).flatMap(([kind, weight]) => Array<Kind>(weight).fill(kind as Kind)))
  const upload = Buffer.alloc(UPLOAD_BYTES, 'upload')
  const text = JSON.stringify(makeThread(THREAD_BYTES))
  const threadRest = Buffer.from(`"],${text.slice(1).replace(/"labels":\[[^\]]*\],/, '')}`)
  let turn = 0

  function make(kind: Kind): Call {
    turn++
    return { kind, ...wireOf(kind, tokens[turn % tokens.length] ?? '', idAt(turn, sizes.clients)) }
  }

  function wireOf(kind: Kind, token: string, id: number): Omit<Call, 'kind'> {
    const thread = `/mail/email-threads/load-${turn % sizes.threads}`
    switch (kind) {
      case 'readClient':
        return get(`/clients/${id}`, token)
      case 'listClients':
        return get('/clients', token)
      case 'searchClients':
        return get(`/clients?q=${encodeURIComponent(needleOf(id))}`, token)
      case 'listOrders':
        return get(`/orders?client_id=${id}`, token)
      case 'readOrder':
        return get(`/orders/${id}`, token)
      case 'readThread':
        return get(`${thread}?account_email=${MAILBOX}`, token)
      case 'createClient': {
        const client = { company_name: `New Client ${turn}`, email: `new.${turn}@client.example` }
        return call('POST', '/clients', token, client)
      }
      case 'patchOrder':
        return call('PATCH', `/orders/${id}`, token, { title: `Order ${turn}`, client_notes: 'Call before delivery' })
      case 'putThread':
        return call('PUT', thread, token, Buffer.concat([Buffer.from(`{"labels":["${turn}`), threadRest]))
      case 'upload': {
        const file = { fileName: `proof-${turn % FILE_NAMES}.png`, contentType: UPLOAD_TYPE, size: UPLOAD_BYTES }
        const presign = call('POST', `/orders/${id}/files/presign`, token, { ...file, legacyThreadId: 'load' })
        return { ...presign, follow: uploadTo }
      }
    }
  }

  function uploadTo(presigned: string): Call {
    const { pathname, search } = new URL(JSON.parse(presigned).uploadUrl)
    const headers = { 'content-type': UPLOAD_TYPE }
    return { kind: 'uploadBytes', method: 'PUT', path: pathname + search, headers, body: upload }
  }

  return { make, next: () => make(deck[turn % deck.length] ?? 'readClient') }
}

/** The same order in every run, in which no kind comes in clusters: every seventh of a hundred, and so on. */
function shuffle(kinds: Kind[]): Kind[] {
  const step = 41
  return kinds.map((_, index) => kinds[(index * step) % kinds.length] ?? 'readClient')
}
