import { hash } from 'node:crypto'
import { zValidator } from '@hono/zod-validator'
import type { Context, Hono, MiddlewareHandler } from 'hono'
import * as z from 'zod/mini'
import { runWrite, type Write } from '../db/idempotency.ts'
import type { Permission } from '../gate/permissions.ts'
import { refuseToken } from '../gate/refusals.ts'
import { BODY_LIMIT_BYTES, readJsonBytes } from '../http/body.ts'
import { LruCache } from '../http/cache.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError, conflict, type Issue, invalid, MAX_ISSUES, notFound } from '../http/errors.ts'
import { taggedResponse, UNCOMPRESSED, versionTag, weakenEtag } from '../http/etag.ts'
import { isolateMemory, type Lease } from '../http/memory.ts'
import { describeSyntax, isFartherBound } from '../http/messages.ts'
import type { AppEnv, RequestContext } from './context.ts'
import { type Contract, type Input, type ResponseBody, takesKey } from './contract.ts'
import { commonHeaders, linkNext } from './response-headers.ts'

const JSON_HEADERS = { 'Cache-Control': 'private, no-store' }

/** The query of a contract without query parameters. */
export const NO_QUERY = z.strictObject({})

/** A contract, and what adds it to Hono with its handler. */
export interface Route {
  contract: Contract
  mount: (app: Hono<AppEnv>) => void
}

/** A handler's extras besides its input and the context. */
export interface Extras {
  /** The memory for large bodies; a streamed response that needs it releases it. */
  lease: Lease
  /** Settles with the endpoint's `prefetch`, if it has one. */
  prefetched: Promise<void> | undefined
  /** A handler sets it to its resource's version: the response gets its `ETag`. */
  version?: number
  /** A list sets it to the next page's cursor: the response gets its `Link`. */
  nextCursor?: string | null
}

type Handler<C extends Contract> = (
  input: Input<C>,
  context: RequestContext,
  extras: Extras,
) => Promise<ResponseBody<C> | Response>

/** Reads for a write before its body has arrived. `announcedBytes` is the `Content-Length`. */
type Prefetch<C extends Contract> = (
  params: Input<C>['params'],
  context: RequestContext,
  announcedBytes: number | undefined,
) => Promise<void> | undefined

/**
 * Mounts a contract behind the rate limit: permission, path, query, body, handler. The handler's value is sent as JSON.
 */
export function route<C extends Contract>(contract: C, handle: Handler<C>, prefetch?: Prefetch<C>): Route {
  const mount = (app: Hono<AppEnv>) => {
    const steps: MiddlewareHandler<AppEnv>[] = [permit(contract), leaseMemory]
    if (contract.params) steps.push(validate('param', contract.params, contract.invalidParams ?? 'not_found'))
    if (prefetch) steps.push(beginPrefetch(prefetch))
    const { countRequests } = contract
    steps.push(validate('query', contract.query ?? NO_QUERY))
    if (contract.body) steps.push(refuseCoding, readBody(contract, contract.body))
    if (countRequests) steps.push((c, next) => takeRequests(c, next, countRequests(validated<C>(c).body)))
    if (takesKey(contract)) steps.push(runOnce)
    app.on(contract.method, [honoPath(contract)], ...steps, async (c) => {
      const context = c.get('context')
      const extras: Extras = {
        lease: c.get('lease'),
        prefetched: c.get('prefetched'),
      }
      const result = await withDeadline(handle(validated<C>(c), context, extras), BUDGET_MS.handler)
      const response = result instanceof Response ? result : respond(c, contract, result, extras)
      if (extras.nextCursor) response.headers.set('Link', linkNext(c.req.url, extras.nextCursor))
      if (contract.hasEtag && !contract.hasVersion) weakenEtag(response.headers, c.req.header('accept-encoding'))
      return response
    })
  }
  return { contract, mount }
}

/** A value as JSON, with the tag of its version. */
function respond(c: Context<AppEnv>, contract: Contract, body: unknown, { version }: Extras): Response {
  const { ifNoneMatch } = c.get('context')
  const headers = {
    ...commonHeaders(c),
    ...JSON_HEADERS,
    ...(contract.hasVersion && version !== undefined && { ...UNCOMPRESSED, ETag: versionTag(version) }),
  }
  if (contract.hasEtag && version !== undefined) return taggedResponse(body, version, { headers, ifNoneMatch })
  // Hono's own `json()` sets headers one by one, each by a call out of the isolate's memory.
  return Response.json(body, { headers })
}

/** The response to a change, and the new version of its resource. */
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

/**
 * @param reply builds the response from the write's result.
 * @throws ApiError when that is nothing
 */
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

/** Mounts an operation as its own endpoint. */
export function routeOf({ contract, write }: Operation): Route {
  return route(contract, async (input, context, extras) => {
    const { body, version } = await runWrite(context, write(input, context))
    extras.version = version
    return body
  })
}

/** An `Idempotency-Key` is visible ASCII. */
const KEY = /^[\x21-\x7e]{1,255}$/

/** Keys of requests running in this isolate, with their tokens. A canceled request leaves its key, which expires. */
const running = new LruCache<string, true>({ maxWeight: 10_000, ttlMs: BUDGET_MS.database })

/**
 * Prepares the request's `Idempotency-Key` for its write.
 *
 * @throws ApiError 400 for an invalid key, 409 for a running one
 */
