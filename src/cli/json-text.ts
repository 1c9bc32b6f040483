type Path = readonly (string | number)[]

const SPACE = /[ \t\r\n]*/y
/** RFC 8259 names the characters that need no escape by the same three ranges. */
const STRING = /"[ !#-[\]-\uffff]*(?:\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4})[ !#-[\]-\uffff]*)*"/y
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])/y

class JsonTextError extends Error {
  /** Of the first character that no JSON text could have there. */
  offset: number

  constructor(offset: number, expected: string) {
    super(`Expected ${expected}.`)
    this.offset = offset
  }
}

/**
 * Reads a JSON text only for the places of its values (RFC 8259), which `JSON.parse` does not tell.
 *
 * @param visit called with the path of each value below the root, valid during the call, and the offset of the value, of a
 *   member that of its name
 * @throws JsonTextError where the text is not JSON
 */
function scanJson(text: string, visit: (path: Path, offset: number) => void): void {
  const path: (string | number)[] = []
  let at = 0

  function match(pattern: RegExp, expected: string): string {
    pattern.lastIndex = at
    const [found] = pattern.exec(text) ?? []
    if (found === undefined) throw new JsonTextError(at, expected)
    at += found.length
    return found
  }
  function startsWith(character: string): boolean {
    match(SPACE, '')
    return text[at] === character
  }
  function skip(character: string): boolean {
    const isHere = startsWith(character)
    if (isHere) at += 1
    return isHere
  }
  function readList(end: string, readElement: (index: number) => void): void {
    if (skip(end)) return
    let index = 0
    do readElement(index++)
    while (skip(','))
    if (!skip(end)) throw new JsonTextError(at, `',' or '${end}'`)
  }
  function readChild(key: string | number, offset: number): void {
    path.push(key)
    visit(path, offset)
    readValue()
    path.pop()
  }
  function readMember(): void {
    match(SPACE, '')
    const offset = at
    const name: string = JSON.parse(match(STRING, 'a name in double quotes'))
    if (!skip(':')) throw new JsonTextError(at, "':'")
    readChild(name, offset)
  }
  function readElement(index: number): void {
    match(SPACE, '')
    readChild(index, at)
  }
  function readValue(): void {
    if (skip('{')) readList('}', readMember)
    else if (skip('[')) readList(']', readElement)
    else if (startsWith('"')) match(STRING, 'a string that is valid and ends on its line')
    else match(SCALAR, 'a value')
  }

  readValue()
  match(SPACE, '')
  if (at < text.length) throw new JsonTextError(at, 'the end of the file')
}

/** Where and why a text is not JSON, as a sentence. It quotes none of the text. */
export function describeSyntaxError(text: string): string {
  try {
    scanJson(text, () => undefined)
  } catch (error) {
    if (error instanceof JsonTextError) {
      return `${describePlace(text, error.offset)} is not valid JSON. ${error.message}`
    }
  }
  // It is nested too deeply.
  return 'not valid JSON.'
}

/**
 * "line 3, column 5" for each path: of its value, else of the innermost value around it. '' where the text is not JSON.
 */
export function locateValues(text: string, paths: Path[]): string[] {
  const offsets = new Map<string, number>()
  const wanted = new Set(paths.flatMap((path) => path.map((_, index) => path.slice(0, index + 1).join('\n'))))
  try {
    scanJson(text, (path, offset) => {
      const key = path.join('\n')
      if (wanted.has(key)) offsets.set(key, offset)
    })
  } catch {
    return []
  }
  return paths.map((path) => {
    const known = path.findLastIndex((_, index) => offsets.has(path.slice(0, index + 1).join('\n')))
    return describePlace(text, offsets.get(path.slice(0, known + 1).join('\n')) ?? 0)
  })
}

/** Lines and columns count from 1, columns in UTF-16 units, as editors do. */
function describePlace(text: string, offset: number): string {
  const before = text.slice(0, offset)
  return `line ${before.split('\n').length}, column ${offset - before.lastIndexOf('\n')}`
}
