import { DurableObject } from 'cloudflare:workers'
import { CALLER_SITES, CALLERS, type Setup, type Site, siteOf } from '../places.ts'
import { type Bindings, distantBindings, knownObjects, objectKey, placeOf } from './bindings.ts'
import { timeMethods, withClock } from './clock.ts'
import { DatabaseHost, noteMachine } from './database.ts'

export { DatabaseHost }

type Exports = Record<string, unknown> & { default: ExportedHandler }

type ObjectClass = new (state: DurableObjectState, bindings: Record<string, unknown>) => DurableObject

/** An isolate: a Worker with a module state of its own. */
interface Isolate {
  handler: ExportedHandler
  bindings: Record<string, unknown>
}

const ISOLATES_OF_A_SITE = 2

/**
 * A Worker in many places at once. The headers `X-Edge-Site` and `X-Edge-Cold` of a request say where it arrives, and
 * whether at an isolate that has never had one. `X-Edge-Ms` of the response says after how many milliseconds of hops and
 * databases it was complete, `X-Edge-Machine-Ms` what this machine took beside that.
 *
 * @param create evaluates the Worker's module again
 */
export function simulate(create: () => Exports, setup: Setup) {
  const home = create()
  let isolates = new Map<string, Isolate>()
  /** Evaluated ahead: Cloudflare does that while the connection is made. */
  const evaluated: ExportedHandler[] = []

  function start(bindings: Bindings, site: Site): Isolate {
    const handler = evaluated.pop() ?? create().default
    return { handler, bindings: distantBindings(bindings, setup, () => site) }
  }

  function find(bindings: Bindings, site: Site, isCold: boolean): Isolate {
    const key = `${site} ${Math.floor(Math.random() * ISOLATES_OF_A_SITE)}`
    const found = isCold ? undefined : isolates.get(key)
    const isolate = found ?? start(bindings, site)
    if (!isCold) isolates.set(key, isolate)
    return isolate
  }

  /** All isolates are new ones, and all objects lose what they have in memory. */
  async function deploy(bindings: Bindings): Promise<void> {
    isolates = new Map()
    const bindingOf = Object.fromEntries(Object.entries(setup.objects).map(([name, className]) => [className, name]))
    for (const key of knownObjects()) {
      const [className = '', id = ''] = key.split(' ')
      const namespace = bindings[bindingOf[className] ?? ''] as DurableObjectNamespace
      // biome-ignore lint/suspicious/noExplicitAny: the method is of the class below
      const stub = namespace.get(namespace.idFromString(id)) as any
      await stub.endForDeploy().catch(() => undefined)
    }
  }

  const handler = {
    async fetch(request: Request, bindings: Bindings, context: ExecutionContext): Promise<Response> {
      const { pathname, searchParams } = new URL(request.url)
      if (pathname === '/edge/deploy') await deploy(bindings)
      if (pathname === '/edge/evaluate') {
        while (evaluated.length < Number(searchParams.get('count'))) evaluated.push(create().default)
      }
      if (pathname.startsWith('/edge/')) return new Response(null, { status: 204 })
      const site = CALLER_SITES.find((each) => each === decodeURIComponent(request.headers.get('x-edge-site') ?? ''))
      if (!site) return new Response('X-Edge-Site is missing', { status: 400 })
      const isolate = find(bindings, site, request.headers.has('x-edge-cold'))
      return measure(isolate, arriving(request, site), context)
    },
  }

  /** A class of objects, whose bindings are behind the distances from where each object is. */
  function placed(className: string) {
    const Base = home[className] as ObjectClass
    class Placed extends Base {
      constructor(state: DurableObjectState, bindings: Bindings) {
        const key = objectKey(className, state.id)
        super(
          state,
          distantBindings(bindings, setup, () => siteOf(placeOf(key) ?? setup.primary)),
        )
      }

      endForDeploy(): void {
        this.ctx.abort('The code was updated.')
      }
    }
    timeMethods(Placed.prototype, methodsOf(Base))
    return Placed
  }

  const isObject = (name: string) => Object.values(setup.objects).includes(name)
  return { handler, exported: (name: string) => (isObject(name) ? placed(name) : home[name]) }
}

/** The request as Cloudflare hands it to the Worker at a site. */
function arriving(request: Request, site: Site): Request {
  const headers = new Headers(request.headers)
  headers.delete('x-edge-site')
  headers.delete('x-edge-cold')
  headers.set('cf-connecting-ip', `192.0.2.${CALLER_SITES.indexOf(site) + 1}`)
  return new Request(new Request(request, { headers }), { cf: { ...CALLERS[site] } })
}

/** The methods that an object's class and those it extends have, but for the platform's own. */
function methodsOf(base: ObjectClass): string[] {
  const names = new Set<string>()
  for (let at = base.prototype; at !== DurableObject.prototype && at; at = Object.getPrototypeOf(at)) {
    for (const name of Object.getOwnPropertyNames(at)) if (typeof Reflect.get(at, name) === 'function') names.add(name)
  }
  return [...names].filter((name) => !/^(constructor|fetch|alarm|webSocket.*)$/.test(name))
}

async function measure({ handler, bindings }: Isolate, request: Request, context: ExecutionContext): Promise<Response> {
  const start = performance.now()
  const { result, ms } = await withClock(async () => {
    const response = await handler.fetch?.(request as never, bindings, context)
    if (!response) throw new Error('The Worker has no fetch.')
    return new Response(response.body ? await response.arrayBuffer() : null, response)
  })
  result.headers.set('x-edge-ms', String(ms))
  const machineMs = performance.now() - start - ms
  noteMachine(machineMs)
  result.headers.set('x-edge-machine-ms', String(machineMs))
  return result
}
