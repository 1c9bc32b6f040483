import fc from 'fast-check'
import type { JsonObject } from '../../../src/site/reference/json.ts'
import { isOpen, type Operation, type Parameter, propertiesOf, requiredOf } from './description.ts'
import { misfitEscapes, misfitTexts, misfitValues } from './misfits.ts'
import { type Draft, writeObject } from './oracles.ts'
import { BAD_PATH, BODY_LIMIT_BYTES, KEEPS_LONE_SURROGATES } from './rules.ts'
import { AWKWARD_NAMES, validRequest } from './valid-requests.ts'

type Change = (draft: Draft) => Draft
type Mutation = fc.Arbitrary<Change>

/** Valid requests with one thing broken, so that it is known how they must be refused: an arbitrary for each way. */
export function brokenRequests(operation: Operation): fc.Arbitrary<Draft>[] {
  const ways = [
    ...operation.pathParameters.flatMap((parameter) => breakPath(operation, parameter)),
    ...breakQuery(operation),
    ...(operation.body ? breakBody(operation, operation.body) : []),
    breakToken,
    breakMethod(operation),
  ]
  return ways.map((way) => fc.tuple(validRequest(operation), way).map(([draft, change]) => change(draft)))
}

/** A change of a request, and how it must be refused then. @param field what the issues of a 400 must name */
const broken =
  (kind: string, refusedWith: number, field: string | null, change: (draft: Draft) => Partial<Draft>): Change =>
  (draft) => ({ ...draft, ...change(draft), kind, refusedWith, field })

type Pair = [name: string, value: string]

const without = (pairs: Pair[] | null, name: string): Pair[] => (pairs ?? []).filter(([other]) => other !== name)

/* The path */

function breakPath(operation: Operation, { name, schema }: Parameter): Mutation[] {
  const misfits = misfitTexts(schema)
    .flat()
    .filter((value) => value !== '' && !/^\.{1,2}$/.test(value))
  const encoded = [...misfits.map(encodeURIComponent), ...misfitEscapes(schema)]
  if (schema.pattern === undefined && schema.enum === undefined) return []
  return [
    fc.constantFrom(...encoded).map((value) =>
      broken('path does not fit', BAD_PATH[operation.id] ?? 404, null, ({ path }) => ({
        path: { ...path, [name]: value },
      })),
    ),
  ]
}

/* The query */

function breakQuery({ queryParameters }: Operation): Mutation[] {
  const refuse = (kind: string, name: string, change: (query: Pair[]) => Pair[]) =>
    broken(kind, 400, name, ({ query }) => ({ query: change(query) }))
  const misfits = queryParameters.flatMap(({ name, schema }) => {
    // A space in an email is taken for the plus sign that form decoding makes of it.
    const texts = misfitTexts(schema).map((group) =>
      group.filter((text) => schema.format !== 'email' || !text.includes(' ')).map(encodeURIComponent),
    )
    const replace = (value: string) =>
      refuse(`query ${name} does not fit`, name, (query) => [...without(query, name), [name, value]])
    const groups = [...texts, misfitEscapes(schema)].filter((group) => group.length > 0)
    return groups.map((group): Mutation => fc.constantFrom(...group).map(replace))
  })
  const repeated = queryParameters.map(({ name }) =>
    refuse(`query ${name} twice`, name, (query) => {
      const value = query.find(([other]) => other === name)?.[1] ?? '1'
      return [...query, [name, value], [name, value]]
    }),
  )
  const left = queryParameters
    .filter(({ required }) => required)
    .map(({ name }) => refuse(`query ${name} left out`, name, (query) => without(query, name)))
  const known = new Set(queryParameters.map(({ name }) => name))
  const unknown = AWKWARD_NAMES.filter((name) => name !== '' && !known.has(name)).map((name) =>
    refuse('unknown query parameter', name, (query) => [...query, [name, '1']]),
  )
  const others = [repeated, left, unknown].filter((group) => group.length > 0)
  return [...(misfits.length > 0 ? [fc.oneof(...misfits)] : []), ...others.map((group) => fc.constantFrom(...group))]
}

/* The body */

function breakBody(operation: Operation, schema: JsonObject): Mutation[] {
  const properties = propertiesOf(schema)
  const refuse = (kind: string, name: string | null, change: (members: Pair[]) => Pair[]) =>
    broken(kind, 400, name, ({ members }) => ({ members: change(members ?? []) }))
  const keepsLoneSurrogates = KEEPS_LONE_SURROGATES.includes(operation.id)
  const misfits = properties.flatMap(([name, property]) => {
    const replace = (value: string) =>
      refuse(`body ${name} does not fit`, name, (members) => [...without(members, name), [name, value]])
    return misfitValues(property, { keepsLoneSurrogates }).map((group) => fc.constantFrom(...group).map(replace))
  })
  const groups: Mutation[] = [fc.oneof(...misfits), notJson, notObject, notUtf8, mediaType, ...tooLarge(operation)]

  const required = requiredOf(schema)
  if (required.length > 0) {
    const leaveOut = (name: string) => refuse(`body ${name} left out`, name, (members) => without(members, name))
    groups.push(fc.constantFrom(...required).map(leaveOut))
  }
  if (Number(schema.minProperties ?? 0) > 0) groups.push(fc.constant(refuse('empty body object', null, () => [])))
  if (!isOpen(schema)) {
    const names = AWKWARD_NAMES.filter((name) => !properties.some(([known]) => known === name))
    const add = (name: string) => refuse('unknown body field', name, (members) => [...members, [name, '1']])
    groups.push(fc.constantFrom(...names, 'x'.repeat(10_000)).map(add))
  }
  return groups
}

