import { readXml } from '../../http/xml.ts'

const OPERATION = 'getProductInfoByStyleColorSize'
const MAX_DEPTH = 16
const MAX_ROWS = 10_000

export interface ProductInfoRequest {
  namespace: string
  style: string
  /** The credential fields in the order in which the service wants them: element name and text. */
  login: readonly (readonly [name: string, text: string])[]
}

/** What a product information answer holds, not yet judged. */
export interface ProductInfoAnswer {
  /** The text of a `Fault`, null where there is none. */
  fault: string | null
  /** True when there is a `return`: without one this is no answer of the operation. */
  answered: boolean
  /** The error flag as sent, under either spelling; null where it was left out. */
  failed: boolean | null
  message: string
  /** One map a `listResponse`: element name to text, the groups merged, since no name is in two of them. */
  rows: Map<string, string>[]
}

/** The SOAP 1.1 envelope that asks for every variant of a style. Only the operation is namespaced, as the service wants. */
export function writeProductInfoRequest({ namespace, style, login }: ProductInfoRequest): string {
  const fields = login.map(([name, text]) => `<${name}>${escapeXml(text)}</${name}>`).join('')
  return (
    '<?xml version="1.0" encoding="UTF-8"?>' +
    `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" xmlns:impl="${escapeXml(namespace)}">` +
    `<soap:Body><impl:${OPERATION}><arg0><style>${escapeXml(style)}</style></arg0><arg1>${fields}</arg1>` +
    `</impl:${OPERATION}></soap:Body></soap:Envelope>`
  )
}

/**
 * Reads an answer; its rows are bounded.
 *
 * @throws Error when the text is not such XML; the message may quote it, so it must not be shown or logged
 */
export function readProductInfoAnswer(xml: string): ProductInfoAnswer {
  const answer: ProductInfoAnswer = { fault: null, answered: false, failed: null, message: '', rows: [] }
  let row: Map<string, string> | null = null
  readXml(xml, MAX_DEPTH, {
    open: (path) => {
      if (!isAt(path, 'listResponse')) return
      row = new Map()
      if (answer.rows.push(row) > MAX_ROWS) throw new Error('too many rows')
    },
    close: (path, text, isLeaf) => {
      const [root, body, wrapper, content] = path
      if (row && isLeaf) row.set(path.at(-1) ?? '', text)
      else if (body === 'Body' && wrapper === 'Fault') {
        if (path.length === 3) answer.fault ??= ''
        if (content === 'faultstring') answer.fault = text
      } else if (isAt(path, 'message')) answer.message = text.trim()
      else if (isAt(path, 'errorOccured') || isAt(path, 'errorOccurred')) answer.failed = isTrue(text)
      if (isAt(path, 'listResponse')) row = null
      if (root === 'Envelope' && path.length === 4 && content === 'return') answer.answered = true
    },
  })
  return answer
}

/** Whether this is `Envelope/Body/…Response/return/name`. */
function isAt(path: readonly string[], name: string): boolean {
  return path.length === 5 && path[4] === name && path[3] === 'return' && path[1] === 'Body'
}

function isTrue(text: string): boolean {
  return ['true', '1'].includes(text.trim().toLowerCase())
}

/** Escapes a text for an element or attribute. What XML 1.0 cannot hold at all becomes U+FFFD, which names nothing. */
function escapeXml(text: string): string {
  return (
    text
      .toWellFormed()
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is to be replaced
      .replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&quot;')
  )
}
