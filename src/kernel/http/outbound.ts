import { Buffer } from 'node:buffer'
import ipaddr from 'ipaddr.js'
import * as z from 'zod/mini'
import {
  DeadlineError,
  isolateMemory,
  type Lease,
  LruCache,
  noMemory,
  SMALL_BODY_BYTES,
  withDeadline,
} from './isolate.ts'

/**
 * `cut`: the body ended early. `charset`: an unknown charset, or bytes that are invalid in it. `address` and
 * `resolver`: no call was made, since the address is forbidden or the resolver did not respond.
 */
const REASONS = {
  timeout: 'no response in time',
  network: 'no connection',
  too_large: 'the response is too large',
  cut: 'the response ended early',
  charset: 'the response cannot be read',
  address: 'the address is not allowed',
  resolver: 'the resolver does not respond',
}
export type OutboundFailure = keyof typeof REASONS

/** A failed call to an outside system. Its message says why, without an address, a text or a cause of that system. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  readonly failure: OutboundFailure

  constructor(failure: OutboundFailure, reason: string = REASONS[failure]) {
    super(reason)
    this.failure = failure
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

export type Read<T> = (response: OutboundResponse) => Promise<T>

/**
 * Makes one uncached call to an outside system; the deadline covers `read` and so the body. Redirects are not followed,
 * since they would carry credentials to another host; responses are not cached, since they belong to one company. The
 * memory of a large body is leased until `read` ends.
 *
 * @throws OutboundError, an error of `read`, or ApiError 503 when there is no memory for a large body
 */
export async function callOutside<T>(request: OutboundRequest, timeoutMs: number, read: Read<T>): Promise<T> {
  // AbortSignal.timeout would outlive the call and keep a Durable Object in memory.
  const call = new AbortController()
  const lease = isolateMemory.open()
  try {
    return await withDeadline(send(request, call.signal, lease, read), timeoutMs)
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
    throw lease.isWaiting ? noMemory() : new OutboundError('timeout')
  } finally {
    call.abort()
    lease.release()
  }
}

async function send<T>({ url, ...init }: OutboundRequest, signal: AbortSignal, lease: Lease, read: Read<T>) {
  const response = await fetch(url, { ...init, redirect: 'manual', cache: 'no-store', signal }).catch(() => {
    throw new OutboundError('network')
  })
  const reader = response.body?.getReader({ mode: 'byob' }) as Reader
  // An aborted signal may not end a stalled body, but canceling its reader does.
  const cancel = () => void reader?.cancel().catch(() => {})
  if (signal.aborted) cancel()
  else signal.addEventListener('abort', cancel)
  const { status, headers } = response
  return read({ status, headers, readText: (maxBytes) => readText(reader, headers, maxBytes, lease) })
}

/** A large body that is silent for this long is given up, since others may wait for its memory. */
const SILENT_MS = 2_000

/** A chunk is read full: otherwise a single byte may arrive in, and hold, a buffer of 4 KiB. */
const READ_BYTES = 20_000

type Chunk = { done: boolean; value?: Uint8Array }
/** A standard reader: the types of Workers lack its option. */
type Reader = undefined | { read(view: Uint8Array, options: { min: number }): Promise<Chunk>; cancel(): Promise<void> }

async function readText(reader: Reader, headers: Headers, maxBytes: number, lease: Lease): Promise<string> {
  if (!reader) return ''
  const chunks: Uint8Array[] = []
  for (let sizeBytes = 0; ; ) {
    const read = reader.read(new Uint8Array(READ_BYTES), { min: READ_BYTES }).catch(() => {
      throw new OutboundError('cut')
    })
    const { done, value } = await (lease.bytes > 0 ? withDeadline(read, SILENT_MS) : read)
    if (value) chunks.push(value)
    sizeBytes += value?.byteLength ?? 0
    if (sizeBytes > maxBytes) throw new OutboundError('too_large')
    // Room for the chunks; at the end also for their joined copy, and the text of up to two bytes a character.
    if (sizeBytes > SMALL_BODY_BYTES) await lease.resize(done ? 4 * sizeBytes : sizeBytes)
    if (done) return decode(Buffer.concat(chunks), headers.get('content-type'))
  }
}

