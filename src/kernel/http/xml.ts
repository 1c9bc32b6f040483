import { SaxesParser } from 'saxes'

/** Local names of an element and its ancestors, outermost first. */
type Path = readonly string[]

interface Events {
  open: (path: Path) => void
  /** `text` is the element's text after its last child. */
  close: (path: Path, text: string, isLeaf: boolean) => void
}

/**
 * Parses untrusted XML element by element. The text must be well-formed to its end, so a truncated response is an error;
 * document types and entities are refused before parsing.
 *
 * @throws Error for other text, or elements deeper than `maxDepth`; the message may quote the text, so it must not be
 *   shown or logged
 */
export function readXml(xml: string, maxDepth: number, { open, close }: Events): void {
  if (/<!(?:DOCTYPE|ENTITY)/i.test(xml)) throw new Error('a document type or entity is refused')
  const path: string[] = []
  let text = ''
  let isLeaf = false
  const addText = (more: string) => {
    text += more
  }
  const parser = new SaxesParser({ position: false })
  parser.on('error', (error) => {
    throw error
  })
  parser.on('text', addText)
  parser.on('cdata', addText)
  parser.on('opentag', ({ name }) => {
    if (path.push(name.slice(name.indexOf(':') + 1)) > maxDepth) throw new Error('too deep')
    text = ''
    isLeaf = true
    open(path)
  })
  parser.on('closetag', () => {
    close(path, text, isLeaf)
    path.pop()
    text = ''
    isLeaf = false
  })
  parser.write(xml).close()
}
