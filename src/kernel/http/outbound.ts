import { Buffer } from 'node:buffer'
import { DeadlineError, withDeadline } from './deadline.ts'

/**
 * `cut`: the body ended early. `charset`: an unknown charset, or bytes that are invalid in it. `address` and
 * `resolver`: no call was made, since the address is forbidden or the resolver did not respond.
 */
export type OutboundFailure = 'timeout' | 'network' | 'too_large' | 'cut' | 'charset' | 'address' | 'resolver'

/** A failed call to an outside system. It carries no address, text or cause of that system. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  readonly failure: OutboundFailure
  /** For `address`: the problem, to follow the field's name in a sentence. */
  readonly problem: string | null

  constructor(failure: OutboundFailure, problem: string | null = null) {
    super(`The call to an outside system failed: ${failure}`)
    this.failure = failure
    this.problem = problem
  }
}

export interface OutboundRequest {
  url: string
  method: 'GET' | 'HEAD' | 'POST' | 'DELETE'
  headers: Headers | Record<string, string>
  body?: string
}

export interface OutboundResponse {
  status: number
  headers: Headers
  /** Reads the body, once. @throws OutboundError over `maxBytes` bytes after decompression */
  readText: (maxBytes: number) => Promise<string>
}

/** Reads what a call needs of its response. */
export type Read<T> = (response: OutboundResponse) => Promise<T>

/**
 * Makes one uncached call to an outside system; the deadline covers `read` and so the body. Redirects are not followed,
 * since they would carry credentials to another host; responses are not cached, since they belong to one company.
 *
 * @throws OutboundError, or an error of `read`
 */
export async function callOutside<T>(request: OutboundRequest, timeoutMs: number, read: Read<T>): Promise<T> {
  // AbortSignal.timeout would outlive the call and keep a Durable Object in memory.
  const call = new AbortController()
  try {
    return await withDeadline(send(request, call.signal, read), timeoutMs)
  } catch (error) {
    throw error instanceof DeadlineError ? new OutboundError('timeout') : error
  } finally {
    call.abort()
  }
}

async function send<T>({ url, ...init }: OutboundRequest, signal: AbortSignal, read: Read<T>): Promise<T> {
  const response = await fetch(url, { ...init, redirect: 'manual', cache: 'no-store', signal }).catch(() => {
    throw new OutboundError('network')
  })
  const reader = response.body?.getReader()
  // An aborted signal may not end a stalled body, but canceling its reader does.
  const cancel = () => void reader?.cancel().catch(() => {})
  if (signal.aborted) cancel()
  else signal.addEventListener('abort', cancel)
  const { status, headers } = response
  return read({ status, headers, readText: (maxBytes) => readText(reader, headers.get('content-type'), maxBytes) })
}

type Reader = ReadableStreamDefaultReader<Uint8Array> | undefined

async function readText(reader: Reader, contentType: string | null, maxBytes: number): Promise<string> {
  if (!reader) return ''
  const chunks: Uint8Array[] = []
  for (let sizeBytes = 0; ; ) {
    const { done, value } = await reader.read().catch(() => {
      throw new OutboundError('cut')
    })
    if (done) return decode(Buffer.concat(chunks), contentType)
    sizeBytes += value.byteLength
    if (sizeBytes > maxBytes) throw new OutboundError('too_large')
    chunks.push(value)
  }
}

function decode(bytes: Uint8Array, contentType: string | null): string {
  try {
    return new TextDecoder(charsetOf(bytes, contentType), { fatal: true, ignoreBOM: false }).decode(bytes)
  } catch {
    throw new OutboundError('charset')
  }
}

/** Byte order marks in hex, and the start of an XML declaration in UTF-16 without one (XML 1.0, appendix F). */
const MARKS = { efbbbf: 'utf-8', fffe: 'utf-16le', feff: 'utf-16be' }
const UTF_16_DECLARATIONS = { '3c003f00': 'utf-16le', '003c003f': 'utf-16be' }

/** Determines a body's charset: byte order mark, else `Content-Type`, else XML declaration, else UTF-8. */
export function charsetOf(body: Uint8Array, contentType: string | null): string {
  const start = Buffer.from(body.subarray(0, 256))
  const declaration = /^<\?xml\s[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']/.exec(start.toString('latin1'))
  return (
    findMark(MARKS, start) ??
    /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType ?? '')?.[1] ??
    findMark(UTF_16_DECLARATIONS, start) ??
    declaration?.[1] ??
    'utf-8'
  )
}

function findMark(marks: Record<string, string>, start: Buffer): string | undefined {
  const hex = start.toString('hex')
  return Object.entries(marks).find(([mark]) => hex.startsWith(mark))?.[1]
}
