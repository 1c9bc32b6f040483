import { isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import { zValidator } from '@hono/zod-validator'
import type { Context, MiddlewareHandler } from 'hono'
import * as z from 'zod/mini'
import { ApiError, type Issue, invalid, MAX_ISSUES, tooLarge } from '../http/errors.ts'
import { bodyBudgetMs, type Lease, releaseBytes, SMALL_BODY_BYTES, withDeadline } from '../http/isolate.ts'
import { describeSyntax } from '../http/messages.ts'
import type { AppEnv } from './context.ts'
import { BODY_LIMIT_BYTES, type Contract, type Input, takesKey } from './contract.ts'

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
      if (!contract.hasRawBody) await leaseValues(bytes, lease)
      body = contract.hasRawBody ? bytes : parseBody(bytes, contract.body, bodyLimitBytes)
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

/** Tiny values such as `[]` take many times their text, and a request holds them while it waits for the database. */
const VALUE_BYTES = 32
const FEW_VALUES = 2_000

async function leaseValues(bytes: Uint8Array, lease: Lease): Promise<void> {
  let values = 0
  for (const byte of bytes) if (byte === 0x2c || byte === 0x5b || byte === 0x7b) values++
  if (values > FEW_VALUES) await lease.resize(lease.bytes + values * VALUE_BYTES)
}

/** The lists of an import have no limit. A longer body reports one issue only, since millions would fill the memory. */
const ALL_ISSUES_BYTES = 65_536

function parseBody(bytes: Uint8Array, schema: z.ZodMiniType, limitBytes: number): unknown {
  if (bytes.length === 0) throw invalid([{ path: '', message: 'is required' }])
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw invalid([{ path: '', message: describeSyntax(error instanceof Error ? error.message : '') }])
  }
  const abortEarly = limitBytes > BODY_LIMIT_BYTES && bytes.length > ALL_ISSUES_BYTES
  const options: z.core.ParseContextInternal<z.core.$ZodIssue> = { abortEarly }
  const result = schema.safeParse(value, options)
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

const JSON_MEDIA_TYPE = /^\s*application\/json\s*(;|$)/i

/** The size of one read. Plain iteration over a body reads 4 KiB at a time and takes four times as long. */
const READ_BYTES = 1_048_576

/** Buffers grow from this size with the received bytes, so a large `Content-Length` alone allocates nothing. */
const FIRST_READ_BYTES = 65_536

/** One read may wait this long: less than the time after which a lease counts as lost. */
const SILENT_MS = 30_000

const DISCARDED_BYTES = 67_108_864
const DISCARDED_MS = 5_000

/**
 * Reads a JSON body as UTF-8 without a byte order mark. The limit is of received bytes: nothing over it is buffered.
 *
 * @throws ApiError 415 for another media type, 413 over the limit, 400 for bytes that are not UTF-8 or arrive too
 *   slowly, 503 when there is no memory for a large body
 */
export async function readJsonBytes(request: Request, limitBytes: number, lease: Lease) {
  if (!JSON_MEDIA_TYPE.test(request.headers.get('content-type') ?? '')) throw new ApiError('unsupported_media_type')
  const announced = Number(request.headers.get('content-length') ?? 0)
  if (announced > limitBytes) {
    if (request.body && announced <= DISCARDED_BYTES) await discard(request.body.getReader({ mode: 'byob' }))
    throw tooLarge(limitBytes)
  }
  const bytes = await readBytes(request, announced, limitBytes, lease)
  if (!isUtf8(bytes)) throw invalid([{ path: '', message: 'is not UTF-8' }])
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  return hasMark ? bytes.subarray(3) : bytes
}

async function readBytes(request: Request, announced: number, limitBytes: number, lease: Lease) {
  if (!request.body) return new Uint8Array()
  if (announced > 0 && announced <= SMALL_BODY_BYTES) {
    // This is faster than reading chunks. The runtime enforces the announced length.
    return new Uint8Array(await withDeadline(request.arrayBuffer(), bodyBudgetMs(announced)).catch(giveUp))
  }
  const { chunks, length } = await readChunks(request.body, limitBytes, lease)
  if (length <= SMALL_BODY_BYTES) return joinChunks(chunks, length)
  // Room for the joined copy, and as much again for the handler's result.
  await lease.resize(2 * length)
  const whole = joinChunks(chunks, length)
  lease.own(whole)
  return whole
}

async function readChunks(body: ReadableStream<Uint8Array>, limitBytes: number, lease: Lease) {
  const reader = body.getReader({ mode: 'byob' })
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let startedAt = Date.now()
  let buffer = new ArrayBuffer(FIRST_READ_BYTES)
  let filled = 0
  let length = 0
  const refuse = async (error: unknown) => {
    for (const chunk of [...chunks, new Uint8Array(buffer)]) releaseBytes(chunk)
    lease.release()
    await discard(reader)
    throw error
  }
  for (;;) {
    const read = reader.read(new Uint8Array(buffer, filled))
    const leftMs = Math.min(SILENT_MS, startedAt + bodyBudgetMs(length) - Date.now())
    const { value, done } = await withDeadline(read, leftMs).catch(giveUp)
    if (!value) break
    // A read detaches the buffer and returns it.
    buffer = value.buffer
    filled += value.byteLength
    length += value.byteLength
    if (length > limitBytes) await refuse(tooLarge(limitBytes))
    if (done) break
    const isFull = filled === buffer.byteLength
    if (isFull || lease.bytes > 0) {
      const waitedFrom = Date.now()
      // With the next buffer: whoever waits holds the first only. Other reads show that the lease is used.
      await lease.resize(isFull ? length + Math.min(READ_BYTES, length) : lease.bytes).catch(refuse)
      // The sender's deadline excludes the wait for memory.
      startedAt += Date.now() - waitedFrom
    }
    if (isFull) {
      chunks.push(new Uint8Array(buffer))
      buffer = new ArrayBuffer(Math.min(READ_BYTES, length))
      filled = 0
    }
  }
  return { chunks: [...chunks, new Uint8Array(buffer, 0, filled)], length }
}

function joinChunks(chunks: readonly Uint8Array<ArrayBuffer>[], length: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
    releaseBytes(chunk)
  }
  return whole
}

/** Reads the rest, within bounds: a caller still sending when the response arrives may else see a closed connection. */
async function discard(reader: ReadableStreamBYOBReader): Promise<void> {
  const end = Date.now() + DISCARDED_MS
  let buffer = new ArrayBuffer(FIRST_READ_BYTES)
  try {
    for (let left = DISCARDED_BYTES; left > 0; ) {
      const { value, done } = await withDeadline(reader.read(new Uint8Array(buffer)), end - Date.now())
      if (!value || done) return
      buffer = value.buffer
      left -= value.byteLength
    }
    await reader.cancel()
  } catch {
    // The refusal is the response, even if reading the rest failed.
  }
}

/** The body stalled, or its connection is gone. */
function giveUp(): never {
  throw new ApiError('request_timeout')
}
