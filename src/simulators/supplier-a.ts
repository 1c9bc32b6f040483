import { type Call, type SimulatedResponse, type Simulator, startSimulator } from './kit.ts'
import {
  type Account,
  CREDENTIALS,
  ENDPOINT_PATH,
  OTHER_CREDENTIALS,
  type Row,
  rowsOf,
} from './supplier-a-catalogue.ts'

export { CREDENTIALS, ENDPOINT_PATH } from './supplier-a-catalogue.ts'

const OPERATION = 'getProductInfoByStyleColorSize'
const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/'
const NAMESPACE_START = 'http://impl.webservice.integration.'

interface Query {
  color: string | undefined
  size: string | undefined
  style: string
}

/**
 * Starts a local supplier_a: a SOAP 1.1 product service at {@link ENDPOINT_PATH} that knows {@link CREDENTIALS} and
 * {@link OTHER_CREDENTIALS}. It responds in the namespace of the request, whatever domain that ends with.
 */
export function startSupplierA(port = 0): Promise<Simulator> {
  return startSimulator(() => ({}), handle, port)
}

function handle(call: Call): SimulatedResponse {
  if (call.path.split('?')[0] !== ENDPOINT_PATH) return html(404, 'Not Found')
  if (call.method !== 'POST') return html(405, 'Method Not Allowed')
  if (!call.headers['content-type']?.startsWith('text/xml')) return fault('Client', 'Unsupported Content-Type')
  if (call.headers.soapaction !== '' && call.headers.soapaction !== '""') {
    return fault('Client', 'The given SOAPAction does not match an operation.')
  }
  return handleOperation(call.body)
}

function handleOperation(xml: string): SimulatedResponse {
  const [, prefix, inner] =
    new RegExp(`<([\\w-]+):${OPERATION}(?: [^>]*)?>(.*)</\\1:${OPERATION}>`, 's').exec(xml) ?? []
  const namespace = new RegExp(`xmlns:${prefix}="([^"]*)"`).exec(xml)?.[1]
  if (inner === undefined || !namespace?.startsWith(NAMESPACE_START) || !xml.includes(`"${SOAP}"`)) {
    return fault('Client', 'Unmarshalling Error: unexpected element')
  }
  const shape = /^\s*((?:<arg0>.*?<\/arg0>\s*)+)<arg1>(.*)<\/arg1>\s*$/s.exec(inner)
  const queries = [...(shape?.[1] ?? '').matchAll(/<arg0>(.*?)<\/arg0>/gs)].map(([, text]) => readQuery(text ?? ''))
  const account = readAccount(shape?.[2] ?? '')
  if (!account || queries.length === 0 || queries.includes(undefined)) {
    return fault('Client', 'Unmarshalling Error: cvc-complex-type.2.4.a: invalid content was found')
  }
  const known = [CREDENTIALS, OTHER_CREDENTIALS].find((each) => JSON.stringify(each) === JSON.stringify(account))
  if (!known) return refusal(namespace, `User authentication failed for ${escapeXml(account.username)}`)

  const rows = queries.flatMap((query) => (query ? findRows(query, known) : []))
  if (rows.length > 0) return soap(200, rowsEnvelope(namespace, rows))
  const [first] = queries
  return refusal(namespace, `Invalid Style ${escapeXml(first?.style ?? '')} or combination of style, color and size`)
}

// A colour is known here by its catalogue name only, and each in the catalogue's own spelling.
function findRows({ style, color, size }: Query, account: Account): Row[] {
  return rowsOf(style, account).filter(
    ({ productBasicInfo: info }) =>
      (color === undefined || info.catalogColor === color) && (size === undefined || info.size === size),
  )
}

function readQuery(xml: string): Query | undefined {
  const pattern = /^\s*(?:<color>([^<]+)<\/color>\s*)?(?:<size>([^<]+)<\/size>\s*)?<style>([^<]+)<\/style>\s*$/
  const [, color, size, style] = pattern.exec(xml)?.map((text) => text && unescapeXml(text)) ?? []
  return style === undefined ? undefined : { color, size, style }
}

function readAccount(xml: string): Account | undefined {
  const pattern =
    /^\s*<customerNumber>([^<]*)<\/customerNumber>\s*<userName>([^<]*)<\/userName>\s*<userPassword>([^<]*)<\/userPassword>\s*$/
  const [, number, username, password] = pattern.exec(xml) ?? []
  if (number === undefined || username === undefined || password === undefined) return undefined
  return {
    customer_number: unescapeXml(number),
    username: unescapeXml(username),
    password: unescapeXml(password),
  }
}

function rowsEnvelope(namespace: string, rows: readonly Row[]): string {
  const lists = rows.map((row) => `<listResponse>${Object.entries(row).map(groupXml).join('')}</listResponse>`)
  return envelope(namespace, `<errorOccured>false</errorOccured><message>Success</message>${lists.join('')}`)
}

function groupXml([name, fields]: [string, Record<string, string>]): string {
  const elements = Object.entries(fields).map(([key, text]) => `<${key}>${escapeXml(text)}</${key}>`)
  return `<${name}>${elements.join('')}</${name}>`
}

function refusal(namespace: string, message: string): SimulatedResponse {
  return soap(200, envelope(namespace, `<errorOccured>true</errorOccured><message>${message}</message>`))
}

function envelope(namespace: string, content: string): string {
  return (
    `<?xml version="1.0" encoding="UTF-8"?><S:Envelope xmlns:S="${SOAP}"><S:Body>` +
    `<ns2:${OPERATION}Response xmlns:ns2="${namespace}"><return>${content}</return></ns2:${OPERATION}Response>` +
    `</S:Body></S:Envelope>`
  )
}

function fault(code: string, text: string): SimulatedResponse {
  const body =
    `<?xml version="1.0" encoding="UTF-8"?><S:Envelope xmlns:S="${SOAP}"><S:Body><S:Fault>` +
    `<faultcode>S:${code}</faultcode><faultstring>${escapeXml(text)}</faultstring></S:Fault></S:Body></S:Envelope>`
  return soap(500, body)
}

function soap(status: number, body: string): SimulatedResponse {
  return { status, headers: { 'content-type': 'text/xml;charset=utf-8' }, body }
}

function html(status: number, title: string): SimulatedResponse {
  return { status, headers: { 'content-type': 'text/html' }, body: `<html><body><h1>${title}</h1></body></html>` }
}

function escapeXml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
    .replaceAll('®', '&#xAE;')
}

function unescapeXml(text: string): string {
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&apos;', "'")
    .replaceAll('&amp;', '&')
}
