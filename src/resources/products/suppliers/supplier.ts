import * as z from 'zod/mini'
import { oneLine } from '../../../kernel/api/contract.ts'
import { ApiError } from '../../../kernel/http/errors.ts'
import { type AddressPolicy, callChecked, OutboundError, type OutboundRequest } from '../../../kernel/http/outbound.ts'

const MAX_RESPONSE_BYTES = 16 * 1024 * 1024
/** The wait after a 429 without a usable `Retry-After`. */
const RETRY_AFTER_SECONDS = 10

export interface Supplier {
  /** The `kind` of its integrations, and the source of its products in the contract. */
  name: string
  credentials: z.ZodMiniType
  /**
   * The lookups of a search, tried in order until one has items; none if `q` has nothing for this supplier. `present`
   * builds its part of the response from the items of the lookup at `index`, or from none.
   */
  search(q: string): { lookups: Lookup[]; present(items: unknown[], index: number): object }
  /** Finds the lookup of product info, its parameters, and the requested items. @throws ApiError for invalid ones */
  find(query: ProductQuery): { lookup: Lookup; parameters: object; select?(items: unknown[]): unknown[] }
}

export type ProductQuery = Readonly<Record<string, string | undefined>>

/** One read of a supplier, made by the cache when it has no fresh result of an equal `name`. */
export interface Lookup {
  name: string
  /** The lifetime of a result without items, if it differs. */
  emptyLifetime?: Lifetime
  /** @throws SupplierError, or ApiError 503 when there is no memory for the response */
  fetch(connection: SupplierConnection): Promise<unknown[]>
}

export type Lifetime = { freshMs: number; maxAgeMs: number }

export interface SupplierConnection<Credentials = unknown> {
  baseUrl: string
  credentials: Credentials
  addresses: AddressPolicy
  timeoutMs: number
}

/** A supplier's failure. It has no cause, and its message holds no text of the supplier's or ours. */
export class SupplierError extends Error {
  override readonly name = 'SupplierError'
  readonly reason: 'supplier_unavailable' | 'supplier_rejected_credentials'
  /** The requested wait: after a 429, or a 503 with `Retry-After`. */
  readonly retryAfterSeconds: number | null

  constructor(reason: SupplierError['reason'], message: string, retryAfterSeconds: number | null = null) {
    super(message)
    this.reason = reason
    this.retryAfterSeconds = retryAfterSeconds
  }

  static rejectedCredentials(): SupplierError {
    return new SupplierError('supplier_rejected_credentials', 'the credentials were rejected')
  }
}

/**
 * Sends one request and reads the items of its response. 401, 403, 429 and 503 mean the same for every supplier.
 *
 * @param rowsOf throws any error for an unknown form of response, redirects included
 * @param toItem gives null for a row of unknown form; at least one of all rows must be valid
 * @throws SupplierError, or ApiError 503 when there is no memory for the response
 */
export async function fetchItems<Item>(
  { addresses, timeoutMs }: SupplierConnection,
  request: OutboundRequest,
  rowsOf: (status: number, body: string) => Row[],
  toItem: (row: Row) => Item | null,
): Promise<Item[]> {
  let problem = 'the call failed'
  try {
    return await callChecked(addresses, request, timeoutMs, async ({ status, headers, readText }) => {
      if (status === 401 || status === 403) throw SupplierError.rejectedCredentials()
      const seconds = readRetryAfter(headers.get('Retry-After') ?? '') ?? (status === 429 ? RETRY_AFTER_SECONDS : null)
      if (seconds !== null && (status === 429 || status === 503)) {
        throw new SupplierError('supplier_unavailable', `it wants fewer calls, HTTP ${status}`, seconds)
      }
      const body = await readText(MAX_RESPONSE_BYTES)
      problem = `the response was not understood, HTTP ${status}`
      const rows = rowsOf(status, body)
      const items = rows.map(toItem).filter((item) => item !== null)
      if (items.length === 0 && rows.length > 0) throw new Error('no result')
      return items
    })
  } catch (error) {
    if (error instanceof SupplierError || error instanceof ApiError) throw error
    if (!(error instanceof OutboundError)) throw new SupplierError('supplier_unavailable', problem)
    throw new SupplierError('supplier_unavailable', `the call failed: ${error.message}`)
  }
}

/** The seconds of a number or HTTP date; null for other text and a date that has passed. */
function readRetryAfter(text: string): number | null {
  if (/^\s*\d+\s*$/.test(text)) return Number(text)
  const seconds = Math.ceil((Date.parse(text) - Date.now()) / 1000)
  return seconds > 0 ? seconds : null
}

/** Trims a text or number; suppliers send an empty string for missing values. */
export function textOrNull(value: unknown): string | null {
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null
}

/** A decimal number as suppliers write it: `1234.5`, `1,234.50`, `$4.38`, `USD 4.38`. */
const NUMBER = /^(-?)(?:\$|USD)? ?(\d{1,15}|[1-9]\d{0,2}(?:,\d{3}){1,4})(\.\d{1,20})?$/

/** Parses a number or text; null for an ambiguous one: `1,23` or `1.234,50`. */
function numberOrNull(value: unknown): number | null {
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  const [, sign, whole, fraction = ''] = NUMBER.exec(textOrNull(value) ?? '') ?? []
  return whole === undefined ? null : Number(`${sign}${whole.replaceAll(',', '')}${fraction}`)
}

/** A supplier's item, by its own names. */
export type Row = Readonly<Record<string, unknown>>

/** A field of an item: its published schema, the supplier's names of it (the first with a value counts), its reader. */
type Field = { schema: z.ZodMiniType; names: readonly string[]; read: (value: unknown) => unknown }

function fieldType<Value>(schema: z.ZodMiniType<Value>, read: (value: unknown) => Value | null) {
  return (names: string | readonly string[], description?: string) => ({
    schema: z.nullable(schema).check(...(description === undefined ? [] : [z.describe(description)])),
    names: [names].flat(),
    read,
  })
}

export const secret = oneLine(8192)

export const nonEmptyText = z.string().check(z.minLength(1))

function countOrNull(value: unknown): number | null {
  const count = numberOrNull(value)
  return count !== null && count >= 0 ? count : null
}

/** Types of fields, each null without a usable value. */
export const field = {
  text: fieldType(nonEmptyText, textOrNull),
  number: fieldType(z.number(), numberOrNull),
  count: fieldType(z.number().check(z.minimum(0)), countOrNull),
  /** Suppliers send 0 for a missing price, and nothing is free. */
  price: fieldType(z.number().check(z.positive()), (value) => countOrNull(value) || null),
}

/** Defines the only mapping of an item's fields: their schemas, the supplier's names, and the values of a row. */
export function defineFields<Fields extends Record<string, Field>>(fields: Fields) {
  type Shape = { [Key in keyof Fields]: Fields[Key]['schema'] }
  type Values = { [Key in keyof Fields]: z.output<Fields[Key]['schema']> }
  const entries = Object.entries(fields)
  return {
    // Object.fromEntries loses the keys.
    shape: Object.fromEntries(entries.map(([key, { schema }]) => [key, schema])) as Shape,
    names: entries.flatMap(([, { names }]) => names),
    read(row: Row): Values {
      const values: Record<string, unknown> = {}
      for (const [key, { names, read }] of entries) {
        values[key] = names.map((name) => read(row[name])).find((value) => value !== null) ?? null
      }
      return values as Values
    },
  }
}
