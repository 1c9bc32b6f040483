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
  const targets = new WeakMap<object, object>()

  function wrap(name: string, binding: unknown): unknown {
    if (typeof binding !== 'object' || binding === null) return binding
    if ('withSession' in binding) return proxy(name, binding, 'database')
    if ('getWithMetadata' in binding) return proxy(name, binding, 'kv')
    if ('createMultipartUpload' in binding) return proxy(name, binding, 'bucket')
    if ('idFromName' in binding) return wrapNamespace(name, binding)
    if ('limit' in binding) return proxy(name, binding, 'counter')
    return 'fetch' in binding ? proxy(name, binding, 'service') : binding
  }

  function proxy(name: string, target: object, kind: Kind): object {
    const calls: readonly string[] = CALLS[kind]
    const wrapped = replaceMethods(target, (key, call) => {
      // Sessions and statements reach the outside later.
      if (!calls.includes(key)) return (...input) => wrapMade(name, key, call(...input))
      return (...input) => around(`${name}.${key}`, async () => call(...input.map(unwrap)), input)
    })
    targets.set(wrapped, target)
    return wrapped
  }

  function wrapMade(name: string, key: string, made: unknown): unknown {
    if (typeof made !== 'object' || made === null) return made
    if (key === 'withSession') return proxy(name, made, 'database')
    return key === 'prepare' || key === 'bind' ? proxy(name, made, 'statement') : made
  }

  /** The real statements of a batch. */
  function unwrap(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(unwrap)
    return typeof value === 'object' && value !== null ? (targets.get(value) ?? value) : value
  }

  function wrapNamespace(name: string, namespace: object): object {
    return replaceMethods(namespace, (key, call) =>
      key === 'get' || key === 'getByName' ? (...input) => wrapStub(name, call(...input)) : call,
    )
  }

  /** Whatever is called on an object goes over the network. */
  function wrapStub(name: string, stub: unknown): unknown {
    if (typeof stub !== 'object' || stub === null) return stub
    const callOf = async (key: string | symbol, input: unknown[]) => {
      const member: unknown = Reflect.get(stub, key)
      if (typeof member !== 'function') throw new TypeError(`The object has no method ${String(key)}.`)
      return Reflect.apply(member, stub, input)
    }
    const callAround =
      (key: string | symbol) =>
      (...input: unknown[]) =>
        around(`${name}.${String(key)}`, () => callOf(key, input), input)
    return new Proxy(stub, { get: (_, key) => (key === 'then' ? undefined : callAround(key)) })
  }

  const wrapped = Object.entries(bindings).map(([name, binding]) => [name, wrap(name, binding)])
  return Object.fromEntries(wrapped)
}

/** The same object, each method of which is replaced. */
export function replaceMethods<T extends object>(target: T, replace: (key: string, call: Callable) => Callable): T {
  return new Proxy(target, {
    get: (_, key) => {
      const member: unknown = Reflect.get(target, key)
      return typeof member === 'function' && typeof key === 'string' ? replace(key, member.bind(target)) : member
    },
  })
}

/** The same bindings, whose calls of these names fail. */
export const breakCalls = (bindings: Env, names: RegExp, error: unknown): Env =>
  wrapBindings(bindings, (name, work) => (names.test(name) ? Promise.reject(error) : work()))

/** The same database, and the bookmarks, or `first-primary`, with which its sessions begin. */
export function noteSessions(database: D1Database): { database: D1Database; sessions: string[] } {
  const sessions: string[] = []
  const noting = replaceMethods(database, (key, call) => (start, ...rest) => {
    if (key === 'withSession') sessions.push(String(start))
    return call(start, ...rest)
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

/** The same bindings, whose calls of these names are `act`, which is told how many there were with this one. */
export function replaceCalls(
  bindings: Env,
  names: RegExp,
  act: (work: () => Promise<unknown>, count: number) => Promise<unknown>,
): Env {
  let count = 0
  return wrapBindings(bindings, (name, work) => (names.test(name) ? act(work, ++count) : work()))
}

export const DATABASE_BATCH = /^DB\w*\.batch$/

/** The same bindings, whose databases lose the response to these batches, by default every other, which then have run. */
export const loseResponses = (bindings: Env, isLost = (count: number) => count % 2 === 1): Env =>
  replaceCalls(bindings, DATABASE_BATCH, async (work, count) => {
    const result = await work()
    if (isLost(count)) throw new Error('D1_ERROR: Network connection lost.')
    return result
  })