const runOnce: MiddlewareHandler<AppEnv> = async (c, next) => {
  const key = c.req.header('idempotency-key')
  if (key === undefined) return next()
  if (!KEY.test(key)) {
    throw invalid([{ path: 'Idempotency-Key', message: 'must have 1 to 255 visible ASCII characters' }])
  }
  const context = c.get('context')
  const { pathname, search } = new URL(c.req.url)
  const fingerprint = hash('sha256', `${c.req.method} ${pathname}${search} ${c.get('bodyHash') ?? ''}`)
  const name = `${context.token.id}/${key}`
  if (running.get(name)) throw conflict('idempotency_key_in_use', 1)
  running.set(name, true)
  const idempotency = { key, fingerprint, position: 0, isReplayed: false }
  context.idempotency = idempotency
  try {
    await next()
    // This includes errors, which Hono has already made into a response.
    if (idempotency.isReplayed) c.res.headers.set('Idempotency-Replayed', 'true')
  } finally {
    running.delete(name)
  }
}

async function takeRequests(c: Context<AppEnv>, next: () => Promise<void>, requests: number): Promise<void> {
  await c.get('usage').take(requests)
  await next()
}

/** Writes `/clients/{id}` in Hono's syntax. */
export function honoPath(contract: Contract): string {
  return contract.path.replaceAll(/\{(\w+)\}/g, ':$1')
}

/** @throws ApiError 403 */
export function requirePermission({ token }: RequestContext, permission: Permission): void {
  const refusal = refuseToken(token, permission)
  if (refusal) throw refusal
}

function permit({ operationId, permission }: Contract): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    c.set('operation', operationId)
    if (permission !== null) requirePermission(c.get('context'), permission)
    await next()
  }
}

const leaseMemory: MiddlewareHandler<AppEnv> = async (c, next) => {
  const lease = isolateMemory.open()
  c.set('lease', lease)
  try {
    await next()
  } finally {
    const isSent = lease.isStreaming && c.req.method !== 'HEAD'
    if (!isSent) {
      lease.release()
      // Nothing else ends the body of a response to HEAD.
      if (lease.isStreaming) await c.res.body?.cancel()
    }
  }
}

function beginPrefetch<C extends Contract>(prefetch: Prefetch<C>): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const announced = c.req.header('content-length')
    const announcedBytes = announced === undefined ? undefined : Number(announced)
    c.set('prefetched', prefetch(validated<C>(c).params, c.get('context'), announcedBytes))
    await next()
  }
}

/** RFC 9110, 15.5.16: refuses a request in an unsupported coding. */
export const refuseCoding: MiddlewareHandler<AppEnv> = async (c, next) => {
  const codings = (c.req.header('content-encoding') ?? '').split(',').map((coding) => coding.trim().toLowerCase())
  if (codings.some((coding) => coding !== '' && coding !== 'identity')) {
    throw new ApiError('unsupported_media_type', {
      message: 'The body must not be compressed: send it without Content-Encoding',
      headers: { 'Accept-Encoding': 'identity' },
    })
  }
  await next()
}

export function readBody(contract: Contract, schema: z.ZodMiniType): MiddlewareHandler<AppEnv> {
  const { bodyLimitBytes = BODY_LIMIT_BYTES, hasRawBody } = contract
  return async (c, next) => {
    const bytes = await readJsonBytes(c.req.raw, bodyLimitBytes, c.get('lease'))
    if (takesKey(contract) && c.req.header('idempotency-key') !== undefined) c.set('bodyHash', hash('sha256', bytes))
    c.req.addValidatedData('json', hasRawBody ? bytes : parseBody(bytes, schema))
    await next()
  }
}

function parseBody(bytes: Uint8Array, schema: z.ZodMiniType): object {
  if (bytes.length === 0) throw invalid([{ path: '', message: 'is required' }])
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch (error) {
    throw invalid([{ path: '', message: describeSyntax(error instanceof Error ? error.message : '') }])
  }
  const result = schema.safeParse(value)
  if (!result.success) throw invalidInput('body', result.error.issues)
  return result.data as object
}

export function validate(
  target: 'param' | 'query',
  schema: z.ZodMiniType,
  refusal: 'invalid_request' | 'not_found' = 'invalid_request',
): MiddlewareHandler<AppEnv> {
  return zValidator(target, schema, (result) => {
    if (result.success) return
    if (refusal === 'not_found') throw notFound()
    throw invalidInput(target, result.error.issues)
  })
}

/**
 * Zod reports unknown keys as one issue on their parent; the caller wants each by its own name. Paths and queries are
 * flat, so an issue within a parameter is reported once, on the parameter.
 */
export function invalidInput(target: 'param' | 'query' | 'body', found: readonly z.core.$ZodIssue[]): ApiError {
  const issues = new Map<string, Issue>()
  let count = 0
  for (const issue of found.filter((each, index) => !isFartherBound(each, found[index + 1]))) {
    const path = target === 'body' ? issue.path : issue.path.slice(0, 1)
    const isRepeated = target === 'query' && issue.code === 'invalid_type' && issue.message.endsWith('not an array')
    const worded =
      target === 'query' ? issue.message.replaceAll('is not a known field', 'is not a known parameter') : issue.message
    const messages = isRepeated ? ['must be sent only once'] : worded.split('\n')
    const keys: readonly PropertyKey[][] = issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [key]) : [[]]
    count += keys.length
    for (const [index, key] of keys.slice(0, MAX_ISSUES).entries()) {
      const one = { path: [...path, ...key].join('.'), message: messages[index] ?? '' }
      const id = JSON.stringify(one)
      if (issues.has(id)) count--
      issues.set(id, one)
    }
  }
  return invalid([...issues.values()], count)
}

export function validated<C extends Contract>(c: Context<AppEnv>): Input<C> {
  // The steps above have validated each part with the contract's own schema; Hono cannot express that here.
  const part = (target: string) => c.req.valid(target as never)
  return { params: part('param'), query: part('query'), body: part('json') } as Input<C>
}
