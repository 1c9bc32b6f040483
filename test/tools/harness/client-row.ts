import { digitsOf, fold } from '../../../src/kernel/db/search.ts'

export const NEWEST = Date.UTC(2026, 9, 1)

const ADJECTIVES =
  'Harbor North Silver Maple Golden Blue River Summit Cedar Union Liberty Copper Prairie Granite Coastal'.split(' ')
const NOUNS =
  'Rowing Cycling Brewing Robotics Athletics Bakery Dental Motors Roofing Academy Foundry Chess Sailing Library'.split(
    ' ',
  )
const KINDS = 'Club Co School League Works Group Partners Studio Team Supply'.split(' ')
const NAMES = 'Ines Omar Lena Mateo Aiko Priya Jonas Fatima Tomás Chloé Noah Zofia Ivan Grace Hugo Amara'.split(' ')

const pick = (list: string[], n: number) => list[n % list.length] ?? ''

/** Names end in the id in base 36: all of it but its last digit, behind a name in S, is met by some clients. */
export function needleOf(id: number): string {
  return `S ${Math.max(36, id).toString(36).slice(0, -1).toUpperCase()}`
}

/** A client: those of other companies have the same names. */
export function clientRow(id: number) {
  // A spread that is the same on every run, without a pattern that an index could profit from.
  const n = (id * 2_654_435_761) % 4_294_967_296
  const company = `${pick(ADJECTIVES, n)} ${pick(NOUNS, n >>> 4)} ${pick(KINDS, n >>> 8)} ${id.toString(36)}`
  const first = pick(NAMES, n >>> 12)
  const last = `${pick(NOUNS, n >>> 16)}son`
  const email = `${first.toLowerCase()}.${id}@${pick(NOUNS, n >>> 4).toLowerCase()}.example`
  const phone = `(555) ${String(n % 10_000_000).padStart(7, '0')}`
  return {
    id,
    company_name: company,
    company_name_key: fold(company),
    first_name: first,
    first_name_key: fold(first),
    last_name: last,
    last_name_key: fold(last),
    email,
    email_key: fold(email),
    phone,
    phone_key: fold(phone),
    phone_digits: digitsOf(phone),
    created_at: NEWEST,
    updated_at: NEWEST,
  }
}
