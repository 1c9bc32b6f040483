import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { app } from '../../src/app.ts'
import type { Env } from '../../src/env.ts'

/** One wait for the network: what was asked, and after how many waits of the same request it could begin. */
export interface Hop {
  /** Such as `DB.batch`, `RATE_LIMITER.take`, `CACHE.get`, `FILES.list`, `fetch`. */
  name: string
  /** 1 for what begins without waiting for another. */
  depth: number
}

export interface Measured {
  response: Response
  /** In the order in which they began; only those that had ended when the answer was ready. */
  hops: Hop[]
  /** How many waits stood one behind the other. */
  depth: number
}

/** Every hop takes at least so long: what begins while another is under way is seen to run beside it. */
const HOP_MS = 15

/**
 * Sends a request to the application with bindings, and an outbound `fetch`, that count. What goes on after the answer
 * is waited for and not counted. A token that the isolate has not seen costs one hop more: send a request before.
 */
export async function measureHops(sent: Request, bindings: Env = env): Promise<Measured> {
  const counter = new Counter()
  const context = createExecutionContext()
  const fetchBefore = globalThis.fetch
  globalThis.fetch = (...input) => counter.track('fetch', () => fetchBefore(...input))
  try {
    const response = await app.fetch(sent, counter.wrap(bindings), context)
    const hops = counter.ended()
    const whole = new Response([204, 304].includes(response.status) ? null : await response.arrayBuffer(), response)
    await waitOnExecutionContext(context)
    return { response: whole, hops, depth: Math.max(0, ...hops.map((hop) => hop.depth)) }
  } finally {
    globalThis.fetch = fetchBefore
  }
}

type Callable = (...input: unknown[]) => unknown

/** Methods that reach the network; every other one of a binding is called as it is. */
const HOPS: Record<string, readonly string[]> = {
  database: ['batch', 'exec', 'dump'],
  statement: ['all', 'raw', 'run', 'first'],
  kv: ['get', 'getWithMetadata', 'put', 'delete', 'list'],
  bucket: ['get', 'head', 'put', 'delete', 'list', 'createMultipartUpload'],
  service: ['fetch'],
}

class Counter {
  private readonly hops: (Hop & { ended: boolean })[] = []
  private deepestEnded = 0
  private readonly targets = new WeakMap<object, object>()

  ended(): Hop[] {
    return this.hops.filter((hop) => hop.ended).map(({ name, depth }) => ({ name, depth }))
  }

  async track<T>(name: string, work: () => Promise<T>): Promise<T> {
    const hop = { name, depth: this.deepestEnded + 1, ended: false }
    this.hops.push(hop)
    try {
      const [result] = await Promise.all([work(), scheduler.wait(HOP_MS)])
      return result
    } finally {
      hop.ended = true
      this.deepestEnded = Math.max(this.deepestEnded, hop.depth)
    }
  }

  wrap(bindings: Env): Env {
    const wrapped = Object.entries(bindings).map(([name, binding]) => [name, this.wrapBinding(name, binding)])
    return Object.fromEntries(wrapped)
  }

  private wrapBinding(name: string, binding: unknown): unknown {
    if (typeof binding !== 'object' || binding === null) return binding
    if ('withSession' in binding) return this.proxy(name, binding, 'database')
    if ('getWithMetadata' in binding) return this.proxy(name, binding, 'kv')
    if ('createMultipartUpload' in binding) return this.proxy(name, binding, 'bucket')
    if ('idFromName' in binding) return this.wrapNamespace(name, binding)
    // The rate limiting binding answers from its own machine: no network.
    if ('limit' in binding || !('fetch' in binding)) return binding
    return this.proxy(name, binding, 'service')
  }

  private proxy(name: string, target: object, kind: keyof typeof HOPS): object {
    const wrapped = new Proxy(target, {
      get: (_, key) => {
        const member: unknown = Reflect.get(target, key)
        if (typeof member !== 'function' || typeof key !== 'string') return member
        const call: Callable = member.bind(target)
        if (HOPS[kind]?.includes(key)) {
          return (...input: unknown[]) =>
            this.track(`${name}.${key}`, async () => call(...input.map((value) => this.unwrap(value))))
        }
        return (...input: unknown[]) => this.wrapMade(name, key, call(...input))
      },
    })
    this.targets.set(wrapped, target)
    return wrapped
  }

  /** Sessions and statements reach the network later. */
  private wrapMade(name: string, key: string, made: unknown): unknown {
    if (typeof made !== 'object' || made === null) return made
    if (key === 'withSession') return this.proxy(name, made, 'database')
    if (key === 'prepare' || key === 'bind') return this.proxy(name, made, 'statement')
    return made
  }

  /** The real statements of a batch. */
  private unwrap(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((each) => this.unwrap(each))
    return typeof value === 'object' && value !== null ? (this.targets.get(value) ?? value) : value
  }

  private wrapNamespace(name: string, namespace: object): object {
    return new Proxy(namespace, {
      get: (_, key) => {
        const member: unknown = Reflect.get(namespace, key)
        if (typeof member !== 'function') return member
        const call: Callable = member.bind(namespace)
        return key === 'get' || key === 'getByName'
          ? (...input: unknown[]) => this.wrapStub(name, call(...input))
          : call
      },
    })
  }

  /** Whatever is called on an object goes over the network. */
  private wrapStub(name: string, stub: unknown): unknown {
    if (typeof stub !== 'object' || stub === null) return stub
    return new Proxy(stub, {
      get: (_, key) =>
        key === 'then'
          ? undefined
          : (...input: unknown[]) =>
              this.track(`${name}.${String(key)}`, async () => {
                const member: unknown = Reflect.get(stub, key)
                if (typeof member !== 'function') throw new TypeError(`The object has no method ${String(key)}.`)
                return Reflect.apply(member, stub, input)
              }),
    })
  }
}
