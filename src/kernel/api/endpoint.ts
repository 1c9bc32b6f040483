import { hash } from 'node:crypto'
import type { Context, Hono, MiddlewareHandler } from 'hono'
import { runWrite, type Write } from '../db/idempotency.ts'
import { CONDITION_LENGTH_MAX, ETAG } from '../db/refusals.ts'
import type { Permission } from '../gate/permissions.ts'
import { ApiError, errorFor, invalid } from '../http/errors.ts'
import { BUDGET_MS, isolateMemory, type Lease, LruCache, withDeadline } from '../http/isolate.ts'
import { joinOr } from '../http/messages.ts'
import type { AppEnv, RequestContext } from './context.ts'
import { type Contract, type Input, type ResponseBody, takesKey } from './contract.ts'
import { inputReader } from './input.ts'

export interface Route {
  contract: Contract
  handlers: MiddlewareHandler<AppEnv>[]
}

interface Reply<C extends Contract> {
  body: ResponseBody<C>
  version: number
}

/** The version becomes the `ETag` of a response with one client or order. */
type Result<C extends Contract> = C extends { hasVersion: true } ? Reply<C> : ResponseBody<C>

/** @param lease of the memory for large bodies; a streamed response that needs it releases it */
export type Handler<C extends Contract> = (
  input: Input<C>,
  context: RequestContext,
  lease: Lease,
) => Promise<Result<C> | Response>

/** Checks permission, path, query, body and key. The handler's value is sent as JSON, a `Response` unchanged. */
export function route<C extends Contract>(contract: C, handle: Handler<C>): Route {
  const readInput = inputReader(contract)

  async function respond(c: Context<AppEnv>): Promise<Response> {
    c.set('operation', contract.operationId)
    const context = c.get('context')
    requirePermission(context, contract.permission)
    const lease = isolateMemory.open()
    const isHead = c.req.method === 'HEAD'
    try {
      const response = await run(c, context, lease)
      // Nothing else ends the body of a response to HEAD.
      if (isHead && lease.isStreaming) await response.body?.cancel()
      return response
    } finally {
      if (isHead || !lease.isStreaming) lease.release()
    }
  }

  async function run(c: Context<AppEnv>, context: RequestContext, lease: Lease): Promise<Response> {
    if (context.ifMatch !== null) refuseCondition(contract, 'If-Match')
    if (context.ifNoneMatch !== null) refuseCondition(contract, 'If-None-Match')
    const { input, bodyHash } = await readInput(c, lease)
    if (contract.countRequests) await c.get('usage').take(contract.countRequests(input.body))
    // Dated at its receipt, a change with a slow body would be older than what callers have read by then.
    context.now = Date.now()
    const work = () => withDeadline(handle(input, context, lease), BUDGET_MS.handler)
    const result = await (takesKey(contract) ? runOnce(c, context, bodyHash, work) : work())
    const response = result instanceof Response ? result : toJson(c, contract, result)
    if (context.nextCursor) response.headers.set('Link', linkNext(context.url, context.nextCursor))
    if (contract.hasEtag && !contract.hasVersion) weakenEtag(response.headers, c.req.header('accept-encoding'))
    return response
  }
  return { contract, handlers: [respond] }
}

function toJson<C extends Contract>(c: Context<AppEnv>, { hasVersion, hasEtag }: C, result: Result<C>): Response {
  const headers = { ...commonHeaders(c), 'Cache-Control': 'private, no-store' }
  // Hono's own `json()` sets headers one by one, each by a call out of the isolate's memory.
  if (!hasVersion) return Response.json(result, { headers })
  const { body, version } = result as Reply<C>
  const text = JSON.stringify(body)
  const etag = hasEtag ? `"${version}-${hash64(text)}"` : `"${version}"`
  const versioned = { ...headers, ...UNCOMPRESSED, ETag: etag }
  const known = hasEtag ? etagsOf(c.get('context').ifNoneMatch) : []
  if (known === '*' || known.includes(etag)) return new Response(null, { status: 304, headers: versioned })
  return new Response(text, { headers: { ...versioned, 'Content-Type': 'application/json' } })
}

