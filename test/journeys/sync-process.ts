import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import type { PushedClient, PushedOrder } from '../../src/client/index.ts'
import { createClient } from '../../src/client/index.ts'

/*
 * An integrator's process, which may be killed at any time: it pulls a company into a file, or pushes one from a file, and
 * continues where the file ends. `FAULT` is `kill`, `lost` or a status, and the number of the request that it meets.
 */

const { BASE_URL = '', TOKEN = '', STORE = '', PUSH, FAULT = '' } = process.env
const [fault, at] = FAULT.split(':')
let requests = 0

/** A request fails before or, where its response is lost, after it was carried out. */
async function faultyFetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  requests += 1
  if (requests !== Number(at)) return fetch(input, init)
  if (fault === 'kill' || fault === 'lost') {
    const response = await fetch(input, init)
    await response.arrayBuffer()
    if (fault === 'kill') process.kill(process.pid, 'SIGKILL')
    throw new TypeError('fetch failed')
  }
  const error = { code: 'internal_error', message: 'Injected', details: null }
  return Response.json({ error }, { status: Number(fault), headers: { 'Retry-After': '1' } })
}

const api = createClient({ baseUrl: BASE_URL, token: TOKEN, fetch: faultyFetch, maxRetries: FAULT === '' ? 3 : 0 })

/** The lines of the file; the last one may be cut off. */
function readStore(): Record<string, never>[] {
  if (!existsSync(STORE)) return []
  const whole = readFileSync(STORE, 'utf8')
  const text = whole.slice(0, whole.lastIndexOf('\n') + 1)
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
}

const store = (line: unknown) => appendFileSync(STORE, `${JSON.stringify(line)}\n`)

const stored = readStore()
if (PUSH === undefined) {
  for await (const page of api.pull(stored.at(-1)?.state)) store(page)
} else {
  const { clients, orders }: { clients: PushedClient[]; orders: PushedOrder[] } = JSON.parse(readFileSync(PUSH, 'utf8'))
  for await (const results of api.push({ clients, orders })) for (const result of results) store(result)
}
console.log(requests)
