import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import { digitsOf, FIELD_SEPARATOR, fold } from './columns.ts'

/** FTS5's trigram tokenizer finds no shorter text. */
const TRIGRAM_LENGTH = 3

/** Around each character of the column `spaced`, see the migrations. */
const CHARACTER_SEPARATOR = '\u001e'

const PHRASE_LENGTH = 24

/** Allows the phrases of `BANANA` and `5555`: to compare every hit with them would take longer. */
const REPEATED_MAX = 4

/**
 * The start of a text that becomes a phrase; `seen` gets its trigrams. Few of them were seen before: FTS5 reads all places
 * of a trigram for each time that phrases have it, which takes 80 times as long where a row has hundreds of like letters.
 */
function startOf(text: string, seen: string[] = []): string {
  const characters = Array.from(text).slice(0, PHRASE_LENGTH)
  for (let at = 0; at + TRIGRAM_LENGTH <= characters.length; at++) {
    const trigram = characters.slice(at, at + TRIGRAM_LENGTH).join('')
    const isOver = seen.includes(trigram) && seen.length - new Set(seen).size >= REPEATED_MAX
    if (isOver) return characters.slice(0, at + TRIGRAM_LENGTH - 1).join('')
    seen.push(trigram)
  }
  return characters.join('')
}

const reversed = (text: string) => Array.from(text).reverse().join('')

/** Whether what is found must be compared with these texts. */
export const isLong = (texts: string[]) => texts.some((each) => startOf(each) !== each) || undefined

/** An FTS5 phrase: with the trigram tokenizer a phrase is exactly a substring. */
const phrase = (text: string) => `"${text.replaceAll('"', '""')}"`

/** Requires a substring of a column; only its start and its end if that {@link isLong}. Many names have the same start. */
function has(column: 'text' | 'digits', text: string, start = startOf(text), ends?: string[]): string {
  const all = start === text ? [text] : [start, reversed(startOf(reversed(text), ends))]
  const phrases = [...new Set(all)].filter(isIndexable)
  return phrases.map((each) => `${column} : ${phrase(each)}`).join(' AND ')
}

const isIndexable = (folded: string) => Array.from(folded).length >= TRIGRAM_LENGTH

/** An FTS5 expression for `text` and `spaced` that requires `folded` as a substring; only its ends if that {@link isLong}. */
export function substringMatch(folded: string): string {
  return isIndexable(folded) ? has('text', folded) : firstTrigram(folded)
}

/**
 * Matches a substring of `text` or, for a phone number of three digits or more, of `digits`; `spaced` has both.
 *
 * @returns an FTS5 expression, and the same as texts that a row contains; with `isLong` they are to be compared
 */
export function clientSearch(folded: string) {
  const match = substringMatch(folded)
  if (!isIndexable(folded)) return { match, folded, digits: folded }
  const mayBePhone = /^[\d\s()+\p{Pd}\u2212./]+$/u.test(folded.normalize('NFKC'))
  const digits = mayBePhone ? digitsOf(folded) : ''
  const texts = { folded, isLong: isLong([folded, digits]) }
  if (!isIndexable(digits)) return { match, ...texts }
  return { match: `(${match}) OR (${has('digits', digits)})`, ...texts, digits }
}

/**
 * An FTS5 expression for `text` and `spaced` that requires every word as a substring; null without any. A word that
 * another one contains is left out.
 *
 * The first trigrams of all words are matched first, inside a NOT so that FTS5 does not reorder them among the phrases:
 * for two common words that never occur together, phrases alone take three times as long.
 *
 * @returns also words, as JSON, if its hits are to be compared with them
 */
export function wordsSearch(q: string) {
  const all = [...new Set(fold(q).split(/\s+/u).filter(Boolean))]
  const words = all.filter((word) => !all.some((other) => other !== word && other.includes(word)))
  const [seen, ends]: string[][] = [[], []]
  const starts = words.filter(isIndexable).map((word) => [word, startOf(word, seen)] as const)
  const long = starts.flatMap(([word, start]) => has('text', word, start, ends) || [])
  const first = [...new Set(words.map(firstTrigram))].join(' AND ')
  const match = words.length > 1 ? [`((${first}) NOT ${NEVER})`, ...long].join(' AND ') : (long[0] ?? first)
  const cut = starts.flatMap(([word, start]) => (start === word ? [] : word))
  return match === '' ? null : { match, compared: cut.length > 0 ? JSON.stringify(cut) : undefined }
}

/** Matches nothing: no field is blank. */
const NEVER = `text : ${phrase(FIELD_SEPARATOR.repeat(TRIGRAM_LENGTH))}`

function firstTrigram(word: string): string {
  const characters = Array.from(word)
  if (characters.length >= TRIGRAM_LENGTH) return `text : ${phrase(characters.slice(0, TRIGRAM_LENGTH).join(''))}`
  const [first = '', second] = characters
  return `spaced : ${phrase((second ? [first, second] : ['', first, '']).join(CHARACTER_SEPARATOR))}`
}

/** The rowid of a company's row in a full-text table. SQLite gives `<<` and `|` the same precedence. */
export function rowidOf(slot: Placeholder, id: SQL): SQL {
  return sql`((CAST(${slot} AS INTEGER) << 53) | CAST(${id} AS INTEGER))`
}

export function inSlot(slot: Placeholder): SQL {
  return sql`BETWEEN ${rowidOf(slot, sql`0`)} AND ${rowidOf(slot, sql`9007199254740991`)}`
}

export const idOf = (rowid: SQL) => sql`(CAST(${rowid} AS INTEGER) & 9007199254740991)`
