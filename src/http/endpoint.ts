import { zValidator } from '@hono/zod-validator'
import type { Context, Hono, MiddlewareHandler } from 'hono'
import * as z from 'zod/mini'
import { waitForLimit } from '../rate-limit/middleware.ts'
import { BODY_LIMIT_BYTES, readJsonBytes, readJsonText } from './body.ts'
import type { AppEnv, RequestContext } from '../context.ts'
import type { Answer, Contract, Input } from './contract.ts'
import { BUDGET_MS, withDeadline } from './deadline.ts'
import { ApiError, type Issue, invalid, MAX_ISSUES, notFound } from './errors.ts'
import { isolateMemory, type Lease } from './memory.ts'

const ANSWER = { headers: { 'Cache-Control': 'private, no-store' } }

/** Of a contract that names no query parameters. */
const NO_QUERY = z.strictObject({})

/** `lease` is for large bodies; one that a streamed response needs is released with the response. */
type Handler<C extends Contract> = (
  input: Input<C>,
  context: RequestContext,
  lease: Lease,
) => Promise<Answer<C> | Response>

/** What a write may read beside the rate check, before its body has come; `announcedBytes` is the body's length, as far as it is known. */
type ReadAhead<C extends Contract> = (
  params: Input<C>['params'],
  context: RequestContext,
  announcedBytes: number | undefined,
) => void

/** Mounts a contract: permission, then path, then the limit for what changes something, then body or query, then the handler, whose value is sent as JSON. */
export function mount<C extends Contract>(
  app: Hono<AppEnv>,
  contract: C,
  handle: Handler<C>,
  readAhead?: ReadAhead<C>,
): void {
  const steps: MiddlewareHandler<AppEnv>[] = [permit(contract), leaseMemory]
  if (contract.params) steps.push(validate('param', contract.params, contract.badParams ?? 'not_found'))
  if (readAhead) steps.push(begin(readAhead))
  if (contract.method !== 'GET' && !contract.changesNothing) steps.push(waitForLimit)
  steps.push(validate('query', contract.query ?? NO_QUERY))
  if (contract.body) steps.push(refuseCoding)
  const limitBytes = contract.bodyLimitBytes ?? BODY_LIMIT_BYTES
  if (contract.bodyAsBytes) steps.push(readBytes(limitBytes))
  else if (contract.body) steps.push(limitBody(limitBytes), validate('json', contract.body))

  app.on(contract.method, [honoPath(contract)], ...steps, async (c) => {
    const answer = await withDeadline(handle(validated<C>(c), c.get('context'), c.get('lease')), BUDGET_MS.handler)
    if (contract.hasEtag && answer instanceof Response) markCoding(answer.headers, c.req.header('accept-encoding'))
    // Hono's own `json()` sets one header after the other, each a call out of the isolate's own memory.
    return answer instanceof Response ? answer : Response.json(answer, ANSWER)
  })
}

/** `/clients/{id}` as Hono writes it. */
export function honoPath(contract: Contract): string {
  return contract.path.replaceAll(/\{(\w+)\}/g, ':$1')
}

function permit(contract: Contract): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    c.set('operation', contract.operationId)
    if (!c.get('context').token.permissions.has(contract.permission)) {
      throw new ApiError('forbidden', { message: `The token lacks the permission ${contract.permission}.` })
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

function begin<C extends Contract>(readAhead: ReadAhead<C>): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const announced = c.req.header('content-length')
    readAhead(validated<C>(c).params, c.get('context'), announced === undefined ? undefined : Number(announced))
    await next()
  }
}

/** RFC 9110, 15.5.16: a request in a coding that is not supported. */
const refuseCoding: MiddlewareHandler<AppEnv> = async (c, next) => {
  const codings = (c.req.header('content-encoding') ?? '').split(',').map((coding) => coding.trim().toLowerCase())
  if (codings.some((coding) => coding !== '' && coding !== 'identity')) {
    throw new ApiError('unsupported_media_type', {
      message: 'The body must not be compressed. Send it without Content-Encoding.',
      headers: { 'Accept-Encoding': 'identity' },
    })
  }
  await next()
}

/**
 * The runtime compresses on the way and keeps the ETag: where the caller takes a coding the tag is weak, since only the
 * uncompressed bytes are the same (RFC 9110, 8.8.3.3).
 */
function markCoding(headers: Headers, acceptEncoding = ''): void {
  headers.append('Vary', 'Accept-Encoding')
  const takesCoding = acceptEncoding.split(',').some((coding) => !/^\s*(identity\b|$)/i.test(coding))
  const etag = headers.get('ETag')
  if (takesCoding && etag?.startsWith('"')) headers.set('ETag', `W/${etag}`)
}

function limitBody(limitBytes: number): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    // Hono's json() reads this cache, so the body is read once and parsed once.
    Object.assign(c.req.bodyCache, { text: Promise.resolve(await readJsonText(c.req.raw, limitBytes, c.get('lease'))) })
    await next()
  }
}

function readBytes(limitBytes: number): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    c.req.addValidatedData('json', await readJsonBytes(c.req.raw, limitBytes, c.get('lease')))
    await next()
  }
}

function validate(
  target: 'param' | 'query' | 'json',
  schema: z.ZodMiniType,
  refusal: 'invalid_request' | 'not_found' = 'invalid_request',
): MiddlewareHandler<AppEnv> {
  return zValidator(target, schema, (result) => {
    if (result.success) return
    if (refusal === 'not_found') throw notFound()
    throw invalidInput(result.error.issues)
  })
}

/** Zod reports unknown keys as one issue on their parent; the caller wants each by its own name. */
function invalidInput(found: readonly z.core.$ZodIssue[]): ApiError {
  const issues: Issue[] = []
  let count = 0
  for (const issue of found) {
    const keys = issue.code === 'unrecognized_keys' ? issue.keys : null
    count += keys?.length ?? 1
    const { path } = issue
    if (!keys) issues.push({ path: path.join('.'), message: issue.message })
    for (const key of keys?.slice(0, MAX_ISSUES) ?? []) {
      issues.push({ path: [...path, key].join('.'), message: 'is not a known field' })
    }
  }
  return invalid(issues, count)
}

function validated<C extends Contract>(c: Context<AppEnv>): Input<C> {
  // The steps above have put each part there, parsed with the contract's own schema; Hono cannot express that here.
  const part = (target: string) => c.req.valid(target as never)
  return { params: part('param'), query: part('query'), body: part('json') } as Input<C>
}
