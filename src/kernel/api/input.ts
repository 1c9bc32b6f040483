import { hash } from 'node:crypto'
import type { Context } from 'hono'
import * as z from 'zod/mini'
import type { Lease } from '../http/body.ts'
import { BODY_LIMIT_BYTES, readJsonBytes } from '../http/body.ts'
import { ApiError, type Issue, invalid, MAX_ISSUES } from '../http/errors.ts'
import { describeSyntax, isFartherBound } from '../http/messages.ts'
import type { AppEnv } from './context.ts'
import { type Contract, type Input, takesKey } from './contract.ts'

/**
 * Makes the reader of a contract's requests, which validates the path, the query and the body in this order.
 *
 * `bodyHash` is the SHA-256 of the body of a request with an `Idempotency-Key`, else empty. The reader throws ApiError.
 */
export function inputReader<C extends Contract>(contract: C) {
  const { invalidParams, bodyLimitBytes = BODY_LIMIT_BYTES } = contract
  return async (c: Context<AppEnv>, lease: Lease) => {
    const params = contract.params && validate('param', contract.params, c.req.param(), invalidParams)
    const query = readQuery(c, contract.query)
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

const NO_PARAMETERS = z.strictObject({})

/** Reads the query: without a schema it must have no parameters. @throws ApiError 400 that names each issue */
export function readQuery(c: Context<AppEnv>, schema: z.ZodMiniType = NO_PARAMETERS): unknown {
  const sent = Object.entries(c.req.queries()).map(([name, values]) => [name, values.length === 1 ? values[0] : values])
  return validate('query', schema, Object.fromEntries(sent))
}

/** @throws ApiError 400 with every issue; 404 for a path, unless its contract says otherwise */
export function validate<S extends z.ZodMiniType>(
  target: 'param' | 'query' | 'body',
  schema: S,
  value: unknown,
  invalidParams?: Contract['invalidParams'],
): z.output<S> {
  const { success, data, error } = schema.safeParse(value)
  if (success) return data
  if (target !== 'param' || invalidParams) throw invalidInput(target, error.issues)
  const reasons = error.issues.map(({ path, message }) => `${path.join('.')} ${message}`)
  throw new ApiError('not_found', { message: `Resource not found: ${reasons.join('; ')}` })
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
    throw invalid([{ path: '', message: describeSyntax(error instanceof Error ? error.message : '', text) }])
  }
  return validate('body', schema, value)
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
