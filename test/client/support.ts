import { inject } from 'vitest'
import { type ClientOptions, createClient } from '../../src/client/index.ts'
import type { Call, Fault } from '../../src/simulators/kit.ts'
import { look, spoil } from '../../src/simulators/steer.ts'

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
