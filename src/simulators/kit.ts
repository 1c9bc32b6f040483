import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** A failure to simulate. The first fault whose `match` fits a call applies to it. */
export interface Fault {
  /** A regular expression tried on `METHOD /path?query`, e.g. `^POST .*invoice`. Left out: every call. */
  match?: string
  /** How many calls it applies to; `-1` for all. Default 1. */
  times?: number
  /** Waits this long before anything else. */
  delayMs?: number
  /** Waits until the scope's faults are replaced, or {@link MAX_HOLD_MS}, before anything else. */
  hold?: boolean
  /** Replaces the response's status. */
  status?: number
  headers?: Record<string, string>
  body?: string
  /** Replaces every match of a regular expression in the body, simulated or given, by a text. */
  replace?: readonly (readonly [pattern: string, replacement: string])[]
  /** Sends the body in this coding of its characters instead of UTF-8. */
  encoding?: 'latin1'
  /** Carries the call out first, so that only its response is lost or replaced. */
  apply?: boolean
  /** Announces the whole response, sends this many bytes of it and closes the connection. */
  cutAfterBytes?: number
  /** Announces the whole response, sends this many bytes of it and then nothing. */
  stallAfterBytes?: number
  /** Closes the connection without a response. */
  destroy?: boolean
}

export interface Call {
  method: string
  /** Path and query behind the scope. */
  path: string
  /** Path and query as they were sent, with the scope: what a signature is made of. */
  url: string
  headers: IncomingHttpHeaders
  body: string
}

export interface SimulatedResponse {
  status: number
  headers?: Record<string, string>
  body: string
}

export interface Simulator {
  /** `http://127.0.0.1:PORT`. Append `/t/SCOPE` to give a test its own state, call log and faults. */
  url: string
  close: () => Promise<void>
}

interface Scope<State> {
  state: State
  calls: Call[]
  faults: Fault[]
  held: (() => void)[]
}

/** A test that forgets a held call fails instead of hanging. */
const MAX_HOLD_MS = 90_000
const CONTROL = '/__simulator'

/**
 * Starts a local HTTP server that simulates an outside system.
 *
 * Every path may follow `/t/SCOPE`; a scope has its own state, calls and faults, so that concurrent tests do not affect
 * each other. Tests in workerd control it over HTTP at `…/t/SCOPE/__simulator`: `PUT` a JSON list of
 * {@link Fault}s, `GET` `{ calls, state }`, `DELETE` to forget the scope.
 *
 * @param fresh makes the state of a scope at its first call
 * @param handle responds to a call, whose path comes without the scope
 */
export async function startSimulator<State>(
  fresh: (scopeId: string) => State,
  handle: (call: Call, state: State) => SimulatedResponse | Promise<SimulatedResponse>,
  port = 0,
): Promise<Simulator> {
  const scopes = new Map<string, Scope<State>>()
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  // A busy process would end idle connections late, just when a client sends its next request on one.
  server.keepAliveTimeout = 0

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, scopeId = '', path = '/'] = /^(?:\/t\/([^/?]+))?(.*)$/.exec(request.url ?? '/') ?? []
    const scope = scopes.get(scopeId) ?? { state: fresh(scopeId), calls: [], faults: [], held: [] }
    scopes.set(scopeId, scope)
    const body = await readBody(request)
    const method = request.method ?? 'GET'

    if (path === CONTROL) {
      if (method === 'PUT') {
        scope.faults = JSON.parse(body)
        for (const release of scope.held.splice(0)) release()
      }
      if (method === 'DELETE') scopes.delete(scopeId)
      return send(response, { status: 200, body: JSON.stringify({ calls: scope.calls, state: scope.state }) })
    }

    const call: Call = { method, path, url: request.url ?? '/', headers: request.headers, body }
    scope.calls.push(call)
    const fault = takeFault(scope.faults, `${method} ${path}`)
    if (!fault) return send(response, await handle(call, scope.state))

    if (fault.delayMs) await sleep(fault.delayMs)
    if (fault.hold) {
      const released = new Promise<void>((release) => scope.held.push(release))
      await Promise.race([released, sleep(MAX_HOLD_MS, undefined, { ref: false })])
    }
    const replaced = fault.status !== undefined || fault.body !== undefined || fault.destroy === true
    const normal = !replaced || fault.apply ? await handle(call, scope.state) : { status: 200, body: '' }
    if (fault.destroy) return void response.destroy()
    const sent = fault.body ?? (fault.status === undefined ? normal.body : '')
    const faulty = {
      status: fault.status ?? normal.status,
      headers: { ...normal.headers, ...fault.headers },
      body: (fault.replace ?? []).reduce((text, [pattern, by]) => text.replaceAll(new RegExp(pattern, 'g'), by), sent),
    }
    send(response, faulty, fault)
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function takeFault(faults: Fault[], line: string): Fault | undefined {
  const index = faults.findIndex((fault) => fault.match === undefined || new RegExp(fault.match).test(line))
  const fault = faults[index]
  if (!fault) return undefined
  const left = (fault.times ?? 1) - 1
  if (left === 0) faults.splice(index, 1)
  else faults[index] = { ...fault, times: Math.max(left, -1) }
  return fault
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

function send(
  response: ServerResponse,
  sent: SimulatedResponse,
  { encoding, cutAfterBytes, stallAfterBytes }: Fault = {},
): void {
  const bytes = Buffer.from(sent.body, encoding)
  response.writeHead(sent.status, {
    'content-type': 'application/json',
    ...sent.headers,
    'content-length': bytes.length,
  })
  if (stallAfterBytes !== undefined) return void response.write(bytes.subarray(0, stallAfterBytes))
  if (cutAfterBytes === undefined) return void response.end(bytes)
  response.write(bytes.subarray(0, cutAfterBytes), () => response.destroy())
}
