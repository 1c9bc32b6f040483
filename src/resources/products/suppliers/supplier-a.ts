import * as z from 'zod/mini'
import { component, oneLine } from '../../../kernel/api/contract.ts'
import { invalid } from '../../../kernel/http/errors.ts'
import { readXml } from '../../../kernel/http/xml.ts'
import { findStyleCandidates } from '../style-token.ts'
import type { Lifetime, ProductQuery, Row, SupplierConnection } from './supplier.ts'
import { defineFields, fetchItems, field, nonEmptyText, SupplierError, secret, textOrNull } from './supplier.ts'

const OPERATION = 'getProductInfoByStyleColorSize'
const MAX_STYLES = 2
const MAX_DEPTH = 16
const MAX_ROWS = 10_000

const CATALOG_COLOR = "The colour's short name in the supplier's catalogue, which its orders use."
const DATE = 'Date as the supplier sends it.'
const IMAGE = 'Image address as the supplier sends it.'

const variantFields = defineFields({
  title: field.text('productTitle'),
  brand: field.text('brandName'),
  category: field.text('category'),
  color: field.text(['color', 'catalogColor'], 'Display name of the colour.'),
  catalog_color: field.text('catalogColor', CATALOG_COLOR),
  size: field.text('size'),
  size_index: field.number('sizeIndex', 'Rank of the size within the style.'),
  inventory_key: field.text('inventoryKey'),
  unique_key: field.text('uniqueKey', "The supplier's key of this style, colour and size."),
  status: field.text('productStatus', 'Product status in the supplier’s words.'),
  piece_weight: field.number('pieceWeight', 'Weight of one piece in the unit of the supplier.'),
  case_size: field.number('caseSize', 'Pieces in a case.'),
  piece_price: field.price('piecePrice'),
  piece_sale_price: field.price('pieceSalePrice'),
  dozen_price: field.price('dozenPrice'),
  dozen_sale_price: field.price('dozenSalePrice'),
  case_price: field.price('casePrice'),
  case_sale_price: field.price('caseSalePrice'),
  map_price: field.price('mapPrice', 'Minimum advertised price.'),
  sale_start_date: field.text('saleStartDate', DATE),
  sale_end_date: field.text('saleEndDate', DATE),
  product_image: field.text(['colorProductImage', 'productImage'], IMAGE),
  swatch_image: field.text(['colorSwatchImage', 'colorSquareImage'], IMAGE),
  front_image: field.text(['frontModel', 'frontFlat'], IMAGE),
  back_image: field.text(['backModel', 'backFlat'], IMAGE),
})

export const supplierAVariantSchema = component(
  'SupplierAVariant',
  "A style in one colour and size, with the company's own prices; what the supplier left out is null.",
  { style: nonEmptyText.check(z.describe('Style number in upper case.')), ...variantFields.shape },
)

export type SupplierAVariant = z.output<typeof supplierAVariantSchema>

const { title, brand, piece_price } = variantFields.shape

export const supplierASummarySchema = component('SupplierASummary', 'The style in short.', {
  style: nonEmptyText,
  title,
  brand,
  colors: z.array(z.string()).check(z.describe('Display names in catalogue order.')),
  sizes: z.array(z.string()).check(z.describe('Smallest first.')),
  price_min: piece_price.check(z.describe('Lowest regular price of one piece.')),
  price_max: piece_price.check(z.describe('Highest regular price of one piece.')),
})

export const supplierASearchSchema = z.strictObject({
  style: z.nullable(z.string()).check(z.describe('The style number found in `q`.')),
  products: z.array(supplierAVariantSchema),
  count: z.int().check(z.nonnegative()),
  summary: z.nullable(supplierASummarySchema),
})

