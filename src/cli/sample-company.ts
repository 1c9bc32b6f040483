import { readFileSync } from 'node:fs'
import { isoDate } from '../http/contract.ts'
import { checkSeed, type SeedFile } from './seed-file.ts'

const DAY_MS = 86_400_000
const DATE_TIME = /(?<=")\d{4}-\d\d-\d\dT[\d:]+Z(?=")/g
/** A date, or the date of a date-time. */
const DATE = /(?<=")\d{4}-\d\d-\d\d(?=["T])/g

/**
 * The sample company of `sample-company.json`, a seed file, with a year of orders. All its dates are moved by the same
 * number of whole days, so that its latest date-time is within the 24 hours before `now`.
 */
export function readSampleCompany(now: number): SeedFile {
  const text = readFileSync(new URL('sample-company.json', import.meta.url), 'utf8')
  const latest = Math.max(...Array.from(text.matchAll(DATE_TIME), ([dateTime]) => Date.parse(dateTime)))
  const movedMs = Math.floor((now - latest) / DAY_MS) * DAY_MS
  const moved = text.replaceAll(DATE, (date) => isoDate(Date.parse(date) + movedMs))
  return checkSeed(JSON.parse(moved), 'The sample company')
}
