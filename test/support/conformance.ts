import { dereference, type OutputUnit, type Schema, type ValidationResult, validate } from '@cfworker/json-schema'
import { ERRORS } from '../../src/kernel/http/errors.ts'
import { asObject, isObject, type Json, type JsonObject } from '../../src/site/reference/json.ts'
import description from '../../src/site/reference/openapi.json' with { type: 'json' }

const BASE = '/api/v1'
const JSON_MEDIA_TYPE = /^application\/json(; ?charset=utf-8)?$/i

interface ResponseDescription {
  /** Where its schema stands among the compiled ones. */
  schemaId: string
  headers: { name: string; required: boolean; schemaId: string }[]
}

/** By method, then by status. */
type Operations = Map<string, Map<number, ResponseDescription>>

/** The published description. */
export const document: JsonObject = description
const schemas: Record<string, JsonObject> = {}
const paths = Object.entries(asObject(document.paths))
  // A path without parameters comes before one that would match it too.
  .sort(([a], [b]) => a.split('{').length - b.split('{').length)
  .map(([path, item]) => ({ pattern: patternOf(`${BASE}${path}`), operations: describePath(asObject(item)) }))
addSchema('error', { $ref: '#/components/schemas/ErrorResponse' })
for (const [name, schema] of Object.entries(asObject(asObject(document.components).schemas))) {
  addSchema(name, asObject(schema))
}
const root: Schema = { $defs: schemas }
const lookup = dereference(root)

/**
 * Checks a response of the API against the published description: the status is one that the operation has, the body is
 * exactly of its schema, the headers are there, and an error has the code and the details of its status.
 *
 * @throws Error that names everything that differs
 */
export async function expectConforms(request: Request, response: Response): Promise<void> {
  const { pathname } = new URL(request.url)
  const problems = checkEveryResponse(response)
  if (request.method === 'OPTIONS') {
    if (response.status !== 204) problems.push(`a preflight returns 204, not ${response.status}`)
  } else {
    const isBare = request.method === 'HEAD' || response.status === 304
    const type = response.headers.get('content-type') ?? 'missing'
    if (response.status !== 304 && !JSON_MEDIA_TYPE.test(type)) problems.push(`the Content-Type is ${type}`)
    const text = await response.clone().text()
    if (isBare && text !== '') problems.push('a response to HEAD has no body, nor has a 304')
    const body = isBare ? undefined : parse(text, problems)
    if (pathname !== `${BASE}/openapi.json`) {
      problems.push(...checkDescribed(request.method, pathname, response, body))
      problems.push(...checkLimitHeaders(pathname, response))
    }
    if (response.status >= 400 && body !== undefined) problems.push(...checkError(response, body))
    if (problems.length > 0) problems.push(`body: ${text.slice(0, 500)}`)
  }
  if (problems.length === 0) return
  throw new Error(
    `${request.method} ${pathname} returned ${response.status}, which does not conform to the published description:\n- ${[...new Set(problems)].join('\n- ')}`,
  )
}

const OF_EVERY_RESPONSE = {
  'x-request-id': /./,
  'x-content-type-options': /^nosniff$/,
  'access-control-allow-origin': /^\*$/,
}

function checkEveryResponse({ headers }: Response): string[] {
  return Object.entries(OF_EVERY_RESPONSE).flatMap(([name, value]) =>
    value.test(headers.get(name) ?? '') ? [] : [`the header ${name} is missing`],
  )
}

function parse(text: string, problems: string[]): Json | undefined {
  try {
    return JSON.parse(text)
  } catch {
    problems.push('the body is not JSON')
    return undefined
  }
}

function checkDescribed(method: string, pathname: string, response: Response, body: Json | undefined): string[] {
  const known = paths.find(({ pattern }) => pattern.test(pathname))
  const operation = known?.operations.get(method === 'HEAD' ? 'GET' : method)
  if (!operation) return checkUndescribed(known !== undefined, response, body)

  const described = operation.get(response.status)
  if (!described) return [`the status is not among ${[...operation.keys()].join(', ')}`]
  return [...checkBody(described.schemaId, body), ...checkHeaders(described, response.headers)]
}

/** Another method on a known path, or an unknown path: an error that any request can meet. */
function checkUndescribed(isKnownPath: boolean, response: Response, body: Json | undefined): string[] {
  const expected = [isKnownPath ? 405 : 404, 401, 403, 429, 500, 503]
  const problems = checkBody('error', body)
  if (!expected.includes(response.status)) problems.push(`the status is not among ${expected.join(', ')}`)
  if (response.status === 405 && !response.headers.has('allow')) problems.push('the header Allow is missing')
  return problems
}

