import { callOutside, OutboundError, type OutboundFailure, type OutboundRequest } from '../../http/outbound.ts'

/** A supplier's answer may hold at most this many bytes after decompression. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024

const DEFAULT_TIMEOUT_MS = 10_000

export type SupplierName = 'supplier_a' | 'supplier_b'

export type SupplierErrorReason = 'supplier_unavailable' | 'supplier_rejected_credentials'

/** Where and as whom a company reaches a supplier. */
export interface SupplierConnection<Credentials> {
  baseUrl: string
  credentials: Credentials
  /** For one call with its body read. Default 10 s. */
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

export interface SupplierResponse {
  status: number
  headers: Headers
  body: string
}

/** What a call without a response is reported as. */
const FAILURES: Record<OutboundFailure, string> = {
  timeout: 'no answer in time',
  network: 'the connection failed',
  cut: 'the connection failed',
  too_large: 'the answer is too large',
  charset: 'the answer is not text of its charset',
}

/**
 * Sends one request and reads the whole answer, of any status but those that mean the same for every supplier: 401 and
 * 429 throw. A redirect comes back as the answer it is.
 *
 * @throws SupplierError on 401, 429, no answer, a broken one, one over 16 MiB, or none in time
 */
export async function callSupplier(
  supplier: SupplierName,
  connection: SupplierConnection<unknown>,
  request: OutboundRequest,
): Promise<SupplierResponse> {
  try {
    return await callOutside(
      request,
      connection.timeoutMs ?? DEFAULT_TIMEOUT_MS,
      async ({ status, headers, readText }) => {
        const refusal = refusalOf(supplier, status, headers)
        if (refusal) throw refusal
        return { status, headers, body: await readText(MAX_ANSWER_BYTES) }
      },
    )
  } catch (error) {
    throw error instanceof OutboundError ? unavailable(supplier, FAILURES[error.failure]) : error
  }
}

export function unavailable(supplier: SupplierName, detail: string): SupplierError {
  return new SupplierError(supplier, 'supplier_unavailable', detail)
}

export function rejectedCredentials(supplier: SupplierName): SupplierError {
  return new SupplierError(supplier, 'supplier_rejected_credentials', 'the credentials were rejected')
}

function refusalOf(supplier: SupplierName, status: number, headers: Headers): SupplierError | null {
  if (status === 401) return rejectedCredentials(supplier)
  if (status !== 429) return null
  const retryAfterSeconds = readCount(headers.get('Retry-After'))
  return new SupplierError(supplier, 'supplier_unavailable', 'called too often', { retryAfterSeconds })
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

/** A decimal number as suppliers write it: `1234.5`, `1,234.50`, `$4.38`, `USD 4.38`. */
const NUMBER = /^(-?)(?:\$|USD)? ?(\d{1,15}|[1-9]\d{0,2}(?:,\d{3}){1,4})(\.\d{1,15})?$/

/** A number, sent as a number or as text. Null for an ambiguous one: `1,23` or `1.234,50`. */
export function numberOrNull(value: unknown): number | null {
  const [, sign, whole, fraction = ''] = NUMBER.exec(textOrNull(value) ?? '') ?? []
  return whole === undefined ? null : Number(`${sign}${whole.replaceAll(',', '')}${fraction}`)
}

/** A price: suppliers send 0 for one they do not have, and nothing is free. */
export function priceOrNull(value: unknown): number | null {
  const price = numberOrNull(value)
  return price !== null && price > 0 ? price : null
}
