import { ApiError, chooseDelayMs, isRecord, type RetriedCall, readApiError, readUploadError } from './errors.ts'
import { followBudget } from './rate-budget.ts'

export type Fetch = (url: string, init: RequestInit) => Promise<Response>
/** Rejects with the signal's reason as soon as it is aborted. */
export type Sleep = (delayMs: number, signal?: AbortSignal) => Promise<void>

export type FileData = Blob | Uint8Array
export type CallOptions = { signal?: AbortSignal | undefined }
export interface WriteOptions extends CallOptions {
  /**
   * 1 to 255 visible ASCII characters. Default: a random one for each call, the same in its retries. With your own, a
   * call that is repeated after a crash is carried out once, within 24 hours.
   */
  idempotencyKey?: string | undefined
}
/** A PUT takes no key. With a condition it is not sent again where it may have been carried out. */
export interface PutOptions extends CallOptions {
  /** The `version` that you have read, or an `etag`: another current version rejects with 412 `version_mismatch`. */
  ifMatch?: number | string | undefined
}
export type ChangeOptions = WriteOptions & PutOptions
type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'

export interface ClientOptions {
  /** An http or https URL, with or without `/api/v1`. */
  baseUrl: string
  token: string
  /** Default: the global `fetch`, read at each call. */
  fetch?: Fetch | undefined
  /** Attempts after the first one. Default 3. */
  maxRetries?: number | undefined
  /** Milliseconds of an attempt, beside those for what is sent and for a long poll. Default 30,000: few for 25 MiB threads. */
  timeoutMs?: number | undefined
  /** Delays requests that would exceed the rate limit, as far as this client knows. Default false. */
  pace?: boolean | undefined
  sleep?: Sleep | undefined
  /** Told of each failure that is followed by a retry, after `delayMs`. */
  onRetry?: ((error: ApiError, delayMs: number) => void) | undefined
}

export interface UploadOptions extends CallOptions {
  /** Bytes sent and total bytes: 0 at the start of each attempt, all once stored. fetch reports nothing between. */
  onProgress?: ((sentBytes: number, totalBytes: number) => void) | undefined
}

export interface RequestOptions extends ChangeOptions {
  /** A list is sent as one value with commas. */
  query?: object
  body?: unknown
  ifNoneMatch?: string | null | undefined
  /** Whether a POST changes nothing, and so needs no key. */
  isRead?: boolean
  /** Requests that it counts as. Default 1. */
  requestCount?: number
  /** The members that a successful response has, each an object or an array. */
  expects?: readonly string[]
  /** Added to the timeout. */
  waitMs?: number
  /** Outages of any length are waited for. */
  isEndless?: boolean
}

export type Read = <Body>(segments: readonly (string | number)[], options?: RequestOptions) => Promise<Body>

const MAX_RETRIES = 3

/** Timeouts allow for this throughput. */
const MIN_UPLOAD_BYTES_PER_MS = 100