/** Every caller with a valid token gets the limit; a 429, 500 or 503 can come before the token is known. */
function checkLimitHeaders(pathname: string, response: Response): string[] {
  if (!pathname.startsWith(`${BASE}/`) || [401, 429, 500, 503].includes(response.status)) return []
  return ['RateLimit', 'RateLimit-Policy']
    .filter((name) => !response.headers.has(name))
    .map((name) => `the header ${name} is missing`)
}

const REASON = ['reason']
/** Of which an error of this status has one. */
const DETAILS: Record<number, string[]> = {
  ...{ 400: ['issues', 'reason'], 409: REASON, 410: REASON, 412: REASON, 502: REASON },
  ...{ 413: ['limit_bytes'], 429: ['retry_after'] },
}

function checkError(response: Response, body: Json): string[] {
  const error = isObject(body) ? body.error : undefined
  if (!isObject(error)) return ['the body is not an error']
  const problems = []

  const codes: unknown[] = Object.values(ERRORS).flatMap((each) => (each.status === response.status ? each.code : []))
  if (!codes.includes(error.code)) problems.push(`the code ${error.code} is not one of ${codes}`)

  const { details } = error
  const members = DETAILS[response.status]
  const names = isObject(details) ? Object.keys(details) : []
  if (!names.includes('documentation_url')) problems.push('details has no documentation_url')
  if (members === undefined && names.length > 1) problems.push(`details has ${names.join(' and ')}`)
  if (members?.every((member) => !names.includes(member))) problems.push(`details has no ${members.join(' or ')}`)
  const requestId = response.headers.get('x-request-id') ?? ''
  if (response.status === 500 && !String(error.message).includes(requestId)) {
    problems.push('the message lacks the request id')
  }
  return problems
}

function checkBody(schemaId: string, body: Json | undefined): string[] {
  return body === undefined ? [] : explain(check(schemaId, body), 'body')
}

function checkHeaders(described: ResponseDescription, headers: Headers): string[] {
  return described.headers.flatMap(({ name, required, schemaId }) => {
    const value = headers.get(name)
    if (value === null) return required ? [`the header ${name} is missing`] : []
    return explain(check(schemaId, value), `header ${name}`)
  })
}

function check(schemaId: string, value: Json): ValidationResult {
  return validate(value, schemas[schemaId] ?? false, '2020-12', lookup, true)
}

/** The innermost violations; the outer ones only repeat that something inside is wrong. */
function explain(result: ValidationResult, what: string): string[] {
  if (result.valid) return []
  const isInnermost = (unit: OutputUnit) =>
    !result.errors.some((other) => other !== unit && other.keywordLocation.startsWith(`${unit.keywordLocation}/`))
  return result.errors
    .filter(isInnermost)
    .slice(0, 20)
    .map(({ instanceLocation, error }) => `${what} ${instanceLocation}: ${error}`)
}

/** Matches the paths of requests of a described path, such as `/orders/{id}`. */
export function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}/?$`)
}

function describePath(item: JsonObject): Operations {
  const methods = Object.entries(item).filter(([name]) => /^(get|post|put|patch|delete)$/.test(name))
  const responsesOf = (operation: Json | undefined) =>
    Object.entries(asObject(asObject(operation).responses)).map(
      ([status, response]) => [Number(status), describeResponse(resolve(response))] as const,
    )
  return new Map(methods.map(([method, operation]) => [method.toUpperCase(), new Map(responsesOf(operation))]))
}

function describeResponse(response: JsonObject): ResponseDescription {
  // A 304 has no content.
  const content = response.content && asObject(asObject(response.content)['application/json'])
  return {
    schemaId: addSchema(nextId(), content ? asObject(content.schema) : {}),
    headers: Object.entries(asObject(response.headers)).map(([name, value]) => {
      const header = resolve(value)
      return { name, required: header.required === true, schemaId: addSchema(nextId(), asObject(header.schema)) }
    }),
  }
}

/** Follows a reference into the document. */
export function resolve(value: Json | undefined): JsonObject {
  const object = asObject(value)
  if (typeof object.$ref !== 'string') return object
  const names = object.$ref.split('/').slice(1)
  return resolve(names.reduce((place, name) => asObject(place[name]), document))
}

function nextId(): string {
  return `schema ${Object.keys(schemas).length}`
}

/** Registers a schema under an id; its references then point to the registered ones. */
function addSchema(id: string, schema: JsonObject): string {
  schemas[id] = relocate(schema)
  return id
}

/** The published objects are open, so that fields can be added; here a field that is not described is an error. */
function relocate(schema: JsonObject): JsonObject {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/components/schemas/', '"#/$defs/'), (_key, value: Json) =>
    isObject(value) && isObject(value.properties) ? { additionalProperties: false, ...value } : value,
  )
}
