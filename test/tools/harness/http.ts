import { Agent, type IncomingMessage, request } from 'node:http'
import { buffer } from 'node:stream/consumers'

export interface Wire {
  method?: string
  path: string
  headers?: Record<string, string>
  body?: string | Uint8Array | null
}

/** Unused connections are closed before the runtime closes them, which it may do just when the next request is sent. */
const kept = new Agent({ keepAlive: true, timeout: 2_000 })

/** What is thrown where nothing comes for so long. */
export const silence = (timeoutMs: number) => `nothing for ${timeoutMs / 1_000} s`

/** Sends a request as it stands, which no client library normalises, and reads the whole response. */
export async function send(
  url: string,
  { method = 'GET', path, headers = {}, body }: Wire,
  { timeoutMs = 60_000, agent = kept }: { timeoutMs?: number; agent?: Agent | false } = {},
): Promise<Response> {
  const { hostname, port } = new URL(url)
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const isMeasured = body && !('transfer-encoding' in headers)
  const length = isMeasured && { 'content-length': Buffer.byteLength(body) }
  const sent = request({ agent, hostname, port, method, path, headers: { ...headers, ...length }, timeout: timeoutMs })
  sent.once('response', resolve)
  sent.once('error', reject)
  sent.once('timeout', () => sent.destroy(new Error(silence(timeoutMs))))
  sent.end(body ?? undefined)
  const response = await promise
  const received = new Headers()
  for (let at = 0; at < response.rawHeaders.length; at += 2) {
    received.append(response.rawHeaders[at] ?? '', response.rawHeaders[at + 1] ?? '')
  }
  const status = response.statusCode ?? 0
  const bytes = await buffer(response)
  return new Response([204, 304].includes(status) ? null : bytes, { status, headers: received })
}

/** A request whose response must be a success. */
export async function sendWell(url: string, wire: Wire): Promise<Response> {
  const response = await send(url, wire)
  if (response.ok) return response
  throw new Error(`${wire.method} ${wire.path}: ${response.status} ${(await response.text()).slice(0, 500)}`)
}

export const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` })

/** A request to the API. @param body an object, or JSON */
export function call(method: string, path: string, token: string, body?: object | string) {
  const isJson = typeof body === 'string' || body instanceof Uint8Array
  return {
    method,
    path: `/api/v1${path}`,
    headers: { ...bearer(token), ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: isJson ? body : JSON.stringify(body) }),
  } satisfies Wire
}

export const get = (path: string, token: string) => call('GET', path, token)

export interface Answer {
  /** 0 without a response, as when the service is killed or takes longer than it may; the body says why. */
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: the checks read bodies freely
  body: any
}

/**
 * One request for JSON, on a connection of its own: the service may have closed one that is kept, or was killed since.
 */
export async function ask(
  { url }: { url: string },
  token: string,
  method: string,
  path: string,
  options: { body?: object | undefined; headers?: Record<string, string>; timeoutMs: number },
): Promise<Answer> {
  const { body, headers, timeoutMs } = options
  const wire = call(method, '', token, body)
  try {
    const sent = { ...wire, path, headers: { ...wire.headers, ...headers } }
    const response = await send(url, sent, { timeoutMs, agent: false })
    return { status: response.status, headers: response.headers, body: await response.json() }
  } catch (error) {
    return { status: 0, headers: new Headers(), body: String(error) }
  }
}
