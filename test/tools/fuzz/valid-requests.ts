import fc from 'fast-check'
import { isOpen, type Operation, type Parameter } from './description.ts'
import type { Draft } from './draft.ts'
import { fits } from './fits.ts'
import { PREFERRED_TEXT } from './rules.ts'
import { validText, validValue } from './values.ts'

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

/** Every byte as `%xx`. */
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