function decode(bytes: Uint8Array, contentType: string | null): string {
  try {
    return new TextDecoder(charsetOf(bytes, contentType), { fatal: true, ignoreBOM: false }).decode(bytes)
  } catch {
    throw new OutboundError('charset')
  }
}

export function charsetOf(body: Uint8Array, contentType: string | null): string {
  const start = Buffer.from(body.subarray(0, 256)).toString('latin1')
  const [, declared] = /^<\?xml\s[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']/.exec(start) ?? []
  return /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType ?? '')?.[1] ?? declared ?? 'utf-8'
}

/** The JSON API of a DNS over HTTPS resolver. */
const DEFAULT_RESOLVER = 'https://cloudflare-dns.com/dns-query'
const RESOLVER_TIMEOUT_MS = 5_000
const MAX_ANSWER_BYTES = 65_536
export const MAX_URL_LENGTH = 2_048
/** Look-ups are cached this long, so that the calls of one batch share them. */
const FRESH_MS = 5_000

export type AddressPolicy = ReturnType<typeof addressPolicy>

/** `http` and `https` to a loopback address are accepted in development only. */
export function addressPolicy(settings: { WEBHOOK_RESOLVER?: string; WEBHOOK_LOOPBACK?: string }) {
  return { resolver: settings.WEBHOOK_RESOLVER, allowsLoopback: settings.WEBHOOK_LOOPBACK === 'development' }
}

/** The metadata and DNS address of a cloud, although in a public range. */
const CLOUD = '168.63.129.16'
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3')

/**
 * Whether an address is public: IPv4 in decimal notation, or IPv6 of global unicast (2000::/3) outside of IANA's
 * special-purpose networks, which include every form that embeds an IPv4 address.
 */
export function isPublicAddress(address: string): boolean {
  if (!isAddress(address)) return false
  const parsed = ipaddr.parse(address)
  const isGlobal = parsed instanceof ipaddr.IPv4 ? address !== CLOUD : parsed.match(GLOBAL_UNICAST)
  return isGlobal && parsed.range() === 'unicast'
}

/** Refuses the shorter and octal notations of IPv4. */
const isAddress = (text: string) => ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text)

/** Names below `localhost` too: nobody can register one (RFC 6761, section 6.3). @param hostname as normalized by `URL` */
export function isLoopback(hostname: string): boolean {
  return /^(([^.]+\.)*localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])$/.test(hostname)
}

/** The address in a normalized hostname, without brackets; null for a name. */
function literalOf(hostname: string): string | null {
  if (hostname.startsWith('[')) return hostname.slice(1, -1)
  return /^[\d.]+$/.test(hostname) ? hostname : null
}

/** Checks an address without a DNS look-up. @returns the problem, to follow the field's name in a sentence */
export function findFormProblem(address: string, allowsLoopback: boolean): string | null {
  const url = URL.parse(address)
  if (!url || address.length > MAX_URL_LENGTH) return `must be a URL of at most ${MAX_URL_LENGTH} characters`
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password'
  if (address.includes('#')) return 'must not contain a fragment'
  // `URL` has normalized numbers and other notations of an IPv4 address to decimal.
  const { hostname, port, protocol } = url
  if (allowsLoopback && isLoopback(hostname) && /^https?:$/.test(protocol)) return null
  if (protocol !== 'https:') return 'must be an https address'
  if (port !== '' && Number(port) < 1_024) return 'must have the port 443, or one above 1023'
  const literal = literalOf(hostname)
  const isPrivate = isLoopback(hostname) || (literal !== null && !isPublicAddress(literal))
  return isPrivate ? NOT_PUBLIC : null
}

const NOT_PUBLIC = 'must resolve to public addresses only'