/** Reads the entity tags of an `If-None-Match`, without `W/` since the comparison is weak; `*` matches every tag. */
export function etagsOf(ifNoneMatch: string | null): string[] | '*' {
  if (ifNoneMatch === null) return []
  if (ifNoneMatch.trim() === '*') return '*'
  return Array.from(ifNoneMatch.slice(0, CONDITION_LENGTH_MAX).matchAll(ETAG), ([, tag = '']) => tag)
}

/**
 * Sixteen hex digits of a text: two lanes of FNV-1a over its UTF-16 units, mixed at the end. The version tells states of
 * the resource apart; the hash covers the rest of the body, such as an order's client. SHA-256 took a tenth of a read's time.
 */
function hash64(text: string): string {
  let [a, b] = [0x811c9dc5, 0x9e3779b9]
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit ^ (a >>> 15), 0x85ebca6b)
  }
  return [a ^ (b >>> 13), b ^ (a >>> 16)].map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join('')
}

/**
 * Headers that keep a version's tag strong by preventing compression: Cloudflare weakens tags of compressed responses
 * but obeys `no-transform`; the local runtime compresses any response without a coding.
 */
export const UNCOMPRESSED = { 'Cache-Control': 'private, no-store, no-transform', 'Content-Encoding': 'identity' }

/**
 * Weakens the tag of a large response without a version, which is compressed in transit if the caller accepts a coding:
 * only the uncompressed bytes are the same (RFC 9110, 8.8.3.3).
 */
function weakenEtag(headers: Headers, acceptEncoding = ''): void {
  headers.append('Vary', 'Accept-Encoding')
  const acceptsCoding = acceptEncoding.split(',').some((coding) => !/^\s*(identity\b|$)/i.test(coding))
  const etag = headers.get('ETag')
  if (acceptsCoding && etag?.startsWith('"')) headers.set('ETag', `W/${etag}`)
}

/** A route whose change is one write of the database, which a batch runs with others. */
export interface Operation<C extends Contract = Contract> extends Route {
  /** @throws ApiError for an invalid path */
  write(input: Input<C>, context: RequestContext): Write<Reply<C>>
}

/** @param reply throws an ApiError where the write found nothing */
export function operation<C extends Contract, T>(
  contract: C,
  build: (input: Input<C>, context: RequestContext) => Write<T>,
  reply: (result: T) => Reply<C>,
): Operation<C> {
  const write = (input: Input<C>, context: RequestContext): Write<Reply<C>> => {
    const built = build(input, context)
    return { ...built, read: (result) => reply(built.read(result)) }
  }
  const handle = async (input: Input<C>, context: RequestContext) => {
    const result = await runWrite(context, write(input, context))
    return (contract.hasVersion ? result : result.body) as Result<C>
  }
  return { ...route(contract, handle), write }
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
  const fingerprint = hash('sha256', `${c.req.method} ${pathname.replace(/\/$/, '')}${search} ${bodyHash}`)
  const name = `${context.token.id}/${key}`
  if (running.get(name)) throw errorFor('idempotency_key_in_use', { headers: { 'Retry-After': '1' } })
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

/** @param permission null permits any token @throws ApiError 403 */
export function requirePermission({ token }: RequestContext, permission: Permission | null): void {
  if (permission === null || token.permissions.has(permission)) return
  throw new ApiError('forbidden', { message: `The token lacks the permission \`${permission}\`: use one that has it` })
}

const EXPOSED =
  'X-Request-Id,Retry-After,RateLimit-Policy,RateLimit,Accept-Encoding,ETag,Link,Idempotency-Replayed,Server-Timing,X-Bookmark,Allow,WWW-Authenticate,Deprecation,Sunset'

/** Paths that other origins may not read: their callers are signed in by the browser. */
export const OWN_ORIGIN = /^\/(admin|settings)(\/|$)/

/** The headers of every response, which is built with them: each that is set later is a call out of the isolate. */
function commonHeaders(c: Context<AppEnv>): Record<string, string> {
  const context = c.get('context')
  const bookmark = context?.db.bookmark()
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
    ...(context && { 'Server-Timing': `db;dur=${c.get('databaseUse').waitedMs}` }),
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
