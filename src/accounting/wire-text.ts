/*
 * What the accounting system takes of a text. Its reference gives these limits in characters; it refuses a colon, a tab
 * and a line break in a display name (2040).
 */
const LONGEST_NAME = 500
const LONGEST_NUMBER = 21
const LONGEST_TEXT = 4_000
const LONGEST_EMAIL = 100
/** The names tried for one customer: the plain one, `(customer)`, `(customer 2)` and so on. */
const NAMES_PER_CUSTOMER = 21

/** Cuts to `max` UTF-16 code units, never through the middle of a character of two. */
function cut(text: string, max: number): string {
  if (text.length <= max) return text
  const start = text.slice(0, max)
  return /[\uD800-\uDBFF]$/.test(start) ? start.slice(0, -1) : start
}

/** A text of one line: whatever is white space or a control character becomes one space. */
export function cleanLine(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim()
}

/** A text for people, at most 4,000 characters: line breaks and tabs stay, other control characters become spaces. */
export function cleanProse(text: string): string {
  return cut(
    text
      .toWellFormed()
      .replaceAll(/\r\n?/g, '\n')
      .replaceAll(/[^\P{Cc}\n\t]/gu, ' '),
    LONGEST_TEXT,
  )
}

/** At most 21 characters. Of a longer number the end is kept, where rising numbers differ. */
export function formatDocNumber(number: string): string {
  const end = cleanLine(number).slice(-LONGEST_NUMBER)
  return /^[\uDC00-\uDFFF]/.test(end) ? end.slice(1) : end
}

/** Null for an address that the accounting system would refuse. */
export function formatEmail(email: string | null): string | null {
  return email !== null && email.length <= LONGEST_EMAIL && email === cleanLine(email) ? email : null
}

/** A client's name as a customer may have it; empty when nothing is left of it. */
export function toDisplayName(name: string): string {
  return cut(cleanLine(name.replaceAll(':', ' - ')), LONGEST_NAME).trim()
}

/**
 * The names under which a customer may stand, in the order in which they are tried: the plain one may belong to a
 * vendor, an employee or an inactive customer, for all of them share their names.
 */
export function listDisplayNames(displayName: string): string[] {
  return Array.from({ length: NAMES_PER_CUSTOMER }, (_, index) => {
    if (index === 0) return displayName
    const suffix = index === 1 ? ' (customer)' : ` (customer ${index})`
    return `${cut(displayName, LONGEST_NAME - suffix.length).trimEnd()}${suffix}`
  })
}