/** The runtimes end a longer timer at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** Sends requests, retries them by `RETRY_RULES`, and passes the bookmark on to the next request. */
export function createTransport(clientOptions: ClientOptions) {
  const { baseUrl, token, maxRetries = MAX_RETRIES, timeoutMs = 30_000, pace = false } = clientOptions
  const root = toRoot(baseUrl)
  // Checked here because the runtimes quote an invalid header value, and so the token, in their own error.
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token))
    throw new TypeError('token must consist of visible ASCII characters')
  if (!(maxRetries >= 0)) throw new TypeError('maxRetries must be 0 or a greater number')
  if (!(timeoutMs > 0)) throw new TypeError('timeoutMs must be a number greater than 0')
  // Called as a free function: browsers refuse a fetch that is called as another object's method.
  const { fetch: sendRequest = (url: string, init: RequestInit) => fetch(url, init), sleep = sleepFor } = clientOptions
  const budget = followBudget()
  let bookmark: string | null = null
  const timeoutFor = (sizeBytes: number) => timeoutMs + Math.ceil(sizeBytes / MIN_UPLOAD_BYTES_PER_MS)

  /** Throws {@link ApiError}, or the signal's reason. The returned body is not validated; it is null for a 304. */
  async function send<Body>(method: Method, segments: readonly (string | number)[], options: RequestOptions = {}) {
    const { query = {}, body, signal, requestCount = 1, expects = [], waitMs = 0 } = options
    const url = root + toPath(segments) + toQueryString(query)
    const ownHeaders = toHeaders(method, options)
    const json = body === undefined ? null : JSON.stringify(body)
    const limitMs = timeoutFor(new Blob([json ?? '']).size) + waitMs
    const isUnrepeatable = method === 'PUT' && ('if-match' in ownHeaders || 'if-none-match' in ownHeaders)
    return retryByRules({ ...clientOptions, ...options, isUnrepeatable }, async () => {
      // All waiting requests resume at the same time, so each checks the budget again.
      while (pace && budget.waitMs(requestCount) > 0) await sleep(budget.waitMs(requestCount), signal)
      const sentBookmark = bookmark
      const headers = {
        accept: 'application/json',
        authorization: `Bearer ${token}`,
        ...(sentBookmark !== null && { 'x-bookmark': sentBookmark }),
        ...ownHeaders,
      }
      // fetch would follow a redirected write with a GET.
      const init = { method, headers, body: json, redirect: 'manual' as const }
      budget.begin(requestCount)
      const { response, text } = await exchange(url, init, limitMs, signal).catch((error) => {
        budget.end(requestCount, null)
        throw error
      })
      budget.end(requestCount, response.headers)
      // Among overlapping requests the greater bookmark is newer (D1's sort as text): the response of a slow read
      // must not replace the bookmark of a later write. Sequential requests replace it, after a restore too.
      const received = response.headers.get('x-bookmark')
      if (received !== null && (bookmark === sentBookmark || received > (bookmark ?? ''))) bookmark = received
      const isNotModified = response.status === 304 && 'if-none-match' in ownHeaders && method === 'GET'
      const parsed = isNotModified ? null : parseJson(text)
      const isExpected =
        isRecord(parsed) && expects.every((name) => isRecord(parsed[name]) || Array.isArray(parsed[name]))
      if (!isNotModified && !(response.ok && isExpected)) throw readApiError(response, parsed)
      return { isNotModified, etag: response.headers.get('etag'), body: parsed as Body }
    })
  }

  /** PUTs the bytes to a presigned URL. An `ApiError` of code `upload_failed` means that the storage rejected them. */
  async function upload(
    { uploadUrl, contentType }: { uploadUrl: string; contentType: string },
    data: FileData,
    { onProgress, signal }: UploadOptions = {},
  ): Promise<void> {
    const sizeBytes = sizeOf(data)
    const body = inParts(data)
    await retryByRules({ ...clientOptions, signal }, async () => {
      onProgress?.(0, sizeBytes)
      const init = { method: 'PUT', headers: { 'content-type': contentType }, body }
      const { response, text } = await exchange(uploadUrl, init, timeoutFor(sizeBytes), signal)
      if (!response.ok) throw readUploadError(response, text)
    })
    onProgress?.(sizeBytes, sizeBytes)
  }

  async function exchange(url: string, init: RequestInit, limitMs: number, signal: AbortSignal | undefined) {
    const timeout = AbortSignal.timeout(Math.min(Math.ceil(limitMs), LONGEST_TIMER_MS))
    const eitherSignal = signal ? AbortSignal.any([signal, timeout]) : timeout
    try {
      const response = await sendRequest(url, { ...init, signal: eitherSignal })
      return { response, text: await response.text() }
    } catch (cause) {
      const reason = timeout.aborted
        ? `no complete response within ${limitMs} ms`
        : `the connection to ${new URL(url).host} failed`
      throw new ApiError({ status: 0, code: 'network_error', message: `${init.method}: ${reason}`, cause })
    }
  }

  function follow(seen: string | null): void {
    if (seen !== null && seen > (bookmark ?? '')) bookmark = seen
  }

  return { send, upload, follow, readBudget: budget.read }
}

/** The service asks for a second before each attempt. */
const MAX_WAITS = 30

type Retries = Pick<ClientOptions, 'maxRetries' | 'sleep' | 'onRetry'> & CallOptions & RetriedCall

