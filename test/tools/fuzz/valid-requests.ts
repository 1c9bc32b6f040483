import fc from 'fast-check'
import { isObject, type Json, type JsonObject } from '../../../src/site/reference/json.ts'
import { resolve } from '../../support/conformance.ts'
import { isOpen, type Operation, type Parameter, propertiesOf, requiredOf, typesOf } from './description.ts'
import { fits } from './misfits.ts'
import type { Draft } from './oracles.ts'
import { PREFERRED, PREFERRED_TEXT } from './rules.ts'

/** Requests of an operation that its description allows, in every way of writing them. */
export function validRequest(operation: Operation): fc.Arbitrary<Draft> {
  const path = Object.fromEntries(operation.pathParameters.map((one) => [one.name, pathValue(one)]))
  const query = Object.fromEntries(operation.queryParameters.map((one) => [one.name, queryValue(one)]))
  const requiredKeys = operation.queryParameters.filter(({ required }) => required).map(({ name }) => name)
  return fc
    .record({
      path: fc.record(path),
      query: fc.record(query, { requiredKeys }),
      members: operation.body ? bodyMembers(operation) : fc.constant(null),
      mediaType: fc.constantFrom(...MEDIA_TYPES),
      headers: fc.record(otherHeaders(operation), { requiredKeys: [] }),
      isHead: operation.method === 'GET' ? fc.integer({ min: 0, max: 9 }).map((die) => die === 9) : fc.constant(false),
      hasSlash: fc.integer({ min: 0, max: 9 }).map((die) => die === 9),
    })
    .map(({ path, query, members, mediaType, headers, isHead, hasSlash }) => ({
      operation,
      kind: 'valid',
      refusedWith: null,
      field: null,
      method: isHead ? 'HEAD' : operation.method,
      path,
      slash: hasSlash ? '/' : '',
      query: Object.entries(query).map(([name, value]): [string, string] => [name, value ?? '']),
      headers: { ...headers, ...(members && { 'content-type': mediaType }) },
      members,
      body: null,
      isAuthorized: true,
    }))
}

const MEDIA_TYPES = [
  'application/json',
  'application/json; charset=utf-8',
  'Application/JSON',
  ' application/json ;x=y',
]

/** Headers that change nothing, whatever they hold. */
const OTHER_HEADERS = {
  'x-request-id': fc.constantFrom('a b', 'x'.repeat(129), '{"a":1}', '../../..', ''),
  'x-bookmark': fc.constantFrom('', '0', "'; --", 'x'.repeat(5_000), `${'f'.repeat(8)}-`.repeat(3) + 'f'.repeat(32)),
  'if-none-match': fc.constantFrom('', '*', '"a", W/"b"', '"'.repeat(1_000), 'W/'),
  accept: fc.constantFrom('text/html', '*/*;q=0', ''),
  origin: fc.constantFrom('null', 'https://evil.example'),
  range: fc.constant('bytes=0-1'),
  'x-http-method-override': fc.constant('DELETE'),
  'x-forwarded-host': fc.constant('evil.example'),
  cookie: fc.constant('token=1'),
}

/** Those of {@link OTHER_HEADERS} but for one of which the operation allows a single value, or none. */
function otherHeaders({ method, headerParameters }: Operation): Record<string, fc.Arbitrary<string>> {
  const ruled = headerParameters.filter(({ schema }) => 'const' in schema).map(({ name }) => name.toLowerCase())
  if (method.toUpperCase() !== 'GET') ruled.push('if-none-match')
  return Object.fromEntries(Object.entries(OTHER_HEADERS).filter(([name]) => !ruled.includes(name)))
}

