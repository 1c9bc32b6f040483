import { ApiError, isRecord, readApiError, readUploadError } from './errors.ts'

export type Fetch = (url: string, init: RequestInit) => Promise<Response>
/** Rejects with the signal's reason as soon as it is aborted. */
export type Sleep = (delayMs: number, signal?: AbortSignal) => Promise<void>

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

export interface CallOptions {
  signal?: AbortSignal | undefined
}

export type Segments = readonly (string | number)[]

export interface ApiRequest {
  method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  /** Of the path after `/api/v1`. */
  segments: Segments
  query?: Record<string, string | number | undefined>
  body?: unknown
  headers?: Record<string, string>
  /** Whether the request is retried when its response was lost. */
  idempotent: boolean
}

export interface ApiResponse<Body> {
  status: number
  headers: Headers
  /** Not validated; null for a 304. */
  body: Body
}

export interface Upload {
  url: string
  contentType: string
  body: Blob | Uint8Array<ArrayBuffer>
  sizeBytes: number
  onAttempt: () => void
}

const DEFAULT_TIMEOUT_MS = 30_000
const DEFAULT_MAX_RETRIES = 3
/** The API's rate-limit window is a minute; a longer `Retry-After` rejects, for the caller to decide. */
const MAX_RETRY_AFTER_SECONDS = 120
const FIRST_BACKOFF_MS = 250
const MAX_BACKOFF_MS = 8_000
/** The timeout of an upload allows for this throughput. */
const MIN_UPLOAD_BYTES_PER_MS = 100

/** Sends requests, retries them where that is safe, and passes the bookmark on to the next request. */
export function createTransport(options: ClientOptions) {
  const root = `${options.baseUrl.replace(/(?<!\/)\/+$/, '')}/api/v1`
  // Checked here because the runtimes quote an invalid header value, and so the token, in their own error.
  if (!/^[\x21-\x7e]+$/.test(options.token)) throw new TypeError('token: visible ASCII characters without spaces only')
  const authorization = `Bearer ${options.token}`
  // Called as a free function: browsers refuse a fetch that is called as another object's method.
  const { fetch: sendRequest = (url: string, init: RequestInit) => fetch(url, init), sleep = sleepFor } = options
  const { maxRetries = DEFAULT_MAX_RETRIES, timeoutMs = DEFAULT_TIMEOUT_MS } = options
  let bookmark: string | null = null

  /** Sends one request to the API. Throws {@link ApiError}, or the signal's reason. */
  async function send<Body>(request: ApiRequest, signal?: AbortSignal): Promise<ApiResponse<Body>> {
    const url = `${root}${toPath(request.segments)}${toQueryString(request.query)}`
    return retry(request.idempotent, signal, async () => {
      const sentBookmark = bookmark
      const headers: Record<string, string> = { accept: 'application/json', authorization, ...request.headers }
      if (sentBookmark !== null) headers['x-bookmark'] = sentBookmark
      const init: RequestInit = { method: request.method, headers }
      if (request.body !== undefined) {
        headers['content-type'] = 'application/json'
        init.body = JSON.stringify(request.body)
      }
      const { response, text } = await exchange(url, init, timeoutMs, signal)
      updateBookmark(sentBookmark, response.headers.get('x-bookmark'))
      if (!response.ok && response.status !== 304) throw readApiError(response, text, Date.now())
      return { status: response.status, headers: response.headers, body: parseBody(response, text) }
    })
  }

  /** Sends one PUT to a presigned URL, without the token. Throws {@link ApiError}, or the signal's reason. */
  async function upload(file: Upload, signal?: AbortSignal): Promise<void> {
    const uploadTimeoutMs = timeoutMs + Math.ceil(file.sizeBytes / MIN_UPLOAD_BYTES_PER_MS)
    await retry(true, signal, async () => {
      file.onAttempt()
      const init = { method: 'PUT', headers: { 'content-type': file.contentType }, body: file.body }
      const { response, text } = await exchange(file.url, init, uploadTimeoutMs, signal)
      if (!response.ok) throw readUploadError(response, text, Date.now())
    })
  }

  /**
   * Keeps the newest bookmark. Sequential requests replace it; of overlapping ones, the greater is the newer (D1's
   * bookmarks compare as text), or the response of a slow read would replace the bookmark of a later write.
   */
  function updateBookmark(sent: string | null, received: string | null): void {
    if (received === null) return
    if (bookmark === sent || bookmark === null || received > bookmark) bookmark = received
  }

  async function retry<Result>(
    idempotent: boolean,
    signal: AbortSignal | undefined,
    attempt: () => Promise<Result>,
  ): Promise<Result> {
    for (let retries = 0; ; retries += 1) {
      signal?.throwIfAborted()
      try {
        return await attempt()
      } catch (error) {
        signal?.throwIfAborted()
        if (!(error instanceof ApiError) || retries >= maxRetries) throw error
        const delayMs = chooseDelayMs(error, retries, idempotent, Math.random())
        if (delayMs === null) throw error
        await sleep(delayMs, signal)
      }
    }
  }

  async function exchange(
    url: string,
    init: RequestInit,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<{ response: Response; text: string }> {
    const timeout = AbortSignal.timeout(timeoutMs)
    try {
      const response = await sendRequest(url, {
        ...init,
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      })
      return { response, text: await response.text() }
    } catch (cause) {
      const reason = timeout.aborted ? `no complete response within ${timeoutMs} ms` : 'the connection failed'
      throw new ApiError({ status: 0, code: 'network_error', message: `${init.method}: ${reason}`, cause })
    }
  }

  return { send, upload }
}

/**
 * Milliseconds to wait before the next attempt, or null for none.
 * A 429 was rejected before any effect, so it is retried for every method; a lost response or a gateway's 502, 503 or
 * 504 may follow a completed change, so only an idempotent request is retried.
 * @param random from 0 up to 1: jitter
 */
export function chooseDelayMs(error: ApiError, retries: number, idempotent: boolean, random: number): number | null {
  const isLimited = error.status === 429
  if (!isLimited && !(idempotent && [0, 502, 503, 504].includes(error.status))) return null
  if (isRecord(error.details) && error.details.reason === 'supplier_rejected_credentials') return null
  const { retryAfterSeconds } = error
  if (retryAfterSeconds === null) return Math.min(FIRST_BACKOFF_MS * 2 ** retries, MAX_BACKOFF_MS) * (0.5 + random / 2)
  return retryAfterSeconds > MAX_RETRY_AFTER_SECONDS ? null : retryAfterSeconds * 1000
}

/** Throws a TypeError for a segment that a URL cannot contain, encoded or not: empty, `.` or `..`. */
function toPath(segments: Segments): string {
  return segments
    .map((segment) => {
      const text = String(segment)
      if (/^\.{0,2}$/.test(text)) throw new TypeError(`"${text}" cannot be a path segment`)
      return `/${encodeURIComponent(text)}`
    })
    .join('')
}

function toQueryString(query: ApiRequest['query'] = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  )
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`
}

function parseBody<Body>(response: Response, text: string): Body {
  if (response.status === 304) return JSON.parse('null')
  try {
    return JSON.parse(text)
  } catch {
    throw new ApiError({
      status: response.status,
      code: 'unexpected_answer',
      message: `The response with status ${response.status} is not JSON`,
      requestId: response.headers.get('x-request-id'),
    })
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
