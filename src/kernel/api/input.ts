import { hash } from 'node:crypto'
import type { Context } from 'hono'
import * as z from 'zod/mini'
import { BODY_LIMIT_BYTES, readJsonBytes } from '../http/body.ts'
import { ApiError, type Issue, invalid, MAX_ISSUES, notFound } from '../http/errors.ts'
import type { Lease } from '../http/memory.ts'
import { describeSyntax, isFartherBound } from '../http/messages.ts'
import type { AppEnv } from './context.ts'
import type { Contract, Input } from './contract.ts'

/**
 * Reads and validates the path, the query and the body of a request, in this order.
 *
 * @param afterPath is called before the query is read, and the body has arrived
 * @returns `bodyHash`: SHA-256 of the body of a request with an `Idempotency-Key`, else empty
 * @throws ApiError
 */
export async function readInput<C extends Contract>(
  c: Context<AppEnv>,
  contract: C,
  lease: Lease,
  afterPath?: (params: Input<C>['params']) => void,
): Promise<{ input: Input<C>; bodyHash: string }> {
  const params = readParams(c, contract) as Input<C>['params']
  afterPath?.(params)
  const query = readQuery(c, contract.query)
  let [body, bodyHash]: [unknown, string] = [undefined, '']
  if (contract.body) {
    refuseCoding(c.req.header('content-encoding'))
    const bytes = await readJsonBytes(c.req.raw, contract.bodyLimitBytes ?? BODY_LIMIT_BYTES, lease)
    if (c.req.header('idempotency-key') !== undefined) bodyHash = hash('sha256', bytes)
    body = contract.hasRawBody ? bytes : parseBody(bytes, contract.body)
  }
  // Each part was validated with the contract's own schema, of which the compiler does not know.
  return { input: { params, query, body } as Input<C>, bodyHash }
}

function readParams(c: Context<AppEnv>, { params, invalidParams }: Contract): unknown {
  const result = params?.safeParse(c.req.param())
  if (result?.success !== false) return result?.data
  throw invalidParams ? invalidInput('param', result.error.issues) : notFound()
}

const NO_QUERY = z.strictObject({})

/** Validates the query: a parameter that is sent several times has an array. @throws ApiError 400, for any without a schema */
export function readQuery(c: Context<AppEnv>, schema: z.ZodMiniType = NO_QUERY): unknown {
  const sent = Object.entries(c.req.queries()).map(([name, [first, ...more]]) => {
    return [name, more.length > 0 ? [first, ...more] : first] as const
  })
  const result = schema.safeParse(Object.fromEntries(sent))
  if (result.success) return result.data
  throw invalidInput('query', result.error.issues)
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
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
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
