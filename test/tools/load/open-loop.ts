import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { CALLS_PER_REQUEST, type Call, type Traffic } from './traffic.ts'

/** Callers give up after so long. */
const PATIENCE_MS = 20_000
/** The text of a request that was given up. */
export const GAVE_UP = `nothing for ${PATIENCE_MS / 1_000} s`
/** Unused connections are closed before the runtime closes them, which it may do just when the next request is sent. */
const IDLE_MS = 2_000
const TICK_MS = 1

/** One request that has an end. */
export interface Outcome {
  kind: Call['kind']
  /** When it was due, in milliseconds since the phase began. */
  dueMs: number
  /** From when it was due, not from when it could be sent, until the last byte of the response. */
  latencyMs: number
  /** 0 without a response. */
  status: number
  requestId: string
  /** The beginning of an unsuccessful response. */
  text: string
}

export interface Phase {
  name: string
  askedPerSecond: number
  seconds: number
  outcomes: Outcome[]
  /** Requests for which no connection was left when they were due: callers wait for none. */
  turnedAway: number
  inFlightAtEnd: number
}

/**
 * Callers that come at their own pace, whether the others are served or not (an open loop): requests are due at even
 * times and their latency counts from then. At most so many are under way at once, as many as there are connections;
 * a call without a free connection is counted and turned away, so that none waits here.
 */
export class OpenLoop {
  readonly #url: string
  readonly #traffic: Traffic
  readonly #connections: number
  readonly #agent: Agent
  #inFlight = 0

  constructor(url: string, traffic: Traffic, connections: number) {
    this.#url = url
    this.#traffic = traffic
    this.#connections = connections
    this.#agent = new Agent({ keepAlive: true, timeout: IDLE_MS })
  }

  /**
   * Makes requests for some seconds.
   *
   * @returns when the last one is due: `done` resolves with the last response
   */
  async run(name: string, askedPerSecond: number, seconds: number): Promise<{ phase: Phase; done: Promise<unknown> }> {
    const phase: Phase = { name, askedPerSecond, seconds, outcomes: [], turnedAway: 0, inFlightAtEnd: 0 }
    const gapMs = 1_000 / (askedPerSecond * CALLS_PER_REQUEST)
    const calls: Promise<void>[] = []
    const start = performance.now()
    let dueMs = 0
    while (dueMs < seconds * 1_000) {
      for (; dueMs < seconds * 1_000 && start + dueMs <= performance.now(); dueMs += gapMs) {
        if (this.#inFlight >= this.#connections) phase.turnedAway++
        else calls.push(this.#call(phase, this.#traffic.next(), start, dueMs))
      }
      await sleep(TICK_MS)
    }
    phase.inFlightAtEnd = this.#inFlight
    return { phase, done: Promise.all(calls) }
  }

  [Symbol.dispose](): void {
    this.#agent.destroy()
  }

  async #call(phase: Phase, call: Call, start: number, dueMs: number): Promise<void> {
    this.#inFlight++
    const { text, ...response } = await this.#send(call)
    this.#inFlight--
    const endMs = performance.now() - start
    const isSuccess = response.status === 200
    const shown = isSuccess ? '' : text.slice(0, 200)
    phase.outcomes.push({ ...response, kind: call.kind, dueMs, latencyMs: endMs - dueMs, text: shown })
    // The same caller continues at once, on its connection.
    if (call.follow && isSuccess) await this.#call(phase, call.follow(text), start, endMs)
  }

  #send({ method, path, headers, body, follow }: Call) {
    return new Promise<{ status: number; requestId: string; text: string }>((resolve) => {
      const fail = (error: Error) => resolve({ status: 0, requestId: '', text: error.message })
      const options = {
        method,
        agent: this.#agent,
        timeout: PATIENCE_MS,
        headers: { ...headers, ...(body && { 'content-length': body.length }) },
      }
      const sent = request(this.#url + path, options, (response) => {
        const isRead = follow !== undefined || response.statusCode !== 200
        const parts: Buffer[] = []
        response.on('data', (part: Buffer) => {
          if (isRead) parts.push(part)
        })
        response.on('error', fail)
        response.on('end', () => {
          const requestId = String(response.headers['x-request-id'] ?? '')
          resolve({ status: response.statusCode ?? 0, requestId, text: Buffer.concat(parts).toString() })
        })
      })
      sent.on('timeout', () => sent.destroy(new Error(GAVE_UP)))
      sent.on('error', fail)
      sent.end(body)
    })
  }
}
