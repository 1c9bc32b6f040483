import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import { chooseFreePort, listen } from '../../node/servers.ts'
import { findOperation } from '../fuzz/description.ts'
import { BASE, EXCLUSIONS, type Exchange, TOLERANCES } from './exclusions.ts'

const NOT_DESCRIBED = 'Selected route not found'

/** Checks exchanges through a proxy and counts the results. */
export function openJudge(proxy: ValidatingProxy) {
  const judge = {
    excluded: new Map<string, number>(),
    tolerated: new Map<string, number>(),
    /** By operation, then by status. */
    covered: new Map<string, Map<number, number>>(),
    failures: [] as string[],
    exchanges: 0,
    /** Requests that both the proxy and the API refused, and those that only the API's further rules did. */
    refusedByBoth: 0,
    refusedBeyondSchema: 0,
    check,
  }

  /** @returns what is wrong with the exchange, or '' */
  async function check(exchange: Exchange): Promise<string> {
    judge.exchanges++
    const { method, path, status } = exchange
    const exclusion = EXCLUSIONS.find(({ applies }) => applies(exchange))
    const operation = findOperation(method, path.slice(BASE.length))?.id
    if (exclusion || operation === undefined) {
      count(judge.excluded, exclusion?.reason ?? 'an unknown path, or another method on a known one: 404 and 405')
      return ''
    }
    judge.covered.set(operation, count(judge.covered.get(operation) ?? new Map<number, number>(), status))
    const violations = await proxy.judge(exchange)
    const ofRequest = violations.filter(({ where }) => where === 'request')
    const isRefused = status >= 400
    if (ofRequest.length > 0 && isRefused) judge.refusedByBoth++
    if (ofRequest.length === 0 && [400, 413, 415].includes(status)) judge.refusedBeyondSchema++

    // A request that is refused may be anything; one that is carried out is as described.
    const wrong = violations.filter(({ where, text }) => {
      if (where === 'response' || text.includes(NOT_DESCRIBED)) return true
      const tolerance = isRefused ? undefined : TOLERANCES.find(({ applies }) => applies(exchange, text))
      if (tolerance) count(judge.tolerated, tolerance.reason)
      return !isRefused && !tolerance
    })
    if (wrong.length === 0) return ''
    const found = wrong.map(({ where, text }) => `\n- ${where} ${text}`)
    const failure = `${method} ${path} returned ${status}; Prism finds${found.join('')}`
    judge.failures.push(failure)
    return failure
  }
  return judge
}

function count<Key>(counts: Map<Key, number>, key: Key): Map<Key, number> {
  return counts.set(key, (counts.get(key) ?? 0) + 1)
}

const HERE = import.meta.dirname
const PRISM = join(HERE, 'node_modules/@stoplight/prism-cli/dist/index.js')
const HOST = '127.0.0.1'
const READY_MS = 240_000
const ANSWER_MS = 20_000
const ID_HEADER = 'x-exchange'
/** The proxy has these from its own connections. */
const NOT_PASSED_ON = new Set(['host', 'content-length', 'transfer-encoding', 'connection', 'content-encoding'])

const violationsSchema = z.array(z.object({ location: z.array(z.coerce.string()), message: z.string() }))

export interface Violation {
  where: 'request' | 'response'
  /** Such as `body.data.0.id: must be integer`. */
  text: string
}

export interface ValidatingProxy {
  /** Sends an exchange's request through the proxy, which gets the recorded response from behind and checks both. */
  judge: (exchange: Exchange) => Promise<Violation[]>
  close: () => Promise<void>
}

/**
 * Starts Prism's validating proxy, as its command line does, before a server that replays recorded responses.
 *
 * @param document path of an OpenAPI document
 */
export async function startProxy(document: string): Promise<ValidatingProxy> {
  const recorded = new Map<string, Exchange>()
  const upstream = await listen(async (incoming, outgoing) => {
    // A response before the end of the request would reset the connection of a client that still sends.
    for await (const _ of incoming);
    const exchange = recorded.get(String(incoming.headers[ID_HEADER]))
    if (!exchange) return void outgoing.writeHead(501).end()
    for (const [name, value] of exchange.responseHeaders) if (isPassedOn(name)) outgoing.appendHeader(name, value)
    outgoing.writeHead(exchange.status).end(exchange.responseBody)
  })
  const port = await chooseFreePort()
  const options = ['--host', HOST, '--port', String(port), '--cors', 'false', '--verboseLevel', 'silent']
  const prism = spawn(process.execPath, [PRISM, 'proxy', document, upstream.url, ...options], {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, SCARF_ANALYTICS: 'false' },
  })
  const ended = once(prism, 'close')
  await waitUntilListening(port)

  let last = 0
  return {
    judge: async (exchange) => {
      const id = String(++last)
      recorded.set(id, exchange)
      try {
        return await send(port, id, exchange)
      } finally {
        recorded.delete(id)
      }
    },
    close: async () => {
      prism.kill()
      await ended
      upstream.close()
    },
  }
}

async function send(port: number, id: string, exchange: Exchange): Promise<Violation[]> {
  const { method, path, requestBody } = exchange
  const options = { host: HOST, port, method, path: path.slice(BASE.length), agent: false }
  const sent = request({ ...options, signal: AbortSignal.timeout(ANSWER_MS) })
  for (const [name, value] of exchange.requestHeaders) if (isPassedOn(name)) sent.setHeader(name, value)
  sent.setHeader(ID_HEADER, id)
  if (requestBody.length > 0) sent.setHeader('content-length', requestBody.length)
  sent.end(requestBody)
  const [response]: IncomingMessage[] = await once(sent, 'response')
  if (!response) throw new Error('The proxy gave no response.')
  return readViolations(response, await readText(response), exchange)
}

/** The proxy lists violations in a header; another response than the recorded one is an error of its own. */
function readViolations(response: IncomingMessage, body: string, exchange: Exchange): Violation[] {
  const header = response.headers['sl-violations']
  if (header === undefined) {
    if (response.statusCode === exchange.status) return []
    return [{ where: 'response', text: `the proxy returned ${response.statusCode} by itself: ${body.slice(0, 300)}` }]
  }
  const text = String(header)
  // A list that is too long for the header is cut. Those of the request come first, so it says nothing of the response.
  if (text.startsWith('Too many violations!') && text.includes('"location":["request"')) {
    return [{ where: 'request', text: 'too many violations for a header' }]
  }
  if (!text.startsWith('[')) return [{ where: 'response', text: text.slice(0, 2_000) }]
  return violationsSchema.parse(JSON.parse(text)).map(({ location: [place, ...path], message }) => ({
    where: place === 'request' ? 'request' : 'response',
    text: `${path.join('.')}: ${message}`,
  }))
}

const isPassedOn = (header: string) => !NOT_PASSED_ON.has(header.toLowerCase())

async function waitUntilListening(port: number): Promise<void> {
  const latest = Date.now() + READY_MS
  for (;;) {
    const isListening = await fetch(`http://${HOST}:${port}/`).then(
      () => true,
      () => false,
    )
    if (isListening) return
    if (Date.now() > latest) throw new Error('The proxy did not get ready.')
    await sleep(100)
  }
}
