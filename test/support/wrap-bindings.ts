import type { Env } from '../../src/env.ts'

/** Runs around each call of a binding that reaches the outside, with its input. `name` is such as `DB.batch`. */
export type Around = (name: string, work: () => Promise<unknown>, input: unknown[]) => Promise<unknown>

type Callable = (...input: unknown[]) => unknown

/** Methods that reach the outside; every other one of a binding is called as it is. */
const CALLS = {
  database: ['batch', 'exec', 'dump'],
  statement: ['all', 'raw', 'run', 'first'],
  kv: ['get', 'getWithMetadata', 'put', 'delete', 'list'],
  bucket: ['get', 'head', 'put', 'delete', 'list', 'createMultipartUpload'],
  service: ['fetch'],
  counter: ['limit'],
} satisfies Record<string, readonly string[]>

type Kind = keyof typeof CALLS

/** The same bindings, each call of which goes through `around`. */
export function wrapBindings(bindings: Env, around: Around): Env {
  const wrapper = new Wrapper(around)
  const wrapped = Object.entries(bindings).map(([name, binding]) => [name, wrapper.wrap(name, binding)])
  return Object.fromEntries(wrapped)
}

/** The same bindings, whose calls of these names fail. */
export const breakCalls = (bindings: Env, names: RegExp, error: unknown): Env =>
  wrapBindings(bindings, (name, work) => (names.test(name) ? Promise.reject(error) : work()))

/** The same database, and the bookmarks, or `first-primary`, with which its sessions begin. */
export function noteSessions(database: D1Database): { database: D1Database; sessions: string[] } {
  const sessions: string[] = []
  const noting = new Proxy(database, {
    get: (target, key) => {
      const member: unknown = Reflect.get(target, key)
      if (key !== 'withSession') return typeof member === 'function' ? member.bind(target) : member
      return (start: string) => {
        sessions.push(start)
        return target.withSession(start)
      }
    },
  })
  return { database: noting, sessions }
}

/** The same bindings, and the names of the calls that were made. */
export function watchCalls(bindings: Env): { calls: string[]; env: Env } {
  const calls: string[] = []
  const env = wrapBindings(bindings, (name, work) => {
    calls.push(name)
    return work()
  })
  return { calls, env }
}

/** The same bindings, whose databases lose the response to every other batch, which then has run. */
export function loseResponses(bindings: Env): Env {
  let isLost = false
  return wrapBindings(bindings, async (name, work) => {
    const result = await work()
    if (!/^DB\w*\.batch$/.test(name)) return result
    isLost = !isLost
    if (isLost) throw new Error('D1_ERROR: Network connection lost.')
    return result
  })
}

class Wrapper {
  private readonly around: Around
  private readonly targets = new WeakMap<object, object>()

  constructor(around: Around) {
    this.around = around
  }

  wrap(name: string, binding: unknown): unknown {
    if (typeof binding !== 'object' || binding === null) return binding
    if ('withSession' in binding) return this.proxy(name, binding, 'database')
    if ('getWithMetadata' in binding) return this.proxy(name, binding, 'kv')
    if ('createMultipartUpload' in binding) return this.proxy(name, binding, 'bucket')
    if ('idFromName' in binding) return this.wrapNamespace(name, binding)
    if ('limit' in binding) return this.proxy(name, binding, 'counter')
    return 'fetch' in binding ? this.proxy(name, binding, 'service') : binding
  }

  private proxy(name: string, target: object, kind: Kind): object {
    const calls: readonly string[] = CALLS[kind]
    const wrapped = new Proxy(target, {
      get: (_, key) => {
        const member: unknown = Reflect.get(target, key)
        if (typeof member !== 'function' || typeof key !== 'string') return member
        const call: Callable = member.bind(target)
        if (calls.includes(key)) {
          return (...input: unknown[]) => {
            const work = async () => call(...input.map((value) => this.unwrap(value)))
            return this.around(`${name}.${key}`, work, input)
          }
        }
        return (...input: unknown[]) => this.wrapMade(name, key, call(...input))
      },
    })
    this.targets.set(wrapped, target)
    return wrapped
  }

  /** Sessions and statements reach the outside later. */
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
          : (...input: unknown[]) => {
              const work = async () => {
                const member: unknown = Reflect.get(stub, key)
                if (typeof member !== 'function') throw new TypeError(`The object has no method ${String(key)}.`)
                return Reflect.apply(member, stub, input)
              }
              return this.around(`${name}.${String(key)}`, work, input)
            },
    })
  }
}
