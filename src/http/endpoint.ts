import { zValidator } from '@hono/zod-validator'
import type { Context, Hono, MiddlewareHandler } from 'hono'
import * as z from 'zod/mini'
import type { AppEnv, RequestContext } from '../context.ts'
import { waitForLimit } from '../rate-limit/middleware.ts'
import { BODY_LIMIT_BYTES, readJsonBytes } from './body.ts'
import type { Contract, Input, ResponseBody } from './contract.ts'
import { BUDGET_MS, withDeadline } from './deadline.ts'
import { ApiError, type Issue, invalid, MAX_ISSUES, notFound } from './errors.ts'
import { isolateMemory, type Lease } from './memory.ts'

const JSON_RESPONSE = { headers: { 'Cache-Control': 'private, no-store' } }

/** Of a contract that names no query parameters. */
export const NO_QUERY = z.strictObject({})

/** Adds an endpoint to Hono. */
export type Route = (app: Hono<AppEnv>) => void

/** What a handler gets beside its input and the context. */
export interface Extras {
  /** For large bodies; a streamed response that needs it releases it. */
  lease: Lease
  /** Ends when the endpoint's `prefetch` has ended, where it began one. */
  prefetched: Promise<void> | undefined
}

type Handler<C extends Contract> = (
  input: Input<C>,
  context: RequestContext,
  extras: Extras,
) => Promise<ResponseBody<C> | Response>

/** What a write reads beside the rate check, before its body has arrived. `announcedBytes` is the `Content-Length`. */
type Prefetch<C extends Contract> = (
  params: Input<C>['params'],
  context: RequestContext,
  announcedBytes: number | undefined,
) => Promise<void> | undefined

/**
 * The route of a contract. Its steps: permission, path, rate limit (where it writes), query, body, handler; the handler's
 * value is sent as JSON.
 */
export function route<C extends Contract>(contract: C, handle: Handler<C>, prefetch?: Prefetch<C>): Route {
  return (app) => {
    const steps: MiddlewareHandler<AppEnv>[] = [permit(contract), leaseMemory]
    if (contract.params) steps.push(validate('param', contract.params, contract.invalidParams ?? 'not_found'))
    if (prefetch) steps.push(beginPrefetch(prefetch))
    if (contract.method !== 'GET' && !contract.isReadOnly) steps.push(waitForLimit)
    steps.push(validate('query', contract.query ?? NO_QUERY))
    if (contract.body) steps.push(refuseCoding, readBody(contract, contract.body))
    app.on(contract.method, [honoPath(contract)], ...steps, async (c) => {
      const extras = { lease: c.get('lease'), prefetched: c.get('prefetched') }
      const result = await withDeadline(handle(validated<C>(c), c.get('context'), extras), BUDGET_MS.handler)
      if (contract.hasEtag && result instanceof Response) weakenEtag(result.headers, c.req.header('accept-encoding'))
      // Hono's own `json()` sets one header after the other, each a call out of the isolate's own memory.
      return result instanceof Response ? result : Response.json(result, JSON_RESPONSE)
    })
  }
}

/** `/clients/{id}` as Hono writes it. */
export function honoPath(contract: Contract): string {
  return contract.path.replaceAll(/\{(\w+)\}/g, ':$1')
}

function permit(contract: Contract): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    c.set('operation', contract.operationId)
    if (!c.get('context').token.permissions.has(contract.permission)) {
      const message = `The token lacks the permission \`${contract.permission}\`: use one that has it`
      throw new ApiError('forbidden', { message })
    }
    await next()
  }
}

const leaseMemory: MiddlewareHandler<AppEnv> = async (c, next) => {
  const lease = isolateMemory.open()
  c.set('lease', lease)
  try {
    await next()
  } finally {
    const isSent = lease.isStreaming && c.req.method !== 'HEAD' && (await c.get('limit'))?.allowed !== false
    if (!isSent) {
      lease.release()
      // Nobody else ends a response that is thrown away.
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

/** RFC 9110, 15.5.16: a request in a coding that is not supported. */
const refuseCoding: MiddlewareHandler<AppEnv> = async (c, next) => {
  const codings = (c.req.header('content-encoding') ?? '').split(',').map((coding) => coding.trim().toLowerCase())
  if (codings.some((coding) => coding !== '' && coding !== 'identity')) {
    throw new ApiError('unsupported_media_type', {
      message: 'The body must not be compressed: send it without Content-Encoding',
      headers: { 'Accept-Encoding': 'identity' },
    })
  }
  await next()
}

/**
 * The runtime compresses on the way and keeps the ETag: where the caller accepts a coding the tag is weak, since only
 * the uncompressed bytes are the same (RFC 9110, 8.8.3.3).
 */
function weakenEtag(headers: Headers, acceptEncoding = ''): void {
  headers.append('Vary', 'Accept-Encoding')
  const acceptsCoding = acceptEncoding.split(',').some((coding) => !/^\s*(identity\b|$)/i.test(coding))
  const etag = headers.get('ETag')
  if (acceptsCoding && etag?.startsWith('"')) headers.set('ETag', `W/${etag}`)
}

function readBody(contract: Contract, schema: z.ZodMiniType): MiddlewareHandler<AppEnv> {
  const { bodyLimitBytes = BODY_LIMIT_BYTES, hasRawBody } = contract
  return async (c, next) => {
    const bytes = await readJsonBytes(c.req.raw, bodyLimitBytes, c.get('lease'))
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
    // The rest of the message may quote the body.
    const [place] = /line \d+ column \d+/.exec(error instanceof Error ? error.message : '') ?? []
    throw invalid([{ path: '', message: `is not valid JSON${place ? ` at ${place}` : ''}` }])
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
 * flat: what is wrong inside of a parameter is reported on it, once.
 */
function invalidInput(target: 'param' | 'query' | 'body', found: readonly z.core.$ZodIssue[]): ApiError {
  const issues = new Map<string, Issue>()
  let count = 0
  for (const issue of found) {
    const path = target === 'body' ? issue.path : issue.path.slice(0, 1)
    const isRepeated = target === 'query' && issue.code === 'invalid_type' && issue.message.endsWith('not an array')
    const messages = isRepeated ? ['must be sent only once'] : issue.message.split('\n')
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

function validated<C extends Contract>(c: Context<AppEnv>): Input<C> {
  // The steps above have put each part there, parsed with the contract's own schema; Hono cannot express that here.
  const part = (target: string) => c.req.valid(target as never)
  return { params: part('param'), query: part('query'), body: part('json') } as Input<C>
}