/** Summarises a style, or null without variants. Prices are the regular ones of a single piece. */
export function summarise(style: string, variants: readonly SupplierAVariant[]) {
  if (variants.length === 0) return null
  const bySize = variants.toSorted((a, b) => (a.size_index ?? Infinity) - (b.size_index ?? Infinity) || 0)
  const prices = distinct(variants.map(({ piece_price }) => piece_price)).sort((a, b) => a - b)
  return {
    style,
    title: distinct(variants.map(({ title }) => title))[0] ?? null,
    brand: distinct(variants.map(({ brand }) => brand))[0] ?? null,
    colors: distinct(variants.map(({ color }) => color)),
    sizes: distinct(bySize.map(({ size }) => size)),
    price_min: prices[0] ?? null,
    price_max: prices.at(-1) ?? null,
  }
}

function distinct<Value>(values: readonly (Value | null)[]): Value[] {
  return [...new Set(values)].filter((value) => value !== null)
}

/**
 * Filters variants by colour and size, ignoring case; a blank filter is skipped. A colour may be its display or
 * catalogue name. The service knows only the latter, so the filter runs here.
 */
function filterVariants(variants: readonly SupplierAVariant[], { color, size }: ProductQuery) {
  const fold = (name: string | null | undefined) => (name ?? '').trim().toLowerCase()
  const fits = (wanted: string | undefined, ...names: (string | null)[]) =>
    fold(wanted) === '' || names.some((name) => fold(name) === fold(wanted))
  return variants.filter((each) => fits(color, each.color, each.catalog_color) && fits(size, each.size))
}

/** An unknown style is cached for an hour and never served stale. */
const UNKNOWN_STYLE: Lifetime = { freshMs: 3_600_000, maxAgeMs: 3_600_000 }

/** `namespace` is the service's own; most integrations do not need it. */
const login = { customer_number: secret, username: secret, password: secret }
const credentials = z.strictObject({ ...login, namespace: z.optional(oneLine(2048)) })

type Connection = SupplierConnection<z.output<typeof credentials>>

/** A SOAP 1.1 product service at `baseUrl`: one POST for each style, without search and paging. */
export const supplierA = {
  name: 'supplier_a',
  credentials,
  search(q: string) {
    const styles = findStyleCandidates(q).slice(0, MAX_STYLES)
    return {
      lookups: styles.map(lookupStyle),
      present(products: SupplierAVariant[], index: number) {
        const style = styles[index] ?? null
        const summary = style === null ? null : summarise(style, products)
        return { supplier_a: { style, products, count: products.length, summary } }
      },
    }
  },

  find(query: ProductQuery) {
    const { style, color = null, size = null } = query
    if (style === undefined) throw invalid([{ path: 'style', message: 'is required' }])
    const select = (variants: SupplierAVariant[]) => filterVariants(variants, query)
    return { lookup: lookupStyle(style), parameters: { style, color, size }, select }
  },
} as const

/** Looks up all variants of exactly this style, ignoring case; none if the supplier does not know it. */
function lookupStyle(text: string) {
  const style = text.trim().toUpperCase()
  return {
    name: `style ${style}`,
    emptyLifetime: UNKNOWN_STYLE,
    async fetch(connection: Connection): Promise<SupplierAVariant[]> {
      const headers = { 'Content-Type': 'text/xml; charset=utf-8', SOAPAction: '""', Accept: 'text/xml' }
      const request = { url: connection.baseUrl, headers, body: writeEnvelope(connection, style) }
      const variants = await fetchItems(connection, { ...request, method: 'POST' }, rowsOf, toVariant)
      // The service matches by prefix too: PC61Y comes with PC61.
      return variants.filter((variant) => variant.style === style)
    },
  }
}

/** Writes the request for every variant of a style. Only the operation is namespaced, as the service expects. */
function writeEnvelope({ baseUrl, credentials }: Connection, style: string): string {
  const { customer_number, username, password, namespace = defaultNamespace(baseUrl) } = credentials
  return (
    '<?xml version="1.0" encoding="UTF-8"?>' +
    `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" xmlns:impl="${escapeXml(namespace)}">` +
    `<soap:Body><impl:${OPERATION}><arg0><style>${escapeXml(style)}</style></arg0>` +
    `<arg1><customerNumber>${escapeXml(customer_number)}</customerNumber><userName>${escapeXml(username)}</userName>` +
    `<userPassword>${escapeXml(password)}</userPassword></arg1></impl:${OPERATION}></soap:Body></soap:Envelope>`
  )
}

