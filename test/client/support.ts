import { env, exports } from 'cloudflare:workers'
import { inject } from 'vitest'
import {
  type Attachment,
  type ClientOptions,
  createClient,
  type Message,
  type SyncOptions,
  syncAttachments,
} from '../../src/client/index.ts'
import type { Call, Fault } from '../../src/simulators/kit.ts'
import { look, spoil } from '../../src/simulators/steer.ts'
import type { TestCompany } from '../support/app.ts'

export const TOKEN = 'ab'.repeat(32)
export const THREAD_ID = '18c1a2b3'
export const MAILBOX = 'sales@shop.example'

export interface CrmSnapshot {
  calls: Call[]
  state: {
    threads: Record<string, Record<string, unknown>>
    files: Record<string, { body: string; contentType: string; length: number }>
    uploadsAtOnce: number
    orders: Record<string, unknown>[]
    changes: number
  }
}

/** A fake API for one test: seeded, given faults and inspected over HTTP. Delays are recorded instead of waited for. */
export async function openCrm(seed: Record<string, unknown> = {}, ...faults: Fault[]) {
  const base = `${inject('crmApiUrl')}/t/${crypto.randomUUID()}`
  const waits: number[] = []
  const client = (options: Partial<ClientOptions> = {}) =>
    createClient({ baseUrl: base, token: TOKEN, sleep: async (delayMs) => void waits.push(delayMs), ...options })
  await put(`${base}/seed`, { base, ...seed })
  if (faults.length > 0) await spoil(base, ...faults)

  return {
    base,
    waits,
    client,
    api: client(),
    spoil: (...faults: Fault[]) => spoil(base, ...faults),
    seed: (more: Record<string, unknown>) => put(`${base}/seed`, more),
    look: async (): Promise<CrmSnapshot> => {
      const snapshot = await look<CrmSnapshot['state']>(base)
      return { ...snapshot, calls: snapshot.calls.filter((call) => call.path !== '/seed') }
    },
  }
}

export type Crm = Awaited<ReturnType<typeof openCrm>>

/** A client whose requests are answered by `fetch`. */
export const clientWith = (fetch: ClientOptions['fetch'], options: Partial<ClientOptions> = {}) =>
  createClient({ baseUrl: 'http://127.0.0.1', token: TOKEN, fetch, ...options })

/** `METHOD /path?query` of every call so far. */
export async function listLines(crm: Pick<Crm, 'look'>): Promise<string[]> {
  return (await crm.look()).calls.map(({ method, path }) => `${method} ${path.replace(/\?signature=.*/, '')}`)
}

/** A header of every call so far. */
export async function headersOf(crm: Pick<Crm, 'look'>, name: string) {
  return (await crm.look()).calls.map(({ headers }) => headers[name])
}

async function put(url: string, body: unknown): Promise<void> {
  const response = await fetch(url, { method: 'PUT', body: JSON.stringify(body) })
  await response.text()
}

const ORIGIN = 'https://api.test'

/** The service itself in place of the network; a presigned URL reaches its bucket without a check of the signature. */
export async function fetchService(address: string, init: RequestInit = {}): Promise<Response> {
  const url = new URL(address)
  const [, key] = /^\/uploads\/[^/]+\/(.*)/.exec(decodeURIComponent(url.pathname)) ?? []
  if (key !== undefined) return useBucket(key, init)
  const response = await exports.default.fetch(new Request(url, init))
  // Read at once: what a test leaves unread would end with an error.
  return new Response(response.status === 304 ? null : await response.arrayBuffer(), response)
}

async function useBucket(key: string, init: RequestInit): Promise<Response> {
  if (init.method !== 'PUT') return new Response((await env.FILES.get(key))?.body ?? null)
  const request = new Request(ORIGIN, init)
  const contentType = request.headers.get('content-type') ?? ''
  await env.FILES.put(key, await request.arrayBuffer(), { httpMetadata: { contentType } })
  return new Response()
}

/** A client of the service; `loses` decides of each response whether it is lost on the way. */
export function openClient({ token }: TestCompany, loses = () => false, options: Partial<ClientOptions> = {}) {
  return createClient({
    baseUrl: ORIGIN,
    token,
    fetch: async (url, init) => {
      const response = await fetchService(url, init)
      if (loses()) throw new TypeError('connection reset')
      return response
    },
    sleep: async () => {},
    ...options,
  })
}

/** Loses every response but the last of a call. */
export function loseAllButEvery(count: number): () => boolean {
  let sent = 0
  return () => ++sent % count !== 0
}

export const FOLDER = `orders/1/12/email/${THREAD_ID}`
export const context = (more: Record<string, unknown> = {}) => ({ [THREAD_ID]: { orders_data: [{ id: 12 }], ...more } })
export const seed = { orders: [{ id: 12 }, { id: 13 }], contexts: context() }

export const messages: Message[] = [
  { id: 'm1', body_plain: 'Hello', attachments: [{ filename: 'logo.png', mime_type: 'image/png' }] },
  { id: 'm2', body_plain: 'No attachment' },
  {
    id: 'm3',
    attachments: [
      { filename: 'logo.png', mail_attachment_id: 'a1' },
      { filename: 'quote (1).pdf', mail_attachment_id: 'a2' },
    ],
  },
]

export function optionsFor(more: Partial<SyncOptions> = {}): SyncOptions {
  return {
    legacyThreadId: THREAD_ID,
    accountEmail: MAILBOX,
    thread: { messages, subject: 'Shirts', labels: ['inbox'] },
    loadAttachment: (message, attachment) => new Blob([bytesOf(message, attachment)]),
    ...more,
  }
}

export const sync = (crm: Pick<Crm, 'api'>, more: Partial<SyncOptions> = {}) =>
  syncAttachments(crm.api, optionsFor(more))

export const bytesOf = (message: Message, attachment: Attachment) => `${message.id} ${attachment.filename}`

export async function readEnd(crm: Crm) {
  const { state } = await crm.look()
  return { threads: state.threads, files: state.files }
}

export const openThread = async (crm: Crm) => (await readEnd(crm)).threads[`${MAILBOX} ${THREAD_ID}`]

export async function readMessages(crm: Crm): Promise<Message[]> {
  const { emailThread } = await crm.client().mail.getEmailThread(THREAD_ID, { account_email: MAILBOX })
  return emailThread?.messages ?? []
}

/** Runs a sync once. @returns the API, and the threads and files that it stores then */
export async function openSynced(options: Partial<SyncOptions> = {}) {
  const crm = await openCrm(seed)
  await sync(crm, options)
  return { crm, before: await readEnd(crm) }
}

/** Fails as a mailbox does that cannot be reached. */
export const offline = () => Promise.reject(new Error('offline'))
