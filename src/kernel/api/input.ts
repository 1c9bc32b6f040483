import { hash } from 'node:crypto'
import { zValidator } from '@hono/zod-validator'
import type { Context, MiddlewareHandler } from 'hono'
import * as z from 'zod/mini'
import { BODY_LIMIT_BYTES, readJsonBytes } from '../http/body.ts'
import type { Lease } from '../http/bounds.ts'
import { ApiError, type Issue, invalid, MAX_ISSUES } from '../http/errors.ts'
import { describeSyntax } from '../http/messages.ts'
import type { AppEnv } from './context.ts'
import { type Contract, type Input, takesKey } from './contract.ts'

/** `bodyHash` is the SHA-256 of a body with an `Idempotency-Key`, else empty. The reader throws ApiErrors. */
export function inputReader<C extends Contract>(contract: C) {
  const { invalidParams, bodyLimitBytes = BODY_LIMIT_BYTES } = contract
  const readParams = contract.params && partReader('param', contract.params, invalidParams)
  const readQuery = contract.query ? partReader('query', contract.query) : refuseQuery
  return async (c: Context<AppEnv>, lease: Lease) => {
    const params = (await readParams?.(c)) as Input<C>['params']
    const query = await readQuery(c)
    let [body, bodyHash]: [unknown, string] = [undefined, '']
    if (contract.body) {
      refuseCoding(c.req.header('content-encoding'))
      const bytes = await readJsonBytes(c.req.raw, bodyLimitBytes, lease)
      if (c.req.header('content-length') === undefined) c.get('usage')?.addBody(bytes.length)
      if (takesKey(contract) && c.req.header('idempotency-key') !== undefined) bodyHash = hash('sha256', bytes)
      body = contract.hasRawBody ? bytes : parseBody(bytes, contract.body)
    }
    // Each part was validated with the contract's own schema, of which the compiler does not know.
    return { input: { params, query, body } as Input<C>, bodyHash }
  }
}

/** A query without parameters. @throws ApiError 400 that names each that is sent */
export const refuseQuery = partReader('query', z.strictObject({}))

/** Hono's own validator, called without a middleware of its own: each would cost every request a step. */
function partReader(target: 'param' | 'query', schema: z.ZodMiniType, refusal?: Contract['invalidParams']) {
  const validate: MiddlewareHandler<AppEnv> = zValidator(target, schema, (result) => {
    if (result.success) return
    throw target === 'param' ? invalidPath(refusal, result.error.issues) : invalidInput(target, result.error.issues)
  })
  return async (c: Context<AppEnv>): Promise<unknown> => {
    // Hono leaves what is not UTF-8 as it was sent, which would become part of an id. In a query it is U+FFFD.
    if (target === 'param') decodePath(c.req.path, refusal)
    else {
      const query = c.req.url.replaceAll(/^[^?]*\??|%(?![0-9a-f]{2})/gi, '')
      for (const pair of query.split('&')) {
        decodePath(pair, 'invalid_request', pair.split('=')[0])
        // Hono leaves out a parameter without a name.
        if (pair.startsWith('=')) throw invalid([{ path: 'query', message: 'must have a name before each =' }])
      }
    }
    await validate(c, async () => undefined)
    return c.req.valid(target as never)
  }
}

/** @throws ApiError 400 or 404, as for other invalid parameters, for anything but percent-encoded UTF-8 */
export function decodePath(path: string, refusal: Contract['invalidParams'], name = 'path'): string {
  try {
    return decodeURIComponent(path)
  } catch {
    throw invalidPath(refusal, [
      { code: 'custom', path: [name], message: 'must be percent-encoded UTF-8', input: path },
    ])
  }
}

export function invalidPath(refusal: Contract['invalidParams'], issues: readonly z.core.$ZodIssue[]): ApiError {
  if (refusal === 'invalid_request') return invalidInput('param', issues)
  const reasons = issues.map(({ path, message }) => `${path.join('.')} ${message}`)
  return new ApiError('not_found', { message: `Resource not found: ${reasons.join('; ')}` })
}

/** RFC 9110, 15.5.16: refuses a request in an unsupported coding. */
function refuseCoding(codings = ''): void {
  if (codings.split(',').every((coding) => ['', 'identity'].includes(coding.trim().toLowerCase()))) return
  throw new ApiError('unsupported_media_type', {
    message: 'The body must not be compressed: send it without Content-Encoding',
    headers: { 'Accept-Encoding': 'identity' },
  })
}

function parseBody(bytes: Uint8Array, schema: z.ZodMiniType): unknown {
  if (bytes.length === 0) throw invalid([{ path: '', message: 'is required' }])
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw invalid([{ path: '', message: describeSyntax(error instanceof Error ? error.message : '') }])
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw invalidInput('body', result.error.issues)
}

/**
 * Zod reports unknown keys as one issue on their parent; the caller wants each by its own name. Paths and queries are
 * flat, so an issue within a parameter is reported once, on the parameter.
 */
export function invalidInput(target: 'param' | 'query' | 'body', found: readonly z.core.$ZodIssue[]): ApiError {
  const issues = new Map<string, Issue>()
  let count = 0
  for (const issue of found) {
    const path = target === 'body' ? issue.path : issue.path.slice(0, 1)
    const isRepeated = target === 'query' && issue.message.endsWith('not an array')
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
