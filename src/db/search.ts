import { type Placeholder, type SQL, sql } from 'drizzle-orm'

/** FTS5's trigram tokenizer finds nothing shorter. */
const TRIGRAM_LENGTH = 3

/** Around each character of the column `spaced`, see the migrations. */
const CHARACTER_SEPARATOR = '\u001e'

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

/** What a search of clients asks of the indexes. */
export interface ClientSearch {
  folded: string
  /** An expression for `clients_fts`; null where the text is too short for it and is looked up in `clients_grams`. */
  match: string | null
}

/**
 * A substring in `text`, or, where it looks like a phone number of three digits and more, its digits in `digits`. Shorter
 * texts are looked up among the grams of both.
 */
export function clientSearch(q: string): ClientSearch {
  const folded = fold(q)
  if (!isIndexable(folded)) return { folded, match: null }
  const digits = looksLikePhone(folded) ? digitsOf(folded) : ''
  const inText = `text : ${phrase(folded)}`
  return { folded, match: isIndexable(digits) ? `(${inText}) OR (digits : ${phrase(digits)})` : inText }
}

/** What a token of `clients_grams` begins with; the block of ids follows, see {@link gramBlock}. */
export function gramPrefix(slot: number, folded: string): string {
  const hex = Array.from(new TextEncoder().encode(folded), (byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${slot}x${hex}x`
}

/** A block of ids as tokens of `clients_grams` end in it: of one length, so that tokens are ordered by block. */
export function gramBlock(block: SQL): SQL {
  return sql`printf('%013d', ${block})`
}

/** The block at the end of a token of `clients_grams`. */
export function blockOfGram(term: SQL): SQL {
  return sql`CAST(substr(${term}, -13) AS INTEGER)`
}

/**
 * Every word a substring of the text, as an FTS5 expression for `text` and `spaced`; null where there is no word. Words
 * that another word contains are implied by it.
 *
 * The words' first trigrams are met first, inside a NOT so that FTS5 does not mix them with the phrases: of two words
 * that never stand together, phrases would take three times as long.
 */
export function wordsMatch(q: string): string | null {
  const all = [...new Set(fold(q).split(/\s+/u).filter(Boolean))]
  const words = all.filter((word) => !all.some((other) => other !== word && other.includes(word)))
  const long = words.filter(isIndexable).map((word) => `text : ${phrase(word)}`)
  if (words.length < 2) return long[0] ?? words.map(firstTrigram)[0] ?? null
  return [`((${words.map(firstTrigram).join(' AND ')}) NOT ${NEVER})`, ...long].join(' AND ')
}

/** No text holds it: fields are not blank. */
const NEVER = `text : ${phrase(FIELD_SEPARATOR.repeat(TRIGRAM_LENGTH))}`

function firstTrigram(word: string): string {
  const characters = Array.from(word)
  if (characters.length >= TRIGRAM_LENGTH) return `text : ${phrase(characters.slice(0, TRIGRAM_LENGTH).join(''))}`
  const [first = '', second] = characters
  const between = CHARACTER_SEPARATOR
  return `spaced : ${phrase(second ? first + between + second : between + first + between)}`
}

/** The rowids of a company in a full-text table, `slot << 53 | id`, as bounds. */
export function inSlot(slot: number | Placeholder): SQL {
  return sql`BETWEEN (CAST(${slot} AS INTEGER) << 53) AND (CAST(${slot} AS INTEGER) << 53 | 9007199254740991)`
}

/** The id behind a rowid of a full-text table. */
export function idOf(rowid: SQL): SQL {
  return sql`(${rowid} & 9007199254740991)`
}