/** A whole segment as it is sent. One of `.` or `..` is no segment to any client or server. */
function pathValue({ name, schema }: Parameter): fc.Arbitrary<string> {
  return wireText(name, schema)
    .filter((value) => value !== '' && !/^\.{1,2}$/.test(value))
    .chain((value) =>
      fc.constantFrom(encodeURIComponent(value), encodeAll(value), encodeURI(value).replace(/[/?#]/g, encodeAll)),
    )
}

function queryValue({ name, schema }: Parameter): fc.Arbitrary<string> {
  return wireText(name, schema).chain((value) =>
    fc.constantFrom(encodeURIComponent(value), encodeAll(value), encodeURIComponent(value).replaceAll('%20', '+')),
  )
}

function wireText(name: string, schema: Parameter['schema']): fc.Arbitrary<string> {
  const own =
    schema.type === 'string' && !Array.isArray(schema.enum) ? validText(schema) : validValue(schema).map(String)
  const preferred = PREFERRED_TEXT[name]?.filter((value) => fits(value, schema))
  return preferred ? fc.oneof({ weight: 6, arbitrary: preferred }, { weight: 2, arbitrary: own }) : own
}

function encodeAll(value: string): string {
  return Array.from(Buffer.from(value), (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
}

/** The members of a JSON object as name and JSON text; of two with one name the last counts. */
function bodyMembers(operation: Operation): fc.Arbitrary<[string, string][]> {
  const schema = operation.body ?? {}
  const members = validValue(schema).map((body) =>
    Object.entries(body ?? {}).map(([name, value]): [string, string] => [name, JSON.stringify(value)]),
  )
  const doubled = fc
    .tuple(members, fc.nat(), fc.constantFrom('{}', '[[[]]]', '1e999', '"\\ud800"', 'null'))
    .map(([all, at, value]) => {
      const name = all[at % Math.max(1, all.length)]?.[0]
      return name === undefined || name === '__proto__' ? all : [[name, value] as [string, string], ...all]
    })
  const deep = fc
    .tuple(members, fc.constantFrom(10, 1_000, 100_000))
    .map(([all, depth]): [string, string][] => [...all, ['x-deep', `${'[{"a":'.repeat(depth)}1${'}]'.repeat(depth)}`]])
  return fc.oneof(
    { weight: 8, arbitrary: members },
    { weight: 1, arbitrary: doubled },
    ...(isOpen(schema) ? [{ weight: 1, arbitrary: deep }] : []),
  )
}

/** Names that every object seems to have, and others that code could mistake for its own. */
export const AWKWARD_NAMES = [
  ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', 'then', 'length'],
  ...['company_id', 'deletedAt', '', ' ', '\u0000', '$where', 'a.b', '0'],
]

const AWKWARD_TEXTS = [
  ...AWKWARD_NAMES,
  ...["'; DROP TABLE clients; --", '" OR "1"="1', '%_%\\', '* OR NEAR(a b) -c ^d "e'],
  ...['{"a":1}', 'null', '../../../etc/passwd', '<script>alert(1)</script>', '=1+1'],
  ...['a\u0000b', '\ufeffbom', '\u202eright to left', 'ﬁ ß ς İ ı Ǆ', 'e\u0301\u0301\u0301'],
  ...['👩‍👩‍👧‍👦', '\u{10ffff}', '\ufffe\uffff', 'line\r\nbreak\u2028\u2029', '٣٤٥ １２３'],
]

const character = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...'abcXYZ019 .-_@/\\%"\'()*,;:&+=#?') },
  { weight: 1, arbitrary: fc.constantFrom(...'\u0000\u0001\u001f\u007f\u0085\u00a0\u2028\u3000\ufeff\ufffd\uffff') },
  { weight: 2, arbitrary: fc.constantFrom('é', 'ß', 'İ', 'ї', '漢', 'ا', '\u0301', '🧵', '\u{10ffff}', '𝒳') },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) },
)

/** Longer text is not tried at its upper edge, or above it. */
export const LONG = 20_000

/** The limit of any text whose schema names none. */
const SHORT = 30

/** Text of so many characters (code points), its edges often. Never a lone surrogate. */
function text(min: number, max: number): fc.Arbitrary<string> {
  const some = fc.string({ unit: character, minLength: min, maxLength: Math.max(min, Math.min(max, SHORT)) })
  const awkward = AWKWARD_TEXTS.filter((value) => countCharacters(value) >= min && countCharacters(value) <= max)
  const one = fc.constantFrom('x', 'é', '🧵', '\u0000')
  return fc.oneof(
    { weight: 6, arbitrary: some },
    { weight: 3, arbitrary: awkward.length > 0 ? fc.constantFrom(...awkward) : some },
    { weight: 1, arbitrary: max <= LONG ? one.map((unit) => unit.repeat(max)) : some },
    { weight: 1, arbitrary: min > 0 ? one.map((unit) => unit.repeat(min)) : some },
  )
}

/** As JSON Schema counts them. */
export const countCharacters = (value: string) => Array.from(value).length

const anyNumber = fc.double({ noNaN: true, noDefaultInfinity: true })

/** Any JSON value, with awkward names and numbers; lone surrogates too, which JSON can write as escapes. */
const anyJson: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    fc.oneof(fc.integer(), fc.maxSafeInteger(), anyNumber),
    fc.oneof(text(0, SHORT), fc.constantFrom('\ud800', 'a\udfffb')),
    fc.array(tie('value'), { maxLength: 4 }),
    objectOf(tie('value')),
  ),
})).value

function objectOf(value: fc.Arbitrary<Json>): fc.Arbitrary<JsonObject> {
  return fc
    .array(fc.tuple(fc.oneof(text(0, 10), fc.constantFrom(...AWKWARD_NAMES)), value), { maxLength: 4 })
    .map((members) => Object.fromEntries(members))
}

/** Values that a schema allows, edges often. @param name of the field, for {@link PREFERRED} */
function validValue(schema: JsonObject, name = ''): fc.Arbitrary<Json> {
  const own = fromSchema(resolve(schema))
  const preferred = PREFERRED[name]
  return preferred ? fc.oneof({ weight: 8, arbitrary: preferred }, { weight: 1, arbitrary: own }) : own
}