/** As {@link findFormProblem}, and by the current DNS records of its host. @throws OutboundError `resolver` if it fails */
export async function findProblem(address: string, policy: AddressPolicy): Promise<string | null> {
  const { resolver = DEFAULT_RESOLVER, allowsLoopback } = policy
  const problem = findFormProblem(address, allowsLoopback)
  if (problem !== null) return problem
  const { hostname } = new URL(address)
  if (literalOf(hostname) !== null || (allowsLoopback && isLoopback(hostname))) return null
  const addresses = await resolve(hostname, resolver)
  if (addresses.length === 0) return 'has a host that does not resolve to an address'
  return addresses.every(isPublicAddress) ? null : NOT_PUBLIC
}

/**
 * Calls a host chosen by a company after a fresh check: stored addresses may be older than the rules, and a name may
 * resolve elsewhere by now.
 *
 * @param timeout milliseconds, which include the look-up unless they are `afterLookupMs`
 * @throws OutboundError `address` for a forbidden one, and the errors of {@link findProblem} and {@link callOutside}
 */
export async function callChecked<T>(
  policy: AddressPolicy,
  request: OutboundRequest,
  timeout: number | { afterLookupMs: number },
  read: Read<T>,
) {
  const startMs = Date.now()
  // Only the origin is checked: path and query are ours, and may exceed the limit of a configured address.
  const problem = await findProblem(URL.parse(request.url)?.origin ?? '', policy)
  if (problem !== null) throw new OutboundError('address', `the address ${problem}`)
  const timeoutMs = typeof timeout === 'number' ? timeout - (Date.now() - startMs) : timeout.afterLookupMs
  return callOutside(request, timeoutMs, read)
}

const resolved = new LruCache<string, string[]>({ maxWeight: 1_000, ttlMs: FRESH_MS })

async function resolve(host: string, resolver: string): Promise<string[]> {
  const key = `${resolver} ${host}`
  const known = resolved.get(key)
  if (known) return known
  const answers = await Promise.allSettled([queryResolver(resolver, host, 'A'), queryResolver(resolver, host, 'AAAA')])
  const addresses = answers.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
  const failed = answers.find((result) => result.status === 'rejected')
  // One kind of record may be enough to reach the host; the query is repeated at the next use.
  if (failed && addresses.length === 0) throw failed.reason
  if (!failed) resolved.set(key, addresses)
  return addresses
}

/** There is no `Answer` for an unknown name, nor if the name servers of the host fail (SERVFAIL). */
const answer = z.object({
  Status: z.number(),
  Answer: z.optional(z.array(z.object({ type: z.number(), data: z.string() }))),
})
/** A and AAAA; other records, such as CNAME, lead to them. */
const ADDRESS_TYPES = [1, 28]

async function queryResolver(resolver: string, name: string, type: 'A' | 'AAAA'): Promise<string[]> {
  const url = new URL(resolver)
  url.searchParams.set('name', name)
  url.searchParams.set('type', type)
  const request = { url: url.href, method: 'GET', headers: { accept: 'application/dns-json' } } as const
  const read = async ({ status, readText }: OutboundResponse) => {
    if (status === 400) return []
    if (status !== 200) throw new OutboundError('resolver')
    return answer.parse(JSON.parse(await readText(MAX_ANSWER_BYTES))).Answer ?? []
  }
  const records = await callOutside(request, RESOLVER_TIMEOUT_MS, read).catch(() => {
    throw new OutboundError('resolver')
  })
  return records.filter((record) => ADDRESS_TYPES.includes(record.type)).map((record) => record.data)
}

/**
 * The network that one caller may control: an IPv4 address (IPv4-mapped too), or the /48 of an IPv6 address, which one site
 * may have (RFC 6177). Other text is returned truncated.
 */
export function networkOf(address: string): string {
  const [text = ''] = address.slice(0, 64).toLowerCase().replace('[', '').split(/[%\]]/)
  if (!isAddress(text)) return text
  const parsed = ipaddr.process(text)
  if (parsed instanceof ipaddr.IPv4) return parsed.toString()
  const site = parsed.parts.slice(0, 3).map((group) => group.toString(16))
  return `${site.join(':')}::/48`
}