/**
 * The service's namespace ends with the supplier's domain: by default the last two labels of the endpoint's host. The
 * closing slash is how the usual SOAP stacks make namespaces of this form (inferred).
 */
export function defaultNamespace(baseUrl: string): string {
  const host = URL.parse(baseUrl)?.hostname ?? ''
  const domain = /^[\d.]+$/.test(host) ? host : host.split('.').slice(-2).join('.')
  return `http://impl.webservice.integration.${domain}/`
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Escapes a text for an element or attribute. Characters outside of XML 1.0 become U+FFFD, which names nothing. */
function escapeXml(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are replaced
  const special = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff&<>"]/g
  return text.toWellFormed().replaceAll(special, (character) => ENTITIES[character] ?? '\ufffd')
}

/** The service has no error codes, only messages. @throws Error for a response without a result */
function rowsOf(status: number, body: string): Row[] {
  const { texts, rows } = readEnvelope(body)
  const fault = texts.has('Fault') ? (texts.get('Fault/faultstring') ?? '') : null
  const message = texts.get('return/message')?.trim() ?? ''
  // The flag is optional: a message without rows and flag is an error too.
  const flag = texts.get('return/errorOccured') ?? texts.get('return/errorOccurred')
  const hasFailed = flag === undefined ? rows.length === 0 && message !== '' : /^\s*(true|1)\s*$/i.test(flag)

  if (fault === null && (status !== 200 || !texts.has('return'))) throw new Error('no result')
  if (fault === null && !hasFailed) return rows
  if (/authenticat/i.test(fault ?? message)) throw SupplierError.rejectedCredentials()
  if (fault === null && /invalid style|not found|no data/i.test(message)) return []
  throw new SupplierError('supplier_unavailable', `an error was reported, HTTP ${status}`)
}

/** Texts to read, of rows and besides them; a response may hold any number of others. */
const ROW_TEXTS = ['style', ...variantFields.names]
const TEXTS = ['Fault', 'Fault/faultstring', 'return', 'return/message', 'return/errorOccured', 'return/errorOccurred']

/**
 * A row is a `listResponse`, its groups merged, since their names are distinct.
 *
 * @throws Error when the text is not such XML or has too many rows; the message may quote it, so it must not be logged
 */
export function readEnvelope(xml: string): { texts: Map<string, string>; rows: Row[] } {
  const texts = new Map<string, string>()
  const rows: Row[] = []
  let row: Record<string, string> | null = null
  readXml(xml, MAX_DEPTH, {
    open(path) {
      if (pathInBody(path) !== 'return/listResponse') return
      row = {}
      if (rows.push(row) > MAX_ROWS) throw new Error('too many rows')
    },
    close(path, text) {
      const name = pathInBody(path)
      if (name === 'return/listResponse') row = null
      else if (row && ROW_TEXTS.includes(path.at(-1) ?? '') && text.trim() !== '') row[path.at(-1) ?? ''] = text
      else if (TEXTS.includes(name)) texts.set(name, text)
    },
  })
  return { texts, rows }
}

/** Strips `Envelope/Body` and the name of the operation's response from a path; blank for other paths. */
function pathInBody(path: readonly string[]): string {
  if (path.length > 5 || path[0] !== 'Envelope' || path[1] !== 'Body') return ''
  return path.slice(path[2] === 'Fault' ? 2 : 3).join('/')
}

export function toVariant(row: Row): SupplierAVariant | null {
  const style = textOrNull(row.style)
  return style === null ? null : { style: style.toUpperCase(), ...variantFields.read(row) }
}
