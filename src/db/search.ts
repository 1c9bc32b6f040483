import { type Placeholder, type SQL, sql } from 'drizzle-orm'

/** FTS5's trigram tokenizer finds nothing shorter. */
const TRIGRAM_LENGTH = 3

/** Between the fields of a search text; `fold` removes it from what people write, so no match crosses two fields. */
const FIELD_SEPARATOR = '\u001f'

/**
 * The form in which text is compared: canonical composition, and lower-cased then upper-cased, which makes equal what
 * differs only in case in any script (final sigma, sharp s and the like included). The Turkish dotted capital goes with
 * `i`, as the dotless small one does by itself. Control characters become spaces.
 */
export function fold(text: string): string {
  return text
    .normalize('NFC')
    .toLowerCase()
    .toUpperCase()
    .normalize('NFC')
    .replaceAll('\u0130', 'I')
    .replace(/\p{Cc}/gu, ' ')
}

/** The searchable form of several fields; what is null or blank is left out. */
export function searchText(fields: (string | null | undefined)[]): string {
  return fields.flatMap((field) => (field ? [fold(field)] : [])).join(FIELD_SEPARATOR)
}

/** The ASCII digits, full-width ones among them; everything else is dropped. */
export function digitsOf(text: string): string {
  return Array.from(text.normalize('NFKC').matchAll(/[0-9]/g), ([digit]) => digit).join('')
}

/** Whether a search text can be meant as a phone number: digits and the usual punctuation between them. */
function looksLikePhone(text: string): boolean {
  return /^[\d\s()+\-./]+$/.test(text) && /\d/.test(text)
}

/** An FTS5 phrase: with the trigram tokenizer a phrase is exactly a substring. */
function phrase(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}

function isIndexable(folded: string): boolean {
  return Array.from(folded).length >= TRIGRAM_LENGTH
}

/** What the columns of one full-text table must hold: an FTS5 expression, or null where the words are too short. */
export interface TextQuery {
  match: string | null
  /** Conditions of the short words, checked on the row itself. */
  rest: SQL[]
}

/** A substring in `text`, or, where it looks like a phone number, its digits in `digits`. */
export function clientQuery(q: string, columns: { text: SQL; digits: SQL }): TextQuery {
  const folded = fold(q)
  const digits = looksLikePhone(q) ? digitsOf(q) : ''
  if (isIndexable(folded) && (digits === '' || isIndexable(digits))) {
    const inText = `text : ${phrase(folded)}`
    return { match: digits ? `(${inText}) OR (digits : ${phrase(digits)})` : inText, rest: [] }
  }
  const inText = sql`instr(${columns.text}, ${folded}) > 0`
  return { match: null, rest: [digits ? sql`(${inText} OR instr(${columns.digits}, ${digits}) > 0)` : inText] }
}

/** Every word a substring of the text: words of three characters and more by the index, shorter ones on the row. */
export function wordsQuery(q: string, text: SQL): TextQuery {
  const words = fold(q).split(/\s+/u).filter(Boolean)
  const indexed = words.filter(isIndexable)
  return {
    match: indexed.length > 0 ? indexed.map(phrase).join(' AND ') : null,
    rest: words.filter((word) => !isIndexable(word)).map((word) => sql`instr(${text}, ${word}) > 0`),
  }
}

/** The rowids of a company in a full-text table: `slot << 53 | id`. */
export function inSlot(slot: number | Placeholder, rowid: SQL): SQL {
  return sql`${rowid} BETWEEN (CAST(${slot} AS INTEGER) << 53) AND (CAST(${slot} AS INTEGER) << 53 | 9007199254740991)`
}

/** The id behind a rowid of a full-text table. */
export function idOf(rowid: SQL): SQL {
  return sql`(${rowid} & 9007199254740991)`
}
