import { wrapBindings } from '../../../support/wrap-bindings.ts'
import { type Location, nearestLocation, roundTripMs, type Site, siteOf } from '../places.ts'
import { copiesOf, type Setup } from '../setup.ts'
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
  const databases = setup.databases.map((name) => [name, new DistantDatabase(bindings, name, setup, site)])
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
class Queries {
  readonly #execute: Execute

  constructor(execute: Execute) {
    this.#execute = execute
  }

  prepare(sql: string): Statement {
    return new Statement(this.#execute, sql)
  }

  async batch(statements: Statement[]): Promise<unknown> {
    return (await this.#execute({ queries: statements.map(({ query }) => query) })).results
  }
}

/** Without a session all goes to the primary. */
class DistantDatabase extends Queries {
  readonly #go: Router

  constructor(bindings: Bindings, name: string, setup: Setup, site: () => Site) {
    const router = new Router(bindings, name, setup, site)
    super((call) => router.primary(call))
    this.#go = router
  }

  withSession(constraint = 'first-unconstrained'): Session {
    return new Session(this.#go, constraint)
  }
}

/**
 * A session of D1: its first query goes to the primary (`first-primary`), to the nearest copy (`first-unconstrained`) or
 * to the nearest copy that is as fresh as the bookmark; the next ones to the nearest copy that is as fresh as those before.
 */
class Session extends Queries {
  #seen: number | null

  constructor(router: Router, constraint: string) {
    super(async (call) => {
      const answer = await (this.#seen === null && constraint === 'first-primary'
        ? router.primary(call)
        : router.nearest(call, this.#seen ?? 0))
      this.#seen = Math.max(this.#seen ?? 0, answer.sequence)
      return answer
    })
    this.#seen = constraint.startsWith('first-') ? null : Number.parseInt(constraint.slice(0, 8), 16)
  }

  getBookmark(): string | null {
    return this.#seen === null ? null : bookmarkOf(this.#seen)
  }
}

/** The ways of the calls to one database. */
class Router {
  readonly #bindings: Bindings
  readonly #name: string
  readonly #setup: Setup
  readonly #site: () => Site

  constructor(bindings: Bindings, name: string, setup: Setup, site: () => Site) {
    this.#bindings = bindings
    this.#name = name
    this.#setup = setup
    this.#site = site
  }

  primary(call: Call): Promise<Answer> {
    const { primary, ignoresBookmarks } = this.#setup
    if (ignoresBookmarks) return this.nearest(call, 0)
    return travel(roundTripMs(this.#site(), primary), () => this.#atPrimary(call), spentMs)
  }

  /** A copy that waits until it is fresh enough, and passes what writes on to the primary. */
  nearest(call: Call, minimum: number): Promise<Answer> {
    const { primary, ignoresBookmarks } = this.#setup
    const location = nearestLocation(this.#site())
    const near = roundTripMs(this.#site(), location)
    if (location === primary) return travel(near, () => this.#atPrimary(call), spentMs)
    if (call.queries.some(({ sql }) => isWrite(sql))) {
      return travel(near + roundTripMs(siteOf(location), primary), () => this.#atPrimary(call), spentMs)
    }
    const fresh = ignoresBookmarks ? 0 : minimum
    return travel(near, () => this.#served(location, this.#host().replica(this.#name, call, fresh)), spentMs)
  }

  #atPrimary(call: Call): Promise<Answer> {
    return this.#served(this.#setup.primary, this.#host().primary(this.#name, call))
  }

  async #served(location: Location, work: Promise<Answer>): Promise<Answer> {
    const answer = await work
    const isPrimary = location === this.#setup.primary
    const served = { served_by_region: location.toUpperCase(), served_by_primary: isPrimary }
    for (const { meta } of answer.results as Result[]) if (meta) Object.assign(meta, served)
    return answer
  }

  #host() {
    const { DATABASE_HOST } = this.#bindings
    return DATABASE_HOST.get(DATABASE_HOST.idFromName(this.#name))
  }
}

interface Result {
  meta?: { duration: number }
}

/** What the statements took, and the wait for a copy that is fresh enough. */
function spentMs({ results, waitedMs }: Answer): number {
  return (results as Result[]).reduce((sum, { meta }) => sum + (meta?.duration ?? 0), waitedMs)
}
