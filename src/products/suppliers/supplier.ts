/** A supplier's answer may hold at most this many bytes after decompression. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024

const DEFAULT_TIMEOUT_MS = 10_000

export type SupplierName = 'supplier_a' | 'supplier_b'

export type SupplierErrorReason = 'supplier_unavailable' | 'supplier_rejected_credentials'

/** Where and as whom a company reaches a supplier. */
export interface SupplierConnection<Credentials> {
  baseUrl: string
  credentials: Credentials
  /** Only for tests; the platform's own otherwise. */
  fetch?: typeof fetch
  /** For one call with its body read, 10 s unless told; a call's own `signal` may end it earlier. */
  timeoutMs?: number
}

/** What every lookup of every supplier gives. */
export interface SupplierAnswer<Data> {
  data: Data
  /** Calls left in the supplier's current minute, null where it does not say. */
  rateLimitRemaining: number | null
}

/**
 * The only error a supplier's adapter throws for what the supplier did. Its message is ours alone: nothing a supplier
 * sent, no address and no credentials are in it, and it keeps no `cause` that could hold them.
 */
export class SupplierError extends Error {
  readonly supplier: SupplierName
  readonly reason: SupplierErrorReason
  /** The supplier refused because we called too often. */
  readonly throttled: boolean
  /** How long the supplier asked us to wait, where it did so in seconds. */
  readonly retryAfterSeconds: number | null

  constructor(
    supplier: SupplierName,
    reason: SupplierErrorReason,
    detail: string,
    throttle: { retryAfterSeconds: number | null } | null = null,
  ) {
    super(`${supplier}: ${detail}`)
    this.name = 'SupplierError'
    this.supplier = supplier
    this.reason = reason
    this.throttled = throttle !== null
    this.retryAfterSeconds = throttle?.retryAfterSeconds ?? null
  }
}

export interface SupplierRequest {
  url: string
  method: 'GET' | 'POST'
  headers: Record<string, string>
  body?: string
}

export interface SupplierResponse {
  status: number
  headers: Headers
  body: string
}

/**
 * Sends one request and reads the whole answer as UTF-8, of any status but those that mean the same for every supplier:
 * 401 and 429 throw. Redirects are not followed, so that credentials never reach another host; a redirect comes back
 * as the answer it is.
 *
 * @throws SupplierError on 401, 429, no answer, a broken one, one over 16 MiB, or none in time
 */
export async function callSupplier(
  supplier: SupplierName,
  connection: SupplierConnection<unknown>,
  request: SupplierRequest,
  signal?: AbortSignal,
): Promise<SupplierResponse> {
  const timeout = AbortSignal.timeout(connection.timeoutMs ?? DEFAULT_TIMEOUT_MS)
  const ended = signal ? AbortSignal.any([signal, timeout]) : timeout
  const send = connection.fetch ?? fetch
  const { url, ...init } = request
  try {
    // `no-store`: prices are a company's own, so no cache on the way may answer for another.
    const response = await send(url, { ...init, redirect: 'manual', cache: 'no-store', signal: ended })
    const refusal = refusalOf(supplier, response)
    if (refusal) {
      await response.body?.cancel().catch(() => {})
      throw refusal
    }
    return { status: response.status, headers: response.headers, body: await readText(supplier, response, ended) }
  } catch (error) {
    if (error instanceof SupplierError) throw error
    throw unavailable(supplier, ended.aborted ? 'no answer in time' : 'the connection failed')
  }
}

export function unavailable(supplier: SupplierName, detail: string): SupplierError {
  return new SupplierError(supplier, 'supplier_unavailable', detail)
}

export function rejectedCredentials(supplier: SupplierName): SupplierError {
  return new SupplierError(supplier, 'supplier_rejected_credentials', 'the credentials were rejected')
}

function refusalOf(supplier: SupplierName, response: Response): SupplierError | null {
  if (response.status === 401) return rejectedCredentials(supplier)
  if (response.status !== 429) return null
  const retryAfterSeconds = readCount(response.headers.get('Retry-After'))
  return new SupplierError(supplier, 'supplier_unavailable', 'called too often', { retryAfterSeconds })
}

async function readText(supplier: SupplierName, response: Response, ended: AbortSignal): Promise<string> {
  if (!response.body) return ''
  const reader = response.body.getReader()
  // An aborted signal need not end a body that has stopped coming; cancelling the reader does.
  const stop = () => void reader.cancel().catch(() => {})
  ended.addEventListener('abort', stop)
  try {
    const decoder = new TextDecoder()
    let text = ''
    let sizeBytes = 0
    for (;;) {
      const { done, value } = await reader.read()
      if (ended.aborted) throw unavailable(supplier, 'no answer in time')
      if (done) return text + decoder.decode()
      sizeBytes += value.byteLength
      if (sizeBytes > MAX_ANSWER_BYTES) throw unavailable(supplier, 'the answer is too large')
      text += decoder.decode(value, { stream: true })
    }
  } catch (error) {
    stop()
    throw error
  } finally {
    ended.removeEventListener('abort', stop)
  }
}

/** A header's whole number, of at most nine digits. */
export function readCount(text: string | null): number | null {
  return text !== null && /^\d{1,9}$/.test(text.trim()) ? Number(text) : null
}

/** A text or number as trimmed text; suppliers send an empty string for what they do not have. */
export function textOrNull(value: unknown): string | null {
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null
}

/** A plain decimal number, sent as a number or as text. */
export function numberOrNull(value: unknown): number | null {
  const text = textOrNull(value)
  return text !== null && /^-?\d{1,15}(\.\d{1,15})?$/.test(text) ? Number(text) : null
}

/** A price: suppliers send 0 for one they do not have, and nothing is free. */
export function priceOrNull(value: unknown): number | null {
  const price = numberOrNull(value)
  return price !== null && price > 0 ? price : null
}
