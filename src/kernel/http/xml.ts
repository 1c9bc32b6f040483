/// <reference path="./saxen.d.ts" />
import { Parser } from 'saxen'

/** A `path` has the local names of an element and its ancestors, outermost first. */
interface Events {
  open: (path: readonly string[]) => void
  /** `text` is the element's text after its last child. */
  close: (path: readonly string[], text: string) => void
}

/**
 * Parses untrusted XML element by element. Elements must match to the end of the text, so a truncated response is an
 * error; document types and entities are refused before parsing. Attributes are skipped unread.
 *
 * @throws Error for other text, or elements deeper than `maxDepth`; the message may quote the text, so it must not be
 *   shown or logged
 */
export function readXml(xml: string, maxDepth: number, { open, close }: Events): void {
  if (/<!(?:DOCTYPE|ENTITY)/i.test(xml)) throw new Error('a document type')
  const path: string[] = []
  let text = ''
  let hasEnded = false
  new Parser()
    // The parser only warns about text outside of the root.
    .on('warn', (error) => {
      throw error
    })
    .on('text', (raw) => {
      if (!raw.includes('&')) text += raw
      else if (raw.length > MAX_DECODED) throw new Error('too long')
      else text += raw.replaceAll(REFERENCE, decodeReference)
    })
    .on('cdata', (raw) => {
      text += raw
    })
    .on('openTag', (name) => {
      if (hasEnded) throw new Error('two roots')
      if (path.push(name.slice(name.indexOf(':') + 1)) > maxDepth) throw new Error('too deep')
      text = ''
      open(path)
    })
    .on('closeTag', () => {
      close(path, text)
      path.pop()
      text = ''
      hasEnded = path.length === 0
    })
    .parse(xml)
  if (!hasEnded) throw new Error('no element')
}

/** Every match of a text is held until all are replaced: 4 MB of them would take 600 MB. */
const MAX_DECODED = 100_000

/** An ampersand, with the rest of the reference that it must begin. */
const REFERENCE = /&(?:#(\d{1,7});|#x([\da-fA-F]{1,6});|(amp|lt|gt|apos|quot);)?/g

/** XML 1.0, 2.2: a reference may name these characters only. */
const CHARACTER = /^[\t\n\r\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]$/u

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', apos: "'", quot: '"' }

function decodeReference(_: string, decimal?: string, hexadecimal?: string, name = ''): string {
  const code = decimal ?? (hexadecimal && `0x${hexadecimal}`)
  const character = code === undefined ? ENTITIES[name] : String.fromCodePoint(Number(code))
  if (character === undefined || !CHARACTER.test(character)) throw new Error('an unknown reference')
  return character
}
