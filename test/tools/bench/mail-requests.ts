import { Agent, request as httpRequest } from 'node:http'
import type { Request } from 'autocannon'
import { fillCompany } from './company.ts'
import { bearer, get } from './load.ts'
import type { Running } from './worker.ts'

/** How much of the floor's p50 each work may take. */
export const TARGETS = { PUT: 3, 'PUT unchanged': 1.6, GET: 2 } as const
export type Work = keyof typeof TARGETS
export const WORKS = Object.keys(TARGETS) as Work[]

const MAILBOX = 'sales@shop.example'

/** A token may make 300 requests a minute: each makes many in a row, as a sync does, and rests while the others do. */
const TOKENS = 150
const REQUESTS_IN_A_ROW = 250

/** A company and tokens that the Worker has seen. */
export async function prepare(api: Running): Promise<string[]> {
  const tokens = await fillCompany(api.worker, 0, TOKENS)
  for (const token of tokens) {
    await fetch(`${api.url}/api/v1/mail/threads/none`, { headers: bearer(token) })
  }
  return tokens
}

let turn = 0

/** Makes the requests of a work; a PUT sends other content than `text` each time, of the same length. */
export function requestsOf(work: Work, threadId: string, tokens: string[], text: string): () => Request {
  const path = `/mail/email-threads/${threadId}`
  const token = () => tokens[Math.floor(turn++ / REQUESTS_IN_A_ROW) % tokens.length] ?? ''
  if (work === 'GET') return () => get(`${path}?account_email=${MAILBOX}`, token())
  const [start, end] = [`{"labels":["`, `"],${text.slice(1).replace(/"labels":\[[^\]]*\],/, '')}`]
  return () => ({
    method: 'PUT',
    path: `/api/v1${path}`,
    headers: { ...bearer(token()), 'content-type': 'application/json' },
    body: start + (work === 'PUT' ? String(1_000_000 + turn) : 'INBOX') + end,
  })
}

const agent = new Agent({ keepAlive: true })

/** @returns milliseconds until the last byte of the response */
export function sendOnce(url: string, { method, path, headers, body }: Request): Promise<number> {
  const bytes = body === undefined ? undefined : Buffer.from(body)
  const start = performance.now()
  return new Promise((resolve, reject) => {
    const options = { method, agent, headers: { ...headers, ...(bytes && { 'content-length': bytes.length }) } }
    const sent = httpRequest(`${url}${path}`, options, (response) => {
      response.on('data', () => {})
      response.on('end', () => {
        if (response.statusCode === 200) resolve(performance.now() - start)
        else reject(new Error(`${method} ${path}: ${response.statusCode}`))
      })
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(bytes)
  })
}
