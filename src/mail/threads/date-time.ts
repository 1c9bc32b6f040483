const DATE_TIME =
  /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,30}))?)?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)$/

const YEAR_10000_MS = Date.UTC(10_000, 0, 1)
const YEAR_0_MS = Date.parse('0000-01-01T00:00:00.000Z')

/**
 * The instant that an ISO 8601 date-time with an offset names, in milliseconds since the epoch; finer fractions are cut.
 * Null for any other text, for a day that no month has, and for an instant whose UTC year has not four digits.
 */
export function parseDateTime(text: string): number | null {
  const parts = DATE_TIME.exec(text)
  if (!parts) return null
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts
    .slice(1, 7)
    .map((part) => Number(part ?? 0))
  const [, , , , , , , fraction = '', sign, offsetHours = '0', offsetMinutes = '0'] = parts
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  // A day or month that does not exist would roll over into the next.
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null
  if (hour > 23 || minute > 59 || second > 59 || Number(offsetHours) > 23 || Number(offsetMinutes) > 59) return null
  date.setUTCHours(hour, minute, second, Number(fraction.padEnd(3, '0').slice(0, 3)))
  const offsetMs = (Number(offsetHours) * 60 + Number(offsetMinutes)) * 60_000
  const ms = date.getTime() + (sign === '-' ? offsetMs : -offsetMs)
  return ms >= YEAR_0_MS && ms < YEAR_10000_MS ? ms : null
}
