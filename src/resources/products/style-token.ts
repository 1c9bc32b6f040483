const STYLE = /^[A-Z0-9]{2,12}(?:-[A-Z0-9]{1,6})?$/
const BARE_NUMBER = /^\d{3,6}$/
const YEAR = /^(?:19|20)\d\d$/
/** Longer words cannot be a style, even when trimmed. */
const MAX_WORD_LENGTH = 60

/** Letter sizes, from XXS to 5XL and tall ones; only their ranges can look like a style ("XS-4XL"). */
const LETTER_SIZE = /^(?:X{0,3}S|M|X{0,4}L)T?$/

/** Words with a letter and a digit that are no style. */
const STOP_LIST: readonly RegExp[] = [
  // Sizes: 2XL, 3XLT, 2XS, 4X, 5T, and months.
  /^\d{1,2}X(?:LT?|S)?$/,
  /^\d{1,2}T$/,
  /^(?:3|6|9|12|18|24)M$/,
  // Units, counts, weights, yarns, decades, races, times of day and ordinals: 6OZ, 24CT, 12PCS, 30S, 5K, 9AM, 1ST.
  /^\d+(?:OZ|CT|PCS?|PK|PACK|DZ|DOZ|EA|QTY|GSM|LBS?|KG|IN|FT|YDS?|MM|CM)$/,
  /^\d{1,2}S$/,
  /^(?:19|20)\d0S$/,
  /^\d{1,3}[KG]$/,
  /^\d{1,4}[AP]M$/,
  /^\d+(?:ST|ND|RD|TH)$/,
  // Measures: 10X12, 32X34.
  /^\d+X\d+(?:X\d+)?$/,
  // Papers, ink colours, sun factors and quarters, by their prefix.
  /^(?:PO|INV|UPF|SPF|FY|Q)-?\d+$/,
  /^PMS-?\d+[A-Z]{0,2}$/,
  // Paper sizes and the like: one letter and one digit.
  /^[A-Z]\d$/,
  /^(?:B2B|B2C|H2O|3D)$/,
]

/** The word after one of these is its number in any form: "PO 12345", "PMS 186C". */
const PREFIX_WORD = /^(?:PO|INV|INVOICE|ORDER|PMS|UPF|SPF|FY)$/
/** These may stand between "style" and its number: "style no. 5000". */
const NUMBER_WORD = /^(?:NO|NUM|NUMBER)$/

/**
 * Finds candidates for supplier_a's style numbers in a search text: in order, without duplicates, in upper case. A
 * number of 3–6 digits counts only as the whole text or after "style" or "#": elsewhere it is a quantity or a year.
 */
export function findStyleCandidates(text: string): string[] {
  const words = splitWords(text)
  const candidates = new Set<string>()
  let previous = ''
  // The previous word, except "#" and "no.".
  let lead = ''
  for (const word of words) {
    const isNamed = previous === '#' || lead === 'STYLE'
    const isWhole = words.length === 1 && !YEAR.test(word)
    const fits = BARE_NUMBER.test(word) ? isNamed || isWhole : isStyle(word)
    if (fits && !PREFIX_WORD.test(lead)) candidates.add(word)
    previous = word
    if (word !== '#' && !NUMBER_WORD.test(word)) lead = word
  }
  return [...candidates]
}

/** Currency and percent signs stay on, so that "$500" and "100%" are no numbers. */
const AROUND_WORD = /^[^\p{L}\p{N}\p{Sc}%]+|(?<=[\p{L}\p{N}\p{Sc}%])[^\p{L}\p{N}\p{Sc}%]+$/gu

/** Splits a text into upper-case words without punctuation around them; a `#` stays, as a word of its own. */
function splitWords(text: string): string[] {
  const words = text.replaceAll('#', ' # ').split(/[\s,]+/u)
  // Upper-casing can make ASCII of other letters ("ß" is "SS"), so only ASCII is upper-cased.
  return words
    .filter((word) => word.length <= MAX_WORD_LENGTH)
    .map((word) => (word === '#' ? word : word.replaceAll(AROUND_WORD, '')))
    .filter((word) => word !== '')
    .map((word) => (/^[!-~]*$/.test(word) ? word.toUpperCase() : word))
}

/** Whether a word has a style's form and is not on the stop list, whole or as a range: "XS-4XL", "2T-5T", "10-12PM". */
function isStyle(word: string): boolean {
  if (!STYLE.test(word) || !/[A-Z]/.test(word) || !/\d/.test(word)) return false
  const isListed = (part: string) => STOP_LIST.some((pattern) => pattern.test(part))
  const isRangeEnd = (part: string) => LETTER_SIZE.test(part) || isListed(part)
  const [from = '', to] = word.split('-')
  const isRange = to !== undefined && isRangeEnd(to) && (isRangeEnd(from) || /^\d+$/.test(from))
  return !isListed(word) && !isRange
}
