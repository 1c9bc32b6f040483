import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { LruCache } from './cache.ts'
import { type ApiError, invalid } from './errors.ts'

/** The default lifetime of a list's cursor. */
const CURSOR_TTL_MS = 7 * 86_400_000

/** The position in a list. Keep it short, since it is part of URLs. */
export type CursorPosition = readonly (string | number | null)[]

/** The scope of a cursor: only the same company and query can use it. */
export interface CursorScope {
  companyId: number
  /** The deployment's `CREDENTIALS_KEY`, from which the signing key is derived. The first key of several signs. */
  credentialsKey: string
  /** The operation with its filters and order, without parameters that differ between pages. */
  query: readonly unknown[]
  /** Milliseconds since the epoch. */
  now: number
}

/**
 * Writes an opaque cursor: base64url of `HMAC-SHA-256 (16 bytes) | JSON [position, time]`. The signature covers the scope,
 * which is not contained.
 */
export function writeCursor(scope: CursorScope, position: CursorPosition): string {
  const payload = Buffer.from(JSON.stringify([position, Math.floor(scope.now / 1_000)]))
  const [key = ''] = scope.credentialsKey.split(',')
  return Buffer.concat([sign(scope, key, payload), payload]).toString('base64url')
}

/**
 * Reads the position in a cursor.
 *
 * @param ttlMs the cursor's lifetime
 * @throws ApiError 400 for a cursor that is malformed, expired, or of another company or query
 */
export function readCursor(scope: CursorScope, cursor: string, ttlMs = CURSOR_TTL_MS): CursorPosition {
  const bytes = Buffer.from(cursor, 'base64url')
  const [signature, payload] = [bytes.subarray(0, MAC_BYTES), bytes.subarray(MAC_BYTES)]
  const isOf = (key: string) => timingSafeEqual(sign(scope, key, payload), signature)
  const isSigned = signature.length === MAC_BYTES && scope.credentialsKey.split(',').some(isOf)
  if (!isSigned) throw refusal(FOREIGN)
  const [position, writtenAt]: [CursorPosition, number] = JSON.parse(payload.toString())
  if (scope.now - writtenAt * 1_000 > ttlMs)
    throw refusal(`has expired, ${Math.round(ttlMs / 86_400_000)} days after it was written: begin again without it`)
  return position
}

const MAC_BYTES = 16
const FOREIGN =
  'belongs to another query or company: send it with the filters and the order of the request that returned it, or begin again without it'

function refusal(message: string): ApiError {
  return invalid([{ path: 'cursor', message }])
}

const keys = new LruCache<string, Buffer>({ maxWeight: 10 })

function sign({ companyId, query }: CursorScope, credentialsKey: string, payload: Buffer): Buffer {
  const key = keys.get(credentialsKey) ?? Buffer.from(hkdfSync('sha256', credentialsKey, '', 'cursor', 32))
  keys.set(credentialsKey, key)
  const mac = createHmac('sha256', key)
    .update(`${JSON.stringify([companyId, query])}\0`)
    .update(payload)
  return mac.digest().subarray(0, MAC_BYTES)
}
