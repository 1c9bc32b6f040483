import { ApiError, isRecord, readApiError, readUploadError } from './errors.ts'

export type Fetch = (url: string, init: RequestInit) => Promise<Response>
/** Rejects with the signal's reason as soon as it is aborted. */
export type Sleep = (delayMs: number, signal?: AbortSignal) => Promise<void>

export interface ClientOptions {
  /** What stands before `/api/v1`. */
  baseUrl: string
  token: string
  /** Default: the global one, looked up at each call. */
  fetch?: Fetch
  /** Tries after the first one. Default 3. */
  maxRetries?: number
  /** Of one try, in milliseconds. Default 30,000; an upload gets more by its size. */
  timeoutMs?: number
  sleep?: Sleep
}

export interface CallOptions {
  signal?: AbortSignal | undefined
}

export type Segments = readonly (string | number)[]

export interface ApiRequest {
  method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  /** Of the path behind `/api/v1`. */
  segments: Segments
  query?: Record<string, string | number | undefined>
  body?: unknown
  headers?: Record<string, string>
  /** True where a second call changes nothing: such a call is tried again when its answer was lost. */
  repeatable: boolean
}

export interface ApiAnswer<Body> {
  status: number
  headers: Headers
  /** The API's promise, not checked here; undefined for a 304. */
  body: Body
}

export interface Upload {
  url: string
  contentType: string
  body: Blob | Uint8Array<ArrayBuffer>
  sizeBytes: number
  onTry: () => void
}

const DEFAULT_TIMEOUT_MS = 30_000
const DEFAULT_MAX_RETRIES = 3
/** The API's window is a minute; a longer wait than this is the caller's to decide. */
const MAX_RETRY_AFTER_SECONDS = 120
const FIRST_BACKOFF_MS = 250
const MAX_BACKOFF_MS = 8_000
/** An upload may be as slow as this before a try of it is given up. */
const SLOWEST_UPLOAD_BYTES_PER_MS = 100

/** Sends calls, tries again where that is safe, and carries the bookmark from answer to call. */
export function createTransport(options: ClientOptions) {
  const root = `${options.baseUrl.replace(/(?<!\/)\/+$/, '')}/api/v1`
  // Checked here, because the runtimes quote a bad header value, and with it the token, in their own error.
  if (!/^[\x21-\x7e]+$/.test(options.token)) throw new TypeError('token: visible ASCII characters without spaces only')
  const authorization = `Bearer ${options.token}`
  // Called as a free function: browsers refuse a fetch that is called as another object's method.
  const { fetch: doFetch = (url: string, init: RequestInit) => fetch(url, init), sleep = sleepFor } = options
  const { maxRetries = DEFAULT_MAX_RETRIES, timeoutMs = DEFAULT_TIMEOUT_MS } = options
  let bookmark: string | null = null

  /** One call of the API. Throws {@link ApiError}, or the signal's reason. */
  async function send<Body>(request: ApiRequest, signal?: AbortSignal): Promise<ApiAnswer<Body>> {
    const url = `${root}${toPath(request.segments)}${toQueryString(request.query)}`
    return tryAgain(request.repeatable, signal, async () => {
      const sentBookmark = bookmark
      const headers: Record<string, string> = { accept: 'application/json', authorization, ...request.headers }
      if (sentBookmark !== null) headers['x-bookmark'] = sentBookmark
      const init: RequestInit = { method: request.method, headers }
      if (request.body !== undefined) {
        headers['content-type'] = 'application/json'
        init.body = JSON.stringify(request.body)
      }
      const { response, text } = await exchange(url, init, timeoutMs, signal)
      keepBookmark(sentBookmark, response.headers.get('x-bookmark'))
      if (!response.ok && response.status !== 304) throw readApiError(response, text, Date.now())
      return { status: response.status, headers: response.headers, body: parseBody(response, text) }
    })
  }

  /** One PUT to a presigned address, without the token. Throws {@link ApiError}, or the signal's reason. */
  async function upload(file: Upload, signal?: AbortSignal): Promise<void> {
    const allowedMs = timeoutMs + Math.ceil(file.sizeBytes / SLOWEST_UPLOAD_BYTES_PER_MS)
    await tryAgain(true, signal, async () => {
      file.onTry()
      const init = { method: 'PUT', headers: { 'content-type': file.contentType }, body: file.body }
      const { response, text } = await exchange(file.url, init, allowedMs, signal)
      if (!response.ok) throw readUploadError(response, text, Date.now())
    })
  }

  /**
   * The newest bookmark stays. Calls one after another simply replace it; of calls that overlapped, the later in
   * sorting order is the newer (D1's bookmarks compare as text), or a slow old read would undo a write's bookmark.
   */
  function keepBookmark(sent: string | null, received: string | null): void {
    if (received === null) return
    if (bookmark === sent || bookmark === null || received > bookmark) bookmark = received
  }

  async function tryAgain<Result>(
    repeatable: boolean,
    signal: AbortSignal | undefined,
    once: () => Promise<Result>,
  ): Promise<Result> {
    for (let retries = 0; ; retries += 1) {
      signal?.throwIfAborted()
      try {
        return await once()
      } catch (error) {
        signal?.throwIfAborted()
        if (!(error instanceof ApiError) || retries >= maxRetries) throw error
        const delayMs = chooseDelayMs(error, retries, repeatable, Math.random())
        if (delayMs === null) throw error
        await sleep(delayMs, signal)
      }
    }
  }

  async function exchange(
    url: string,
    init: RequestInit,
    allowedMs: number,
    signal: AbortSignal | undefined,
  ): Promise<{ response: Response; text: string }> {
    const timeout = AbortSignal.timeout(allowedMs)
    try {
      const response = await doFetch(url, { ...init, signal: signal ? AbortSignal.any([signal, timeout]) : timeout })
      return { response, text: await response.text() }
    } catch (cause) {
      const why = timeout.aborted ? `no whole answer within ${allowedMs} ms` : 'the connection failed'
      throw new ApiError({ status: 0, code: 'network_error', message: `${init.method}: ${why}`, cause })
    }
  }

  return { send, upload }
}

/**
 * Milliseconds to wait before the next try, or null for no other try.
 * A 429 was refused before anything was done, so it may be repeated whatever the method; a lost answer or a
 * gateway's 502, 503 or 504 may hide a finished change, so only a repeatable call is sent again.
 * @param random 0 up to 1, spreads callers that failed together
 */
export function chooseDelayMs(error: ApiError, retries: number, repeatable: boolean, random: number): number | null {
  const isLimited = error.status === 429
  if (!isLimited && !(repeatable && [0, 502, 503, 504].includes(error.status))) return null
  if (isRecord(error.details) && error.details.reason === 'supplier_rejected_credentials') return null
  const { retryAfterSeconds } = error
  if (retryAfterSeconds === null) return Math.min(FIRST_BACKOFF_MS * 2 ** retries, MAX_BACKOFF_MS) * (0.5 + random / 2)
  return retryAfterSeconds > MAX_RETRY_AFTER_SECONDS ? null : retryAfterSeconds * 1000
}

/** Throws a TypeError for a segment that an address cannot carry, encoded or not: blank, `.` or `..`. */
function toPath(segments: Segments): string {
  return segments
    .map((segment) => {
      const text = String(segment)
      if (/^\.{0,2}$/.test(text)) throw new TypeError(`"${text}" cannot stand in a path`)
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
      message: `The address answered ${response.status} with something that is not JSON`,
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
