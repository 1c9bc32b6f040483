import { makeThread } from '../bench/mail-thread.ts'

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

type Unnamed = Omit<Call, 'kind'>

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

/** How many of {@link Traffic.next} make so many requests. */
export const CALLS_PER_REQUEST = Object.values(WEIGHTS).reduce((sum, weight) => sum + weight, 0) / REQUESTS_OF_A_DECK

/** Endless requests of a company's day, in fixed shares, each under the next of many tokens. */
export class Traffic {
  readonly #tokens: readonly string[]
  readonly #clients: number
  readonly #threads: number
  readonly #deck: Kind[]
  readonly #upload = Buffer.alloc(UPLOAD_BYTES, 'upload')
  readonly #threadRest: Buffer
  #turn = 0

  /** @param sizes of what there is to ask for: clients (and twice as many orders) from id 1, threads from `load-0` */
  constructor(tokens: readonly string[], sizes: { clients: number; threads: number }) {
    this.#tokens = tokens
    this.#clients = sizes.clients
    this.#threads = sizes.threads
    this.#deck = shuffle(Object.entries(WEIGHTS).flatMap(([kind, weight]) => Array<Kind>(weight).fill(kind as Kind)))
    const text = JSON.stringify(makeThread(THREAD_BYTES))
    this.#threadRest = Buffer.from(`"],${text.slice(1).replace(/"labels":\[[^\]]*\],/, '')}`)
  }

  next(): Call {
    return this.make(this.#deck[this.#turn % this.#deck.length] ?? 'readClient')
  }

  make(kind: Kind): Call {
    return { ...this.#make(kind), kind }
  }

  #make(kind: Kind): Unnamed {
    const turn = ++this.#turn
    const id = 1 + ((turn * 7_919) % this.#clients)
    const thread = `/api/v1/mail/email-threads/load-${turn % this.#threads}`
    switch (kind) {
      case 'readClient':
        return this.#get(`/api/v1/clients/${id}`)
      case 'listClients':
        return this.#get('/api/v1/clients')
      case 'searchClients':
        return this.#get(`/api/v1/clients?q=${encodeURIComponent(needleOf(id))}`)
      case 'listOrders':
        return this.#get(`/api/v1/orders?client_id=${id}`)
      case 'readOrder':
        return this.#get(`/api/v1/orders/${id}`)
      case 'readThread':
        return this.#get(`${thread}?account_email=${MAILBOX}`)
      case 'createClient':
        return this.#json('POST', '/api/v1/clients', {
          company_name: `New Client ${turn}`,
          email: `new.${turn}@client.example`,
        })
      case 'patchOrder':
        return this.#json('PATCH', `/api/v1/orders/${id}`, {
          title: `Order ${turn}`,
          client_notes: 'Call before delivery',
        })
      case 'putThread':
        return this.#send('PUT', thread, Buffer.concat([Buffer.from(`{"labels":["${turn}`), this.#threadRest]))
      case 'upload':
        return this.#presign(id, `proof-${turn % FILE_NAMES}.png`)
    }
  }

  #presign(orderId: number, fileName: string): Unnamed {
    const file = { fileName, contentType: UPLOAD_TYPE, size: UPLOAD_BYTES, legacyThreadId: 'load' }
    return {
      ...this.#json('POST', `/api/v1/orders/${orderId}/files/presign`, file),
      follow: (response) => {
        const { pathname, search } = new URL(readUploadUrl(response))
        const headers = { 'content-type': UPLOAD_TYPE }
        return { kind: 'uploadBytes', method: 'PUT', path: pathname + search, headers, body: this.#upload }
      },
    }
  }

  #get(path: string): Unnamed {
    return { method: 'GET', path, headers: this.#authorization() }
  }

  #json(method: string, path: string, body: object): Unnamed {
    return this.#send(method, path, Buffer.from(JSON.stringify(body)))
  }

  #send(method: string, path: string, body: Buffer): Unnamed {
    return { method, path, headers: { ...this.#authorization(), 'content-type': 'application/json' }, body }
  }

  #authorization(): Record<string, string> {
    return { authorization: `Bearer ${this.#tokens[this.#turn % this.#tokens.length]}` }
  }
}

/** Names end in the id in base 36: all of it but its last digit, behind a name in S, is met by some clients. */
function needleOf(id: number): string {
  return `S ${Math.max(36, id).toString(36).slice(0, -1).toUpperCase()}`
}

function readUploadUrl(response: string): string {
  const { uploadUrl } = JSON.parse(response)
  return String(uploadUrl)
}

/** The same order in every run, in which no kind comes in clusters: every seventh of a hundred, and so on. */
function shuffle(kinds: Kind[]): Kind[] {
  const step = 41
  return kinds.map((_, index) => kinds[(index * step) % kinds.length] ?? 'readClient')
}
