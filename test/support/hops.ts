import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { AsyncLocalStorage } from 'node:async_hooks'
import { app } from '../../src/app.ts'
import type { Env } from '../../src/env.ts'
import { request } from './app.ts'
import { wrapBindings } from './wrap-bindings.ts'

/** One wait for the network, and after how many waits of the same request it could begin. */
export interface Hop {
  /** Such as `DB.batch`, `RATE_LIMITER.admit`, `CACHE.get`, `FILES.list`, `fetch`. */
  name: string
  /** 1 for what begins without waiting for another. */
  depth: number
}

/** Every hop takes at least so long: what begins while another is under way is seen to run beside it. */
const HOP_MS = 15

/** Tells the measured request's calls of `fetch` from those of other requests' work, which may go on beside it. */
const measured = new AsyncLocalStorage<Counter>()

/**
 * Sends a request to the application with bindings, and an outbound `fetch`, that count. Work after the response
 * is awaited and not counted.
 *
 * @returns the hops that had ended when the response was ready, as they began, and the longest chain of waits
 */
export async function measureHops(sent: Request, bindings: Env = env, api: Pick<typeof app, 'fetch'> = app) {
  const counter = new Counter()
  const context = createExecutionContext()
  const counted = wrapBindings(bindings, (name, work) =>
    // The rate limiting binding is local to the machine: no network.
    name.endsWith('.limit') ? work() : counter.track(name, work),
  )
  const fetchBefore = globalThis.fetch
  globalThis.fetch = (...input) => {
    const call = () => fetchBefore(...input)
    return measured.getStore() === counter ? counter.track('fetch', call) : call()
  }
  try {
    const response = await measured.run(counter, () => api.fetch(sent, counted, context))
    const hops = counter.ended()
    const whole = new Response([204, 304].includes(response.status) ? null : await response.arrayBuffer(), response)
    await waitOnExecutionContext(context)
    return { response: whole, hops, depth: Math.max(0, ...hops.map((hop) => hop.depth)) }
  } finally {
    globalThis.fetch = fetchBefore
  }
}

/** The status of a request, and its hops, each with its depth. */
export async function hopsOf(...input: Parameters<typeof request>): Promise<[status: number, ...hops: string[]]> {
  const { response, hops } = await measureHops(request(...input))
  return [response.status, ...hops.map(({ name, depth }) => `${depth} ${name}`).sort()]
}

/** The call of the token's object. */
export const ADMIT = '1 RATE_LIMITER.admit'

class Counter {
  private readonly hops: (Hop & { ended: boolean })[] = []

  ended(): Hop[] {
    return this.hops.filter((hop) => hop.ended).map(({ name, depth }) => ({ name, depth }))
  }

  async track<T>(name: string, work: () => Promise<T>): Promise<T> {
    const hop = { name, depth: 1 + Math.max(0, ...this.ended().map(({ depth }) => depth)), ended: false }
    this.hops.push(hop)
    try {
      const [result] = await Promise.all([work(), scheduler.wait(HOP_MS)])
      return result
    } finally {
      hop.ended = true
    }
  }
}