/** Repeats what fails with an {@link ApiError} by `RETRY_RULES`. */
export async function retryByRules<T>(options: Retries, attempt: () => Promise<T>): Promise<T> {
  const { maxRetries = MAX_RETRIES, sleep = sleepFor, onRetry, signal } = options
  for (let retries = 0, waits = 0; ; retries += 1) {
    signal?.throwIfAborted()
    try {
      return await attempt()
    } catch (error) {
      signal?.throwIfAborted()
      if (!(error instanceof ApiError)) throw error
      // A retry met its first attempt, which may run for 30 seconds.
      if (error.reason === 'idempotency_key_in_use' && retries > 0 && waits++ < MAX_WAITS) retries -= 1
      if (retries >= maxRetries && !options.isEndless) throw error
      const delayMs = chooseDelayMs(error, retries, Math.random(), options)
      if (delayMs === null) throw error
      onRetry?.(error, delayMs)
      await sleep(delayMs, signal)
    }
  }
}

export function sizeOf(data: FileData): number {
  return 'byteLength' in data ? data.byteLength : data.size
}

const PART_BYTES = 1_000_000

/** Node gives up on a chunk that takes 300 seconds to send, and each part of a blob is a chunk of its own. */
function inParts(data: FileData): Blob {
  // A slice of shared memory is a copy, which fetch accepts. A blob copies other bytes by itself.
  const whole = new Blob(['buffer' in data && data.buffer instanceof ArrayBuffer ? data : data.slice()] as Blob[])
  const parts = []
  for (let at = 0; at < whole.size; at += PART_BYTES) parts.push(whole.slice(at, at + PART_BYTES))
  return new Blob(parts)
}

/** The URL up to and with `/api/v1`. */
function toRoot(baseUrl: string): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : null
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username || url.password) {
    throw new TypeError('baseUrl must be an http or https URL without user, query and fragment')
  }
  const path = url.pathname.split('/').filter((segment) => segment !== '')
  if (path.slice(-2).join('/') !== 'api/v1') path.push('api', 'v1')
  return `${url.origin}/${path.join('/')}`
}

function toHeaders(method: Method, options: RequestOptions): Record<string, string> {
  const { body, idempotencyKey, ifMatch, ifNoneMatch, isRead = method === 'GET' } = options
  const takesKey = !isRead && method !== 'PUT'
  if (method === 'PUT' && idempotencyKey !== undefined) throw new TypeError('idempotencyKey cannot be sent with a PUT')
  const key = takesKey ? (idempotencyKey ?? randomKey()) : undefined
  if (key !== undefined && !/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new TypeError('idempotencyKey must be 1 to 255 visible ASCII characters')
  }
  return {
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(key !== undefined && { 'idempotency-key': key }),
    ...(ifMatch !== undefined && { 'if-match': toEntityTag(ifMatch) }),
    ...(ifNoneMatch && { 'if-none-match': ifNoneMatch }),
  }
}

export function toEntityTag(version: number | string): string {
  const tag = typeof version === 'number' ? `"${version}"` : version
  // Servers drop an empty header: the change would be unconditional.
  if (Number.isNaN(version) || !/^[\x20-\x7e]+$/.test(tag)) {
    throw new TypeError('ifMatch must be a version, or an etag of ASCII characters')
  }
  return tag
}

/** 128 random bits in hex. `crypto.randomUUID` is missing in pages that were not loaded over https. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Throws a TypeError for a segment that a URL cannot contain, encoded or not: empty, `.`, `..`, half a character. */
function toPath(segments: readonly (string | number)[]): string {
  const invalid = segments.find((segment) => /^\.{0,2}$|\p{Cs}/u.test(String(segment)))
  if (invalid !== undefined) throw new TypeError(`"${invalid}" cannot be a path segment`)
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join('')
}

export function toQueryString(query: object): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) params.set(name, String(value))
  return params.size > 0 ? `?${params}` : ''
}

/** Undefined for what is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function sleepFor(delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const finish = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', finish)
      if (signal?.aborted) reject(signal.reason)
      else resolve()
    }
    const timer = setTimeout(finish, Math.min(delayMs, LONGEST_TIMER_MS))
    signal?.addEventListener('abort', finish)
  })
}
