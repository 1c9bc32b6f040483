import { ApiError, isRecord, readApiError, readUploadError } from './errors.ts'

export type Fetch = (url: string, init: RequestInit) => Promise<Response>
/** Rejects with the signal's reason as soon as it is aborted. */
export type Sleep = (delayMs: number, signal?: AbortSignal) => Promise<void>

export type FileData = Blob | Uint8Array
export type CallOptions = { signal?: AbortSignal | undefined }
type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'

export interface ClientOptions {
  /** The URL up to `/api/v1`. */
  baseUrl: string
  token: string
  /** Default: the global `fetch`, read at each call. */
  fetch?: Fetch
  /** Attempts after the first one. Default 3. */
  maxRetries?: number
  /** For one attempt, in milliseconds. Default 30,000; an upload gets more by its size. */
  timeoutMs?: number
  sleep?: Sleep
}

export interface UploadOptions extends CallOptions {
  /** Bytes sent and total bytes: 0 at the start of each attempt, all once stored. fetch reports nothing between. */
  onProgress?: ((sentBytes: number, totalBytes: number) => void) | undefined
}

interface RequestOptions extends CallOptions {
  query?: Record<string, string | number | undefined>
  body?: unknown
  headers?: Record<string, string>
  /** Whether to retry when the response was lost. Default: for GET and PUT. */
  isIdempotent?: boolean
}

/** The API's rate-limit window is a minute; a longer `Retry-After` rejects, for the caller to decide. */
const MAX_RETRY_AFTER_SECONDS = 120
const FIRST_BACKOFF_MS = 250
const MAX_BACKOFF_MS = 8_000
/** The timeout of an upload allows for this throughput. */
const MIN_UPLOAD_BYTES_PER_MS = 100

/** Sends requests, retries them where that is safe, and passes the bookmark on to the next request. */
export function createTransport({ baseUrl, token, maxRetries = 3, timeoutMs = 30_000, ...options }: ClientOptions) {
  const root = `${baseUrl.replace(/(?<!\/)\/+$/, '')}/api/v1`
  // Checked here because the runtimes quote an invalid header value, and so the token, in their own error.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new TypeError('token must consist of visible ASCII characters')
  // Called as a free function: browsers refuse a fetch that is called as another object's method.
  const { fetch: sendRequest = (url: string, init: RequestInit) => fetch(url, init), sleep = sleepFor } = options
  let bookmark: string | null = null

  /** Throws {@link ApiError}, or the signal's reason. The returned body is not validated; it is null for a 304. */
  async function send<Body>(method: Method, segments: readonly (string | number)[], options: RequestOptions = {}) {
    const { query = {}, body, isIdempotent = method === 'GET' || method === 'PUT', signal } = options
    const url = root + toPath(segments) + toQueryString(query)
    return retry(isIdempotent, signal, async () => {
      const sentBookmark = bookmark
      const headers = {
        accept: 'application/json',
        authorization: `Bearer ${token}`,
        ...(sentBookmark !== null && { 'x-bookmark': sentBookmark }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...options.headers,
      }
      const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
      const { response, text } = await exchange(url, init, timeoutMs, signal)
      // Of overlapping requests, the greater bookmark is the newer (D1's compare as text): the response of a slow read
      // must not replace the bookmark of a later write. Sequential requests replace it, after a restore too.
      const received = response.headers.get('x-bookmark')
      if (received !== null && (bookmark === sentBookmark || received > (bookmark ?? ''))) bookmark = received
      const isNotModified = response.status === 304
      const parsed = isNotModified ? null : parseJson(text)
      if (parsed === undefined || !(response.ok || isNotModified)) throw readApiError(response, parsed)
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
    const uploadTimeoutMs = timeoutMs + Math.ceil(sizeBytes / MIN_UPLOAD_BYTES_PER_MS)
    // fetch rejects views of shared memory, so their bytes are copied.
    const body = !('byteLength' in data) || isUnshared(data) ? data : new Uint8Array(data)
    await retry(true, signal, async () => {
      onProgress?.(0, sizeBytes)
      const init = { method: 'PUT', headers: { 'content-type': contentType }, body }
      const { response, text } = await exchange(uploadUrl, init, uploadTimeoutMs, signal)
      if (!response.ok) throw readUploadError(response, text)
    })
    onProgress?.(sizeBytes, sizeBytes)
  }

  async function retry<T>(isIdempotent: boolean, signal: AbortSignal | undefined, attempt: () => Promise<T>) {
    for (let retries = 0; ; retries += 1) {
      signal?.throwIfAborted()
      try {
        return await attempt()
      } catch (error) {
        signal?.throwIfAborted()
        if (!(error instanceof ApiError) || retries >= maxRetries) throw error
        const delayMs = chooseDelayMs(error, retries, isIdempotent, Math.random())
        if (delayMs === null) throw error
        await sleep(delayMs, signal)
      }
    }
  }

  async function exchange(url: string, init: RequestInit, limitMs: number, signal: AbortSignal | undefined) {
    const timeout = AbortSignal.timeout(limitMs)
    const eitherSignal = signal ? AbortSignal.any([signal, timeout]) : timeout
    try {
      const response = await sendRequest(url, { ...init, signal: eitherSignal })
      return { response, text: await response.text() }
    } catch (cause) {
      const reason = timeout.aborted ? `no complete response within ${limitMs} ms` : 'the connection failed'
      throw new ApiError({ status: 0, code: 'network_error', message: `${init.method}: ${reason}`, cause })
    }
  }

  return { send, upload }
}

/**
 * Milliseconds to wait before the next attempt, or null for none. A 429 was rejected before any effect, so it is always
 * retried; a lost response, 502, 503 or 504 may follow a completed change, so only an idempotent request is retried.
 * `random`, from 0 up to 1, is the jitter.
 */
export function chooseDelayMs(error: ApiError, retries: number, isIdempotent: boolean, random: number): number | null {
  const isLost = [0, 502, 503, 504].includes(error.status)
  if (error.status !== 429 && !(isIdempotent && isLost)) return null
  if (isRecord(error.details) && error.details.reason === 'supplier_rejected_credentials') return null
  const { retryAfterSeconds } = error
  if (retryAfterSeconds === null) return Math.min(FIRST_BACKOFF_MS * 2 ** retries, MAX_BACKOFF_MS) * (0.5 + random / 2)
  return retryAfterSeconds > MAX_RETRY_AFTER_SECONDS ? null : retryAfterSeconds * 1000
}

/** Bytes. */
export function sizeOf(data: FileData): number {
  return 'byteLength' in data ? data.byteLength : data.size
}

const isUnshared = (data: Uint8Array): data is Uint8Array<ArrayBuffer> => data.buffer instanceof ArrayBuffer

/** Throws a TypeError for a segment that a URL cannot contain, encoded or not: empty, `.` or `..`. */
function toPath(segments: readonly (string | number)[]): string {
  const invalid = segments.find((segment) => /^\.{0,2}$/.test(String(segment)))
  if (invalid !== undefined) throw new TypeError(`"${invalid}" cannot be a path segment`)
  return segments.map((segment) => `/${encodeURIComponent(segment)}`).join('')
}

function toQueryString(query: NonNullable<RequestOptions['query']>): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) params.set(name, String(value))
  return params.size > 0 ? `?${params}` : ''
}

/** Undefined for what is not JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function sleepFor(delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', finish)
      if (signal?.aborted) reject(signal.reason)
      else resolve()
    }
    const timer = setTimeout(finish, delayMs)
    signal?.addEventListener('abort', finish)
  })
}
