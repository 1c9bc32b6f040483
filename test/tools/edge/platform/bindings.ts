import { wrapBindings } from '../../../support/wrap-bindings.ts'
import { copiesOf, type Location, nearestLocation, roundTripMs, type Setup, type Site, siteOf } from '../places.ts'
import { travel, travelToObject } from './clock.ts'
import { type Answer, type Call, type DatabaseHost, isWrite } from './database.ts'

export type Bindings = Record<string, unknown> & { DATABASE_HOST: DurableObjectNamespace<DatabaseHost> }

/** Where every object was made, by its class and id. They never move. */
const places = new Map<string, Location>()

export const objectKey = (className: string, id: DurableObjectId) => `${className} ${id}`
export const placeOf = (key: string) => places.get(key)
export const knownObjects = () => [...places.keys()]

/** The bindings as a Worker at a site has them: each behind the round trip from there to where it is. */
export function distantBindings(bindings: Bindings, setup: Setup, site: () => Site): Record<string, unknown> {
  const copies = setup.databases.flatMap((name) => copiesOf(name))
  const others = Object.entries(bindings).filter(
    ([name]) => name !== 'DATABASE_HOST' && !copies.includes(name) && !(name in setup.objects),
  )
  // The wrapper passes bindings on by their form; it does not need them to be those of the Worker.
  const local = wrapBindings(Object.fromEntries(others) as never, (name, work) => {
    const [binding = ''] = name.split('.')
    if (setup.caches.includes(binding)) return travel(roundTripMs(site(), nearestLocation(site())), work)
    return setup.buckets.includes(binding) ? travel(roundTripMs(site(), setup.primary), work) : work()
  })
  const databases = setup.databases.map((name) => [name, distantDatabase(bindings, name, setup, site)])
  const objects = Object.entries(setup.objects).map(([name, className]) => {
    const namespace = bindings[name] as DurableObjectNamespace
    return [name, distantObjects(namespace, className, site)]
  })
  return { ...local, ...Object.fromEntries(databases), ...Object.fromEntries(objects) }
}

function distantObjects(namespace: DurableObjectNamespace, className: string, site: () => Site): object {
  return new Proxy(namespace, {
    get: (target, key) => {
      const member: unknown = Reflect.get(target, key)
      if (typeof member !== 'function') return member
      if (key === 'jurisdiction') {
        return (name: DurableObjectJurisdiction) => distantObjects(target.jurisdiction(name), className, site)
      }
      if (key !== 'get' && key !== 'getByName') return member.bind(target)
      return (name: never, options?: DurableObjectNamespaceGetDurableObjectOptions) => {
        const stub: DurableObjectStub = Reflect.apply(member, target, [name, options])
        return distantStub(stub, objectKey(className, stub.id), site)
      }
    },
  })
}

/** Whatever is called on an object goes over the network. The first call makes the object, near its caller. */
function distantStub(stub: DurableObjectStub, key: string, site: () => Site): object {
  return new Proxy(stub, {
    get: (target, name) => {
      if (name === 'then') return undefined
      if (name === 'id' || name === 'name') return Reflect.get(target, name)
      return (...input: unknown[]) => {
        const location = places.get(key) ?? nearestLocation(site())
        places.set(key, location)
        // biome-ignore lint/suspicious/noExplicitAny: the methods are those of any object
        const object = target as any
        const way = roundTripMs(site(), location)
        // A method is no function: its own `call` would be a method of the object.
        if (name === 'fetch') return travel(way, async () => object[name](...input))
        return travelToObject(way, async (ticket) => object[name](...input, ticket))
      }
    },
  })
}

/** As bookmarks of D1 are: in the order of the commits when they are sorted as text. */
const bookmarkOf = (sequence: number) => `${hex(sequence, 8)}-${hex(0, 8)}-${hex(0, 8)}-${hex(0, 32)}`
const hex = (value: number, length: number) => value.toString(16).padStart(length, '0')

type Execute = (call: Call) => Promise<Answer>

/** A prepared statement. Only what is sent is D1's own: see {@link DatabaseHost}. */
class Statement {
  readonly query: Call['queries'][number]
  readonly #execute: Execute

