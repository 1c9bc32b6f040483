import { bearer, get } from '../bench/load.ts'
import { makeThread } from '../bench/mail-thread.ts'
import { needleOf } from '../harness/client-row.ts'

export interface Call {
  kind: Kind | 'uploadBytes'
  method: string
  /** With its query. */
  path: string
  headers: Record<string, string>
  body?: Buffer
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
export const CALLS_PER_REQUEST = Object.values(WEIGHTS).reduce((sum, weight) => sum + weight, 0) / REQUESTS_OF_A_DECK

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
    const id = 1 + ((turn * 7_919) % sizes.clients)
    const token = tokens[turn % tokens.length] ?? ''
    const thread = `/mail/email-threads/load-${turn % sizes.threads}`
    const read = (path: string): Call => ({ kind, ...get(path, token) })
    const send = (method: string, path: string, body: object): Call => ({
      kind,
      method,
      path: `/api/v1${path}`,
      headers: { ...bearer(token), 'content-type': 'application/json' },
      body: Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body)),
    })
    switch (kind) {
      case 'readClient':
        return read(`/clients/${id}`)
      case 'listClients':
        return read('/clients')
      case 'searchClients':
        return read(`/clients?q=${encodeURIComponent(needleOf(id))}`)
      case 'listOrders':
        return read(`/orders?client_id=${id}`)
      case 'readOrder':
        return read(`/orders/${id}`)
      case 'readThread':
        return read(`${thread}?account_email=${MAILBOX}`)
      case 'createClient':
        return send('POST', '/clients', { company_name: `New Client ${turn}`, email: `new.${turn}@client.example` })
      case 'patchOrder':
        return send('PATCH', `/orders/${id}`, { title: `Order ${turn}`, client_notes: 'Call before delivery' })
      case 'putThread':
        return send('PUT', thread, Buffer.concat([Buffer.from(`{"labels":["${turn}`), threadRest]))
      case 'upload': {
        const file = { fileName: `proof-${turn % FILE_NAMES}.png`, contentType: UPLOAD_TYPE, size: UPLOAD_BYTES }
        const presign = send('POST', `/orders/${id}/files/presign`, { ...file, legacyThreadId: 'load' })
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
