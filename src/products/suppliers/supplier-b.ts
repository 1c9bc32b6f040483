import * as z from 'zod/mini'
import {
  groupByColor,
  PRODUCT_FIELDS,
  STYLE_FIELDS,
  type SupplierBColorGroup,
  type SupplierBStyle,
  toProduct,
  toStyle,
} from './color-groups.ts'
import {
  callSupplier,
  readCount,
  type SupplierAnswer,
  type SupplierConnection,
  type SupplierResponse,
  unavailable,
} from './supplier.ts'

const SUPPLIER = 'supplier_b'

/** What a company's integration keeps to log in. */
export const supplierBCredentialsSchema = z.strictObject({
  account_number: z.string().check(z.minLength(1)),
  api_key: z.string().check(z.minLength(1)),
})

export type SupplierBCredentials = z.infer<typeof supplierBCredentialsSchema>

/**
 * An id that may be sent to the supplier: a SKU, a style id or a part number. A comma would make it a list of several,
 * and a name of dots only would be another address.
 */
export const supplierBIdSchema = z.string().check(
  z.trim(),
  z.minLength(1),
  z.maxLength(100),
  z.regex(/^[^,\p{Cc}]*$/u, 'must not hold a comma'),
  z.refine((id) => !/^\.+$/.test(id), 'must not be dots only'),
)

export interface SupplierB {
  /** Styles that match a text; none when nothing does. The text must not be blank. @throws SupplierError */
  searchStyles(text: string): Promise<SupplierAnswer<SupplierBStyle[]>>
  /**
   * Every SKU of a style, by colour; none when the supplier does not know it.
   *
   * @param styleId the supplier's number of the style; anything but digits is taken for a part number or brand and name
   * @throws SupplierError; $ZodError for an id that {@link supplierBIdSchema} refuses
   */
  productsOfStyle(styleId: string): Promise<SupplierAnswer<SupplierBColorGroup[]>>
  /** One SKU in the same form. @throws SupplierError; $ZodError for a SKU that {@link supplierBIdSchema} refuses */
  productBySku(sku: string): Promise<SupplierAnswer<SupplierBColorGroup[]>>
}

/**
 * A client of supplier_b: a REST JSON service of 60 calls a minute, whose answers tell how many are left. `baseUrl` is
 * what stands before `/v2/…`. Only the fields that we keep are asked for.
 */
export function connectSupplierB(connection: SupplierConnection<SupplierBCredentials>): SupplierB {
  async function list<Item>(
    path: string,
    read: (fields: Record<string, unknown>) => Item | null,
  ): Promise<SupplierAnswer<Item[]>> {
    const response = await callSupplier(SUPPLIER, connection, makeRequest(connection, path))
    const rateLimitRemaining = readCount(response.headers.get('X-Rate-Limit-Remaining'))
    const items = rowsOf(response).map(read)
    if (items.length > 0 && items.every((item) => item === null)) throw notUnderstood(response)
    return { data: items.filter((item) => item !== null), rateLimitRemaining }
  }

  async function listProducts(path: string): Promise<SupplierAnswer<SupplierBColorGroup[]>> {
    const { data, rateLimitRemaining } = await list(path, toProduct)
    return { data: groupByColor(data), rateLimitRemaining }
  }

  return {
    searchStyles: (text) =>
      list(`styles?search=${encodeURIComponent(text.trim().toWellFormed())}&fields=${STYLE_FIELDS}`, toStyle),
    async productsOfStyle(styleId) {
      const id = supplierBIdSchema.parse(styleId)
      const parameter = /^\d+$/.test(id) ? 'styleid' : 'style'
      return listProducts(`products/?${parameter}=${encodeId(id)}&fields=${PRODUCT_FIELDS}`)
    },
    async productBySku(sku) {
      return listProducts(`products/${encodeId(supplierBIdSchema.parse(sku))}?fields=${PRODUCT_FIELDS}`)
    },
  }
}

function encodeId(id: string): string {
  return encodeURIComponent(id.toWellFormed())
}

function makeRequest({ baseUrl, credentials }: SupplierConnection<SupplierBCredentials>, path: string) {
  const login = new TextEncoder().encode(`${credentials.account_number}:${credentials.api_key}`)
  return {
    url: `${baseUrl.replace(/(?<!\/)\/+$/, '')}/v2/${path}`,
    method: 'GET',
    headers: { Authorization: `Basic ${btoa(String.fromCharCode(...login))}`, Accept: 'application/json' },
  } as const
}

/** The rows of an answer. What is unknown or discontinued, and a search without a match, has none. */
function rowsOf(response: SupplierResponse): Record<string, unknown>[] {
  if (response.status === 404 && response.body.trim() === '') return []
  const json = readJson(response)
  if (response.status === 404 && isNotFound(json)) return []
  if (response.status !== 200 || !Array.isArray(json) || !json.every(isObject)) throw notUnderstood(response)
  return json
}

function readJson(response: SupplierResponse): unknown {
  try {
    return JSON.parse(response.body)
  } catch {
    throw notUnderstood(response)
  }
}

/** A wrong address is a 404 as well, with `message` and no `errors`: that is our failure, not an unknown style. */
function isNotFound(json: unknown): boolean {
  return isObject(json) && Array.isArray(json.errors) && json.errors.length > 0
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function notUnderstood(response: SupplierResponse): Error {
  return unavailable(SUPPLIER, `the answer was not understood, HTTP ${response.status}`)
}