  constructor(execute: Execute, sql: string, params: unknown[] = []) {
    this.#execute = execute
    this.query = { sql, params }
  }

  bind(...params: unknown[]): Statement {
    return new Statement(this.#execute, this.query.sql, params)
  }

  async all(): Promise<unknown> {
    const { results } = await this.#execute({ queries: [this.query] })
    return (results as unknown[])[0]
  }

  run(): Promise<unknown> {
    return this.all()
  }

  async first(column?: string): Promise<unknown> {
    const { results } = (await this.all()) as { results: Record<string, unknown>[] }
    const row = results[0] ?? null
    return column === undefined || row === null ? row : row[column]
  }

  async raw(raw: { columnNames?: boolean } = {}): Promise<unknown> {
    return (await this.#execute({ queries: [this.query], raw })).results
  }
}

/** What a database and a session have in common. */
const queriesBy = (execute: Execute) => ({
  prepare: (sql: string) => new Statement(execute, sql),
  batch: async (statements: Statement[]) => (await execute({ queries: statements.map(({ query }) => query) })).results,
})

/** Without a session all goes to the primary. */
function distantDatabase(bindings: Bindings, name: string, setup: Setup, site: () => Site) {
  const ways = waysTo(bindings, name, setup, site)
  return {
    ...queriesBy(ways.primary),
    withSession: (constraint = 'first-unconstrained') => openSession(ways, constraint),
  }
}

/**
 * A session of D1: its first query goes to the primary (`first-primary`), to the nearest copy (`first-unconstrained`) or
 * to the nearest copy that is as fresh as the bookmark; the next ones to the nearest copy that is as fresh as those before.
 */
function openSession({ primary, nearest }: ReturnType<typeof waysTo>, constraint: string) {
  let seen = constraint.startsWith('first-') ? null : Number.parseInt(constraint.slice(0, 8), 16)
  const execute: Execute = async (call) => {
    const answer = await (seen === null && constraint === 'first-primary' ? primary(call) : nearest(call, seen ?? 0))
    seen = Math.max(seen ?? 0, answer.sequence)
    return answer
  }
  return { ...queriesBy(execute), getBookmark: () => (seen === null ? null : bookmarkOf(seen)) }
}

function waysTo({ DATABASE_HOST }: Bindings, name: string, setup: Setup, site: () => Site) {
  const { primary: home, ignoresBookmarks } = setup
  const host = () => DATABASE_HOST.get(DATABASE_HOST.idFromName(name))

  async function served(location: Location, work: Promise<Answer>): Promise<Answer> {
    const answer = await work
    const meta = { served_by_region: location.toUpperCase(), served_by_primary: location === home }
    for (const each of answer.results as Result[]) if (each.meta) Object.assign(each.meta, meta)
    return answer
  }
  const atPrimary = (call: Call) => () => served(home, host().primary(name, call))

  function primary(call: Call): Promise<Answer> {
    return ignoresBookmarks ? nearest(call, 0) : travel(roundTripMs(site(), home), atPrimary(call), spentMs)
  }

  /** A copy that waits until it is fresh enough, and passes what writes on to the primary. */
  function nearest(call: Call, minimum: number): Promise<Answer> {
    const location = nearestLocation(site())
    const near = roundTripMs(site(), location)
    if (location === home) return travel(near, atPrimary(call), spentMs)
    if (call.queries.some(({ sql }) => isWrite(sql))) {
      return travel(near + roundTripMs(siteOf(location), home), atPrimary(call), spentMs)
    }
    const fresh = ignoresBookmarks ? 0 : minimum
    return travel(near, () => served(location, host().replica(name, call, fresh)), spentMs)
  }
  return { primary, nearest }
}

interface Result {
  meta?: { duration: number }
}

/** What the statements took, and the wait for a copy that is fresh enough. */
function spentMs({ results, waitedMs }: Answer): number {
  return (results as Result[]).reduce((sum, { meta }) => sum + (meta?.duration ?? 0), waitedMs)
}
