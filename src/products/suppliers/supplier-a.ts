import * as z from 'zod/mini'
import { type ProductInfoAnswer, readProductInfoAnswer, writeProductInfoRequest } from './soap.ts'
import {
  callSupplier,
  rejectedCredentials,
  type SupplierAnswer,
  type SupplierConnection,
  type SupplierResponse,
  unavailable,
} from './supplier.ts'
import { type SupplierAVariant, toVariant } from './variants.ts'

const SUPPLIER = 'supplier_a'

const elementName = z.string().check(z.regex(/^[A-Za-z_][\w.-]{0,63}$/))

/** What a company's integration keeps to log in. Namespace and element names are the service's own; most need neither. */
export const supplierACredentialsSchema = z.strictObject({
  customer_number: z.string().check(z.minLength(1)),
  username: z.string().check(z.minLength(1)),
  password: z.string().check(z.minLength(1)),
  namespace: z.optional(z.string().check(z.minLength(1))),
  elements: z.optional(
    z.strictObject({
      customer_number: z._default(elementName, 'customerNumber'),
      username: z._default(elementName, 'userName'),
      password: z._default(elementName, 'userPassword'),
    }),
  ),
})

export type SupplierACredentials = z.infer<typeof supplierACredentialsSchema>

export interface SupplierA {
  /**
   * All variants of exactly this style, case ignored; none when the supplier does not know it.
   *
   * @throws SupplierError
   */
  fetchStyle(style: string): Promise<SupplierAnswer<SupplierAVariant[]>>
}

/**
 * A client of supplier_a: a SOAP 1.1 product service, one POST for a style. `baseUrl` is the endpoint's whole address.
 * There is no search and no paging; the service gives no count of calls left.
 */
export function connectSupplierA(connection: SupplierConnection<SupplierACredentials>): SupplierA {
  return {
    async fetchStyle(style) {
      const wanted = style.trim().toUpperCase()
      const response = await callSupplier(SUPPLIER, connection, makeRequest(connection, wanted))
      const variants = rowsOf(response).map(toVariant)
      if (variants.length > 0 && variants.every((variant) => variant === null)) {
        throw unavailable(SUPPLIER, 'the answer was not understood')
      }
      // The service answers by prefix too: PC61Y comes with PC61.
      const data = variants.filter((variant) => variant !== null).filter((variant) => variant.style === wanted)
      return { data, rateLimitRemaining: null }
    },
  }
}

function makeRequest({ baseUrl, credentials }: SupplierConnection<SupplierACredentials>, style: string) {
  const { elements } = credentials
  const body = writeProductInfoRequest({
    namespace: credentials.namespace ?? defaultNamespace(baseUrl),
    style,
    login: [
      [elements?.customer_number ?? 'customerNumber', credentials.customer_number],
      [elements?.username ?? 'userName', credentials.username],
      [elements?.password ?? 'userPassword', credentials.password],
    ],
  })
  const headers = { 'Content-Type': 'text/xml; charset=utf-8', SOAPAction: '""', Accept: 'text/xml' }
  return { url: baseUrl, method: 'POST', headers, body } as const
}

/**
 * The service's namespace ends with the supplier's domain: the last two labels of the endpoint's host unless told
 * otherwise. The closing slash is how the usual SOAP stacks make namespaces of this form (inferred).
 */
export function defaultNamespace(baseUrl: string): string {
  const host = URL.parse(baseUrl)?.hostname ?? ''
  const domain = /^[\d.]+$/.test(host) ? host : host.split('.').slice(-2).join('.')
  return `http://impl.webservice.integration.${domain}/`
}

function rowsOf(response: SupplierResponse): Map<string, string>[] {
  const answer = readAnswer(response)
  if (answer.fault !== null) {
    if (/authenticat/i.test(answer.fault)) throw rejectedCredentials(SUPPLIER)
    throw unavailable(SUPPLIER, `a fault, HTTP ${response.status}`)
  }
  if (response.status !== 200 || !answer.answered) {
    throw unavailable(SUPPLIER, `the answer was not understood, HTTP ${response.status}`)
  }
  return hasFailed(answer) ? judgeMessage(answer.message) : answer.rows
}

function readAnswer(response: SupplierResponse): ProductInfoAnswer {
  try {
    return readProductInfoAnswer(response.body)
  } catch {
    throw unavailable(SUPPLIER, `the answer was not well-formed, HTTP ${response.status}`)
  }
}

// The flag is optional: a message that comes alone, without rows and without a flag, is an error too.
function hasFailed({ failed, message, rows }: ProductInfoAnswer): boolean {
  return failed ?? (rows.length === 0 && message !== '')
}

/** There are no error codes, only messages. An unknown style is no failure: it has no rows. */
function judgeMessage(message: string): [] {
  if (/authenticat/i.test(message)) throw rejectedCredentials(SUPPLIER)
  if (/invalid style|not found|no data/i.test(message)) return []
  throw unavailable(SUPPLIER, 'the supplier reported an error')
}