function fromSchema(schema: JsonObject): fc.Arbitrary<Json> {
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum)
  if (Array.isArray(schema.anyOf)) return fc.oneof(...schema.anyOf.map((one) => fromSchema(resolve(one))))
  const types = typesOf(schema)
  return types ? fc.oneof(...types.map((type) => ofType(type, schema))) : anyJson
}

function ofType(type: string, schema: JsonObject): fc.Arbitrary<Json> {
  switch (type) {
    case 'null':
      return fc.constant(null)
    case 'boolean':
      return fc.boolean()
    case 'string':
      return validText(schema)
    case 'integer':
      return validInteger(schema)
    case 'number':
      return fc.double({
        noNaN: true,
        min: Number(schema.minimum ?? -Number.MAX_VALUE),
        max: Number(schema.maximum ?? Number.MAX_VALUE),
      })
    case 'array':
      return fc.array(validValue(isObject(schema.items) ? schema.items : {}), {
        minLength: Number(schema.minItems ?? 0),
        maxLength: 4,
      })
    case 'object':
      return validObject(schema)
    default:
      throw new Error(`The fuzzer does not know the type ${type}.`)
  }
}

function validInteger(schema: JsonObject): fc.Arbitrary<number> {
  const min = Number(schema.minimum ?? Number.MIN_SAFE_INTEGER)
  const max = Number(schema.maximum ?? Number.MAX_SAFE_INTEGER)
  return fc.oneof(fc.integer({ min, max }), fc.constantFrom(min, max, Math.min(max, min + 1)))
}

/** As `oneLine` and `trimmed` publish it. */
const NO_CONTROL_CHARACTERS = '\\x00-\\x1f\\x7f-\\x9f'

function validText(schema: JsonObject): fc.Arbitrary<string> {
  const min = Number(schema.minLength ?? 0)
  const max = Number(schema.maxLength ?? SHORT)
  const given = FORMATS[String(schema.format)]
  if (given) return given
  if (schema['x-max-bytes'] !== undefined)
    return text(min, max).map((value) => cutBytes(value, Number(schema['x-max-bytes'])))
  if (typeof schema.pattern !== 'string') return text(min, max)
  const pattern = new RegExp(schema.pattern, 'u')
  // A pattern without anchors only asks for something within free text, one of a line only for no control characters.
  const isLine = schema.pattern.includes(NO_CONTROL_CHARACTERS)
  const line = text(min, max).map((value) => value.replaceAll(/\p{Cc}/gu, '\u3000'))
  const written = isLine ? line : schema.pattern.startsWith('^') ? matching(schema.pattern) : text(min, max)
  return written.filter((value) => {
    const length = countCharacters(value)
    return length >= min && length <= max && pattern.test(value)
  })
}

/** The beginning of a text that has at most so many bytes of UTF-8. */
function cutBytes(value: string, bytes: number): string {
  const { read } = new TextEncoder().encodeInto(value, new Uint8Array(bytes))
  return value.slice(0, read)
}

/** What fast-check cannot read in a pattern, conditions on what follows, is left to the filter. */
const matching = (pattern: string) => fc.stringMatching(new RegExp(pattern.replaceAll(/\(\?![^)]*\)/g, '')))

const FIRST_DAY = Date.UTC(1, 0, 1)
const LAST_DAY = Date.UTC(9999, 11, 30)
const instant = fc.date({ min: new Date(FIRST_DAY), max: new Date(LAST_DAY), noInvalidDate: true })

/** RFC 3339, as the formats of JSON Schema mean it; without leap seconds. */
const FORMATS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  date: fc.oneof(
    instant.map((value) => value.toISOString().slice(0, 10)),
    fc.constantFrom('2024-02-29', '2000-02-29', '0001-01-01', '9999-12-31', '1970-01-01'),
  ),
  'date-time': fc
    .tuple(instant, fc.constantFrom('', '.1', '.123', '.123456789'), fc.constantFrom('Z', '+00:00', '-23:59', '+14:00'))
    .map(([value, fraction, offset]) => value.toISOString().slice(0, 19) + fraction + offset),
}

/** An object of the named members: the required ones, some of the others, at least as many as asked for. */
function validObject(schema: JsonObject): fc.Arbitrary<JsonObject> {
  const members = Object.fromEntries(propertiesOf(schema).map(([name, property]) => [name, validValue(property, name)]))
  const others: fc.Arbitrary<JsonObject> = isOpen(schema) ? objectOf(anyJson) : fc.constant({})
  const forbidden = resolve(resolve(schema.propertyNames ?? {}).not ?? {}).const
  return fc
    .tuple(others, fc.record(members, { requiredKeys: requiredOf(schema) }))
    .map(([unknown, known]) => ({ ...unknown, ...known }))
    .filter((object) => Object.keys(object).length >= Number(schema.minProperties ?? 0))
    .filter((object) => !Object.keys(object).some((name) => name === forbidden))
}
