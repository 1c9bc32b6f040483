import { hash } from 'node:crypto'
import type { Context, Hono, MiddlewareHandler, NotFoundHandler } from 'hono'
import type { Env } from '../../env.ts'
import { runWrite, type Write } from '../db/idempotency.ts'
import { taggedResponse, UNCOMPRESSED, weakenEtag } from '../db/versions.ts'
import type { Permission } from '../gate/permissions.ts'
import { refuseToken } from '../gate/tokens.ts'
import { isolateMemory, type Lease } from '../http/body.ts'
import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError, errorResponse, invalid, unusable } from '../http/errors.ts'
import { joinOr } from '../http/messages.ts'
import type { AppEnv, RequestContext } from './context.ts'
import { type Contract, type Input, type ResponseBody, takesKey } from './contract.ts'
import { inputReader, refuseQuery } from './input.ts'

export interface Route {
  contract: Contract
  handlers: MiddlewareHandler<AppEnv>[]
}

export interface Extras {
  /** The memory for large bodies; a streamed response that needs it releases it. */
  lease: Lease
  /** A handler sets it to its resource's version: the response gets its `ETag`. */
  version?: number
  /** A list sets it to the next page's cursor: the response gets its `Link`. */
  nextCursor?: string | null
}

export type Handler<C extends Contract> = (
  input: Input<C>,
  context: RequestContext,
  extras: Extras,
) => Promise<ResponseBody<C> | Response>

/**
 * A contract behind the gate: permission, path, query, body, key, handler. The handler's value is sent as JSON, a
 * `Response` unchanged.
 */
export function route<C extends Contract>(contract: C, handle: Handler<C>): Route {
  const readInput = inputReader(contract)

  async function run(c: Context<AppEnv>, context: RequestContext, extras: Extras): Promise<Response> {
    if (context.ifMatch !== null) refuseCondition(contract, 'If-Match')
    if (context.ifNoneMatch !== null) refuseCondition(contract, 'If-None-Match')
    const { input, bodyHash } = await readInput(c, extras.lease)
    if (contract.countRequests) await c.get('usage').take(contract.countRequests(input.body))
    // Dated at its receipt, a change with a slow body would be older than what callers have read by then.
    context.now = Date.now()
    const work = () => withDeadline(handle(input, context, extras), BUDGET_MS.handler)
    const result = await (takesKey(contract) ? runOnce(c, context, bodyHash, work) : work())
    const response = result instanceof Response ? result : toJson(c, contract, result, extras)
    if (extras.nextCursor) response.headers.set('Link', linkNext(c.req.url, extras.nextCursor))
    if (contract.hasEtag && !contract.hasVersion) weakenEtag(response.headers, c.req.header('accept-encoding'))
    return response
  }

  async function respond(c: Context<AppEnv>): Promise<Response> {
    c.set('operation', contract.operationId)
    const context = c.get('context')
    if (contract.permission !== null) requirePermission(context, contract.permission)
    const lease = isolateMemory.open()
    const isHead = c.req.method === 'HEAD'
    try {
      const response = await run(c, context, { lease })
      // Nothing else ends the body of a response to HEAD.
      if (isHead && lease.isStreaming) await response.body?.cancel()
      return response
    } finally {
      if (isHead || !lease.isStreaming) lease.release()
    }
  }
  return { contract, handlers: [respond] }
}

function toJson(c: Context<AppEnv>, contract: Contract, body: unknown, { version }: Extras): Response {
  const isVersioned = contract.hasVersion && version !== undefined
  const headers = {
    ...commonHeaders(c),
    'Cache-Control': 'private, no-store',
    ...(isVersioned && { ...UNCOMPRESSED, ETag: `"${version}"` }),
  }
  const { ifNoneMatch } = c.get('context')
  if (contract.hasEtag && version !== undefined) return taggedResponse(body, version, headers, ifNoneMatch)
  // Hono's own `json()` sets headers one by one, each by a call out of the isolate's memory.
  return Response.json(body, { headers })
}

interface Reply<C extends Contract> {
  body: ResponseBody<C>
  version: number
}

/** A change that is one write of the database. */
export interface Operation<C extends Contract = Contract> {
  contract: C
  /** @throws ApiError for an invalid path */
  write(input: Input<C>, context: RequestContext): Write<Reply<C>>
}

/** @param reply throws an ApiError where the write found nothing */
export function operation<C extends Contract, T>(
  contract: C,
  build: (input: Input<C>, context: RequestContext) => Write<T>,
  reply: (result: T) => Reply<C>,
): Operation<C> {
  return {
    contract,
    write: (input, context) => {
      const write = build(input, context)
      return { ...write, read: (result) => reply(write.read(result)) }
    },
  }
}

export function routeOf({ contract, write }: Operation): Route {
  return route(contract, async (input, context, extras) => {
    const { body, version } = await runWrite(context, write(input, context))
    extras.version = version
    return body
  })
}

const KEY = /^[\x21-\x7e]{1,255}$/

/** Keys of requests running in this isolate, with their tokens. A canceled request leaves its key, which expires. */
const running = new LruCache<string, true>({ maxWeight: 10_000, ttlMs: BUDGET_MS.handler })

/** @throws ApiError 400 for an invalid key, 409 for a running one */
async function runOnce<T>(c: Context<AppEnv>, context: RequestContext, bodyHash: string, work: () => Promise<T>) {
  const key = c.req.header('idempotency-key')
  if (key === undefined) return work()
  if (!KEY.test(key)) {
    throw invalid([{ path: 'Idempotency-Key', message: 'must have 1 to 255 visible ASCII characters' }])
  }
  const { pathname, search } = new URL(c.req.url)
  const fingerprint = hash('sha256', `${c.req.method} ${pathname}${search} ${bodyHash}`)
  const name = `${context.token.id}/${key}`
  if (running.get(name)) throw unusable('idempotency_key_in_use', { retryAfter: 1 })
  running.set(name, true)
  context.idempotency = { key, fingerprint, position: 0, isReplayed: false }
  try {
    return await work()
  } finally {
    running.delete(name)
  }
}