const instead = (kind: string, status: number, body: (text: string) => string | Uint8Array): Change =>
  broken(kind, status, null, ({ members }) => ({ body: body(writeObject(members ?? [])) }))

/** A beginning of a JSON object is never JSON; nor is any of these. */
const notJson: Mutation = fc.oneof(
  fc.nat().map((at) => instead('cut JSON', 400, (text) => text.slice(0, at % text.length))),
  fc
    .constantFrom<(text: string) => string>(
      () => ' ',
      (text) => `${text}x`,
      (text) => text + text,
      (text) => `${text},`,
      (text) => text.replace(/}$/, ',}'),
      (text) => text.replace('{', '{,'),
      (text) => text.replace('{', '{x:1,').replace(',}', '}'),
      (text) => text.replace('{', "{'x':1,").replace(',}', '}'),
      (text) => text.replace('{', '{"x":NaN,').replace(',}', '}'),
      (text) => text.replace('{', '{"x":01,').replace(',}', '}'),
      (text) => text.replace('{', '{"x":.5,').replace(',}', '}'),
      (text) => text.replace('{', '{"x":"\n",').replace(',}', '}'),
      (text) => text.replace('{', '{"x":"\\u12",').replace(',}', '}'),
      (text) => text.replace('{', '{"x":"\\x41",').replace(',}', '}'),
      (text) => `/**/${text}`,
      (text) => `\u00a0${text}`,
      (text) => `)]}',\n${text}`,
      (text) => `\ufeff\ufeff${text}`,
      (text) => '['.repeat(100_000) + text,
      (text) => `${text}\u0000`,
    )
    .map((change) => instead('not JSON', 400, change)),
)

const notObject: Mutation = fc
  .constantFrom('null', '1', '"text"', 'true', '[]', '[{}]', '""', `${'['.repeat(100_000)}${']'.repeat(100_000)}`)
  .map((body) => instead('no JSON object', 400, () => body))

/** Bytes that are no UTF-8, within a string: Latin-1, a surrogate, an overlong slash, a cut character. */
const notUtf8: Mutation = fc
  .constantFrom([0xe9], [0xed, 0xa0, 0x80], [0xc0, 0xaf], [0xf0, 0x9f, 0xa7], [0xff, 0xfe])
  .map((bytes) =>
    instead('not UTF-8', 400, (text) =>
      Buffer.concat([Buffer.from('{"x":"'), Buffer.from(bytes), Buffer.from(`",${text.slice(1)}`)]),
    ),
  )

const mediaType: Mutation = fc
  .constantFrom(
    ...['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/jsonx'],
    ...['application/json-patch+json', 'application/vnd.api+json', 'text/json', 'text/plain; application/json'],
    ...['', null],
  )
  .map((type) =>
    broken('other media type', 415, null, ({ headers: { 'content-type': _, ...headers } }) => ({
      headers: type === null ? headers : { ...headers, 'content-type': type },
    })),
  )

function tooLarge(operation: Operation): Mutation[] {
  const limit = BODY_LIMIT_BYTES[operation.id] ?? 1_048_576
  // Larger ones would take all the time.
  if (limit > 2_000_000) return []
  return [
    fc.constantFrom({}, { 'transfer-encoding': 'chunked' }).map((headers) =>
      broken('body too large', 413, null, (draft) => ({
        headers: { ...draft.headers, ...headers },
        body: writeObject(draft.members ?? []).padEnd(limit + 1),
      })),
    ),
  ]
}

/* The rest */

const breakToken: Mutation = fc
  .constantFrom<Record<string, string>>(
    {},
    { authorization: '' },
    { authorization: 'Bearer' },
    { authorization: 'Basic dXNlcjpwYXNz' },
    { authorization: `Bearer ${'0'.repeat(64)}` },
    { authorization: `Bearer ${'z'.repeat(64)}` },
    { authorization: `Bearer ${'0'.repeat(6_000)}` },
    { 'x-api-key': '0'.repeat(64) },
  )
  .map((headers) =>
    broken('no valid token', 401, null, (draft) => ({
      headers: { ...draft.headers, ...headers },
      isAuthorized: false,
    })),
  )

function breakMethod({ methods }: Operation): Mutation {
  const others = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((method) => !methods.includes(method))
  return fc
    .constantFrom(...others)
    .map((method) =>
      broken(`method ${method}`, 405, null, () => ({ method, ...(method === 'GET' && { members: null }) })),
    )
}
