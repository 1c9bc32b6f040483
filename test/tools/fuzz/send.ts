import { Agent, type IncomingMessage, request } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { WireRequest } from './draft.ts'

const TIMEOUT_MS = 60_000

const agent = new Agent({ keepAlive: true, maxSockets: 32 })

/** Sends a request as it stands: no client library normalises its path or headers. */
export async function sendWire(url: string, wire: WireRequest): Promise<Response> {
  const { hostname, port } = new URL(url)
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const sent = request({
    agent,
    hostname,
    port,
    method: wire.method,
    path: wire.target,
    headers: {
      ...wire.headers,
      ...(wire.body && !('transfer-encoding' in wire.headers) && { 'content-length': wire.body.length }),
    },
    timeout: TIMEOUT_MS,
  })
  sent.once('response', resolve)
  sent.once('error', reject)
  sent.once('timeout', () => sent.destroy(new Error(`no response within ${TIMEOUT_MS} ms`)))
  sent.end(wire.body ?? undefined)

  const response = await promise
  const status = response.statusCode ?? 0
  const headers = new Headers()
  for (let at = 0; at < response.rawHeaders.length; at += 2) {
    headers.append(response.rawHeaders[at] ?? '', response.rawHeaders[at + 1] ?? '')
  }
  const body = await buffer(response)
  return new Response([204, 304].includes(status) ? null : body, { status, headers })
}

export function closeConnections(): void {
  agent.destroy()
}
