import { type IncomingMessage, request as sendRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { serve } from '../node/cli-support.ts'
import type { Random } from '../support/random.ts'

/** Ends of one window differ by the rounding of `t` to seconds and by the time of the response. */
const SAME_WINDOW_MS = 3_000

/** What became of a request: passed on, cut before it arrived, while it ran, or with only a part of its response. */
type Fate = 'passed' | 'refused' | 'abandoned' | 'lost'

interface Window {
  endsAt: number
  /** The requests that the service has carried out, a batch as its number of operations. */
  requests: number
}

export interface LossyProxy {
  url: string
  fates: Record<Fate, number>
  statuses: Record<number, number>
  /** The rate-limit windows of each token, from the `RateLimit` headers. */
  windows: Map<string, Window[]>
  /** The share of requests to cut, 0 to 1. */
  setLoss: (share: number) => void
}

/** Starts a proxy before a service that cuts connections at random. It ends with the test. */
export async function startLossyProxy(target: string, random: Random): Promise<LossyProxy> {
  const proxy: Omit<LossyProxy, 'url'> = {
    fates: { passed: 0, refused: 0, abandoned: 0, lost: 0 },
    statuses: {},
    windows: new Map(),
    setLoss: (share) => {
      loss = share
    },
  }
  let loss = 0

  const url = await serve(async (request, response) => {
    try {
      const body = await buffer(request)
      const fate = random.chance(loss) ? random.pick<Fate>(['refused', 'abandoned', 'lost', 'lost']) : 'passed'
      proxy.fates[fate] += 1
      if (fate === 'refused') return void response.destroy()
      const received = forward(target, request, body)
      if (fate === 'abandoned') response.destroy()
      const { message, bytes } = await received
      count(proxy, request, body, message)
      if (fate === 'abandoned') return
      response.writeHead(message.statusCode ?? 502, message.rawHeaders)
      if (fate === 'passed') return void response.end(bytes)
      // Sent before the end, or the whole response would arrive.
      response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => response.destroy())
    } catch {
      response.destroy()
    }
  })
  return { ...proxy, url }
}

function forward(target: string, { url, method, rawHeaders }: IncomingMessage, body: Buffer) {
  return new Promise<{ message: IncomingMessage; bytes: Buffer }>((resolve, reject) => {
    const headers = ['host', new URL(target).host, ...withoutConnection(rawHeaders)]
    const options = { method, headers }
    const sent = sendRequest(new URL(url ?? '/', target), options, (message) => {
      buffer(message).then((bytes) => resolve({ message, bytes }), reject)
    })
    sent.once('error', reject).end(body)
  })
}

function withoutConnection(rawHeaders: string[]): string[] {
  const pairs = rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [[name, rawHeaders[index + 1] ?? '']] : []))
  return pairs.filter(([name = '']) => !/^(connection|host|transfer-encoding)$/i.test(name)).flat()
}

function count(proxy: Omit<LossyProxy, 'url'>, request: IncomingMessage, body: Buffer, response: IncomingMessage) {
  const { statusCode = 0, headers } = response
  proxy.statuses[statusCode] = (proxy.statuses[statusCode] ?? 0) + 1
  const [, seconds] = /"default";r=\d+;t=(\d+)/.exec(String(headers.ratelimit)) ?? []
  if (statusCode === 429 || seconds === undefined) return
  const endsAt = Date.now() + Number(seconds) * 1000
  const token = request.headers.authorization ?? ''
  const windows = proxy.windows.get(token) ?? []
  proxy.windows.set(token, windows)
  let window = windows.find((each) => Math.abs(each.endsAt - endsAt) < SAME_WINDOW_MS)
  if (!window) {
    window = { endsAt, requests: 0 }
    windows.push(window)
  }
  window.requests += request.url?.endsWith('/batch') ? JSON.parse(body.toString()).operations.length : 1
}
