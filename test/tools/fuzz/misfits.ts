import { isObject, type JsonObject } from '../../../src/site/reference/json.ts'
import { resolve } from '../../support/conformance.ts'
import { typesOf } from './description.ts'
import { countCharacters, LONG } from './valid-requests.ts'

const TEXTS_OF_NO_USE = [
  ...['', ' ', '0', '-1', '+1', '01', '1.0', '1.5', '1e1', '0x1', ' 1', '1 ', '１', '١', 'NaN', 'Infinity', 'null'],
  ...['undefined', 'true', '[object Object]', '99999999999999999999', '9'.repeat(5_000)],
  ...['2026-02-30', '2025-02-29', '2026-13-01', '2026-00-10'],
  ...['20260101', '2026-1-1', '+12026-01-01', '2026-01-01T00:00:00Z'],
  ...['nobody', '@x.example', 'a@', 'a@b', 'a b@x.example'],
  ...['a@b@x.example', '.a@x.example', 'a..b@x.example', 'ä@x.example'],
  ...['__proto__', 'constructor', 'toString'],
  ...['\u0000', 'a\tb', 'a\r\nb', 'a\u0085b', 'a/b', 'a\\b', 'a b', '...', '🧵'],
]

/** Texts that a schema of a parameter or string does not allow, by what is wrong with them. */
export function misfitTexts(schema: JsonObject): string[][] {
  const max = Number(schema.maxLength ?? Number.POSITIVE_INFINITY)
  const tooLong = max <= LONG ? ['x'.repeat(max + 1), '🧵'.repeat(max + 1), 'é'.repeat(max * 2)] : []
  const maxBytes = Number(schema['x-max-bytes'] ?? 0)
  if (maxBytes > 0) tooLong.push('é'.repeat(maxBytes / 2 + 1))
  const useless = TEXTS_OF_NO_USE.filter((value) => !fits(value, schema))
  return [useless, tooLong].filter((group) => group.length > 0)
}

/** Broken percent-encodings, and right ones of what hardly anything expects. */
const ODD_ESCAPES = [
  ...['%', '%1', '%ZZ', '%E0%A4%A', '%ff', '%c0%ae%c0%ae', '%ed%a0%80'],
  ...['%00', '1%00', '%2F', '1%2f2', '%252e', '%0d%0a'],
]

/** Values as they are sent, percent-encoded oddly, that a schema does not allow however they are read. */
export function misfitEscapes(schema: JsonObject): string[] {
  return ODD_ESCAPES.filter((value) => isStrict(schema) && !fits(value, schema) && !fits(decode(value), schema))
}

/** As lenient as can be: what cannot be decoded stays. */
function decode(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}

const VALUES_OF_EVERY_TYPE: readonly [type: string, json: string][] = [
  ['null', 'null'],
  ['boolean', 'true'],
  ['boolean', 'false'],
  ['number', '1.5'],
  ['integer', '1'],
  ['string', '"1"'],
  ['string', '""'],
  ['array', '[]'],
  ['array', '["1"]'],
  ['array', `${'['.repeat(20_000)}${']'.repeat(20_000)}`],
  ['object', '{}'],
  ['object', '{"__proto__":1}'],
  ['object', '{"toString":1,"length":3}'],
  ['object', `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`],
]

const NUMBERS = [
  ...['-1', '-0.01', '0', '1.5', '0.001', '-1e-300', '1e300', '1e999', '-1e999'],
  ...['9007199254740992', '123456789012345678901234567890', '1000000000'],
]

/** JSON texts of values that a schema does not allow, by what is wrong with them. */
export function misfitValues(schema: JsonObject, { keepsLoneSurrogates = false } = {}): string[][] {
  const types = typesOf(schema)
  if (!types) return []
  const isAllowed = (type: string) => types.includes(type) || (type === 'integer' && types.includes('number'))
  const groups = [VALUES_OF_EVERY_TYPE.filter(([type]) => !isAllowed(type)).map(([, value]) => value)]
  if (types.includes('string')) {
    groups.push(...misfitTexts(schema).map((group) => group.map((value) => JSON.stringify(value))))
    if (!keepsLoneSurrogates && (schema.maxLength !== undefined || isStrict(schema))) groups.push(LONE_SURROGATES)
  }
  if (types.includes('integer') || types.includes('number')) {
    groups.push(NUMBERS.filter((number) => !isNumber(Number(number), schema)))
  }
  if (types.includes('array') && isObject(schema.items)) {
    const items = misfitValues(resolve(schema.items), { keepsLoneSurrogates })
    groups.push(...items.map((group) => group.flatMap((item) => [`[${item}]`, `[${item},${item}]`])))
  }
  return groups.filter((group) => group.length > 0)
}

const LONE_SURROGATES = ['"\\ud800"', '"a\\udc00\\ud800b"', '"a\\ud83e"']

const isNumber = (value: number, schema: JsonObject) =>
  Number.isFinite(value) && (schema.type === 'number' || Number.isInteger(value)) && isWithin(value, schema)

/** Whether a schema asks for more of a text than a length. */
function isStrict(schema: JsonObject): boolean {
  const { type, pattern, format } = schema
  return type === 'integer' || pattern !== undefined || format !== undefined || schema.enum !== undefined
}

/** Whether a text may stand where the schema is, as far as that is sure: white space around it may be cut off. */
export function fits(value: string, schema: JsonObject): boolean {
  if (schema.type === 'integer') return /^\d+$/.test(value) && isWithin(Number(value), schema)
  if (Array.isArray(schema.enum)) return schema.enum.includes(value)
  const length = countCharacters(value)
  if (length < Number(schema.minLength ?? 0) || length > Number(schema.maxLength ?? Number.POSITIVE_INFINITY))
    return false
  if (new TextEncoder().encode(value).length > Number(schema['x-max-bytes'] ?? Number.POSITIVE_INFINITY)) return false
  if (schema.format === 'date') return isDay(value)
  if (schema.format === 'date-time') return !Number.isNaN(Date.parse(value)) && /T.*(Z|[+-]\d\d:\d\d)$/.test(value)
  return typeof schema.pattern !== 'string' || new RegExp(schema.pattern, 'u').test(value.trim())
}

function isWithin(value: number, { minimum, maximum }: JsonObject): boolean {
  return value >= Number(minimum ?? Number.NEGATIVE_INFINITY) && value <= Number(maximum ?? Number.POSITIVE_INFINITY)
}

function isDay(value: string): boolean {
  const day = new Date(`${value}T00:00:00Z`)
  return /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(day.getTime()) && day.toISOString().startsWith(value)
}