export function honoPath(contract: Contract): string {
  return contract.path.replaceAll(/\{(\w+)\}/g, ':$1')
}

/** Refuses a condition that a change would ignore. @param path of the header or field @throws ApiError 400 */
export function refuseCondition(contract: Contract, path: 'If-Match' | 'If-None-Match' | 'if_match'): void {
  const { method, isReadOnly, createsOnly, errors } = contract
  const isTaken = path === 'If-None-Match' ? createsOnly : errors.includes('precondition_failed')
  if (isTaken || isReadOnly || method === 'GET') return
  throw invalid([{ path, message: 'has no effect on this operation: send the request without it' }])
}

/** @throws ApiError 403 */
export function requirePermission({ token }: RequestContext, permission: Permission): void {
  const refusal = refuseToken(token, permission)
  if (refusal) throw refusal
}

const EXPOSED =
  'X-Request-Id,Retry-After,RateLimit-Policy,RateLimit,Accept-Encoding,ETag,Link,Idempotency-Replayed,Server-Timing,X-Bookmark,Allow,WWW-Authenticate,Deprecation,Sunset'

/** Paths that other origins may not read: their callers are signed in by the browser. */
export const OWN_ORIGIN = /^\/(admin|settings)(\/|$)/

/**
 * The headers that every response has. A response is built with them, since each header that is set afterwards is a call
 * out of the isolate.
 */
function commonHeaders(c: Context<AppEnv>): Record<string, string> {
  const context = c.get('context')
  const db = context?.db
  const bookmark = db?.bookmark()
  return {
    'X-Request-Id': c.get('requestId'),
    'X-Content-Type-Options': 'nosniff',
    ...(!OWN_ORIGIN.test(c.req.path) && {
      'Access-Control-Allow-Origin': '*',
      'Access-Control-Expose-Headers': EXPOSED,
    }),
    ...c.get('usage')?.headers(),
    ...(context?.idempotency?.isReplayed && { 'Idempotency-Replayed': 'true' }),
    ...(bookmark && { 'X-Bookmark': bookmark }),
    ...(db && { 'Server-Timing': `db;dur=${db.waitedMs()}` }),
  }
}

/** Adds {@link commonHeaders} to a response that was built without. */
export function addCommonHeaders(c: Context<AppEnv>): void {
  const { headers } = c.res
  if (headers.has('X-Request-Id')) return
  for (const [name, value] of Object.entries(commonHeaders(c))) headers.set(name, value)
}

/** The `Link` of RFC 8288. */
function linkNext(requestUrl: string, cursor: string): string {
  const url = new URL(requestUrl)
  url.searchParams.set('cursor', cursor)
  url.searchParams.delete('page')
  return `<${url.href}>; rel="next"`
}

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE']

/** Refuses every other method of the routes' paths. HEAD is allowed wherever GET is. Of two that match, the first runs. */
export function mount(api: Hono<AppEnv>, routes: readonly Route[]): void {
  for (const { contract, handlers } of routes) api.on(contract.method, [honoPath(contract)], ...handlers)
  for (const [path, ofPath] of Map.groupBy(routes, ({ contract }) => honoPath(contract))) {
    const methods: string[] = ofPath.map(({ contract }) => contract.method)
    const allowed = METHODS.filter((each) => methods.includes(each === 'HEAD' ? 'GET' : each))
    api.all(path, refuseMethod(allowed))
  }
}

export function refuseMethod(allowed: readonly string[]): MiddlewareHandler<AppEnv> {
  const message = `The path does not support this method: use ${joinOr(allowed)}`
  return () => {
    throw new ApiError('method_not_allowed', { message, headers: { Allow: allowed.join(', ') } })
  }
}

/** The published description is a static asset; it needs no token. */
export function serveDescription(api: Hono<AppEnv>, asset: string): void {
  api.get('/openapi.json', async (c) => {
    await refuseQuery(c)
    c.set('operation', 'openapi')
    return fetchAsset(c.env, new Request(new URL(`/${asset}`, c.req.url), c.req.raw))
  })
  api.all('/openapi.json', refuseMethod(['GET', 'HEAD']))
}

const describedIn = (api: string) => `${api}/openapi.json describes every route`
/** For a path outside of the APIs: callers forget the first part. */
const NO_PREFIX = `Route not found: paths of the API start with /api/v1, such as /api/v1/clients; ${describedIn('/api/v1')}`

/** Serves the reference page and its files through the Worker, so that they have its headers. */
export const serveAsset: NotFoundHandler<AppEnv> = async (c) => {
  const [, ofApi] = /^\/(api\/v1|admin)(?:\/|$)/.exec(c.req.path) ?? []
  const mayBeAsset = ['GET', 'HEAD'].includes(c.req.method) && !/^\/(api|admin)(\/|$)/.test(c.req.path)
  const asset = mayBeAsset ? await fetchAsset(c.env, c.req.raw) : null
  if (asset && asset.status !== 404) return asset
  const description = describedIn(ofApi === 'admin' ? '/admin/v1' : '/api/v1')
  const message = ofApi ? `Route not found: ${description}` : NO_PREFIX
  return errorResponse(new ApiError('not_found', { message }), c.req.url)
}

async function fetchAsset({ ASSETS }: Env, request: Request): Promise<Response> {
  const asset = await withDeadline(ASSETS.fetch(request), BUDGET_MS.assets)
  // Headers of a fetched response are immutable.
  return new Response(asset.body, asset)
}
