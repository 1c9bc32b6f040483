import { dereference, validate } from '@cfworker/json-schema'
import { describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import { type Contract, contractsOf, id, idText } from '../../../src/kernel/api/contract.ts'
import { ERRORS } from '../../../src/kernel/http/errors.ts'
import { EXPANSIONS } from '../../../src/resources/orders/shapes.ts'
import { describeApi } from '../../../src/site/reference/document.ts'
import { asObject, isObject, type Json, type JsonObject } from '../../../src/site/reference/json.ts'
import committed from '../../../src/site/reference/openapi.json'
import { errorsOf, publishedFrom } from '../../../src/site/reference/reference.ts'
import { contracts, documentationOf, published } from '../../support/endpoints.ts'

const document: JsonObject = committed
const components = asObject(document.components)
const byName = contracts.map((contract) => [contract.operationId, contract] as const)

function operationOf(contract: Contract): JsonObject {
  return asObject(asObject(asObject(document.paths)[contract.path])[contract.method.toLowerCase()])
}

function operationNamed(name: string): JsonObject {
  return operationOf(contracts.find(({ operationId }) => operationId === name) ?? expect.fail(name))
}

/** Every object in the document with its path. */
function* walk(value: Json | undefined, place = '#'): Generator<[string, JsonObject]> {
  if (isObject(value)) yield [place, value]
  if (typeof value !== 'object' || value === null) return
  for (const [key, member] of Object.entries(value)) yield* walk(member, `${place}/${key}`)
}

const relocate = (schema: Json | undefined) =>
  JSON.parse(JSON.stringify(schema).replaceAll('#/components/schemas/', '#/$defs/'))
const definitions = dereference({ $defs: relocate(components.schemas) })

/** Whether a JSON value fits a schema of the document. */
function fits(schema: JsonObject, value: Json): boolean {
  const moved = relocate(schema)
  return validate(value, moved, '2020-12', dereference(moved, Object.create(definitions), undefined, '/root')).valid
}

function mediaOf(value: Json | undefined): { schema: JsonObject; example: Json } {
  const media = asObject(asObject(asObject(value).content)['application/json'])
  return { schema: asObject(media.schema), example: media.example ?? null }
}

describe('the committed description', () => {
  it('is generated from the contracts (if not: npm run docs)', () => {
    expect(JSON.stringify(document)).toBe(JSON.stringify(describeApi(published, committed.info.description)))
  })

  it('says of which part of a request the problems are listed', () => {
    expect(asObject(asObject(components.schemas).ValidationDetails).description).toContain('else the query')
  })

  it('has one lifetime of a cursor, and one of a walk: see `resources/clients/cursors`', () => {
    const text = JSON.stringify(document)
    const days = (pattern: RegExp) => [...new Set(Array.from(text.matchAll(pattern), ([, number]) => number))]
    expect(days(/valid for (\d+) days/gi)).toEqual(['7'])
    expect(days(/walk of \w+ or \w+ for (\d+) days/gi)).toEqual(['30'])
  })

  it.each([
    ['putInvoiceItems', 'first 200 characters'],
    ['searchProducts', 'first 200 characters'],
    ['listChanges', '`per_page` is then at most 100'],
    ['readProduct', 'with a comma'],
  ])('says what a schema cannot: %s, %s', (name, text) => {
    expect(operationNamed(name).description).toContain(text)
  })

  it.each(['putClient', 'putOrder'])('has If-None-Match among the parameters of %s', (name) => {
    expect(operationNamed(name).parameters).toContainEqual(
      expect.objectContaining({ name: 'If-None-Match', in: 'header', schema: expect.objectContaining({ const: '*' }) }),
    )
  })

  it('admits any object as a message of an email thread, as the service does', () => {
    const { requestBody, responses } = operationNamed('putEmailThread')
    const messages = [{ id: 5, from: 'Ruth <ruth@shop.example>', to: null, attachments: 'none' }, {}]
    const sent = mediaOf(requestBody)
    expect(fits(sent.schema, { ...asObject(sent.example), messages })).toBe(true)
    expect(fits(sent.schema, { ...asObject(sent.example), messages: ['text'] })).toBe(false)
    const { schema, example } = mediaOf(asObject(responses)['200'])
    const email_thread = { ...asObject(asObject(example).email_thread), messages }
    expect(fits(schema, { email_thread })).toBe(true)
  })

  it('states its version, server and security scheme', () => {
    expect(document.openapi).toMatch(/^3\.1\./)
    expect(asObject(document.info).version).toBe('1.1.0')
    expect(document.servers).toMatchObject([{ url: '/api/v1' }])
    expect(document.security).toEqual([{ bearer: [] }])
    expect(asObject(components.securitySchemes).bearer).toMatchObject({ type: 'http', scheme: 'bearer' })
  })

  it('has patterns that any language compiles, without escaped slashes', () => {
    const patterns = [...walk(document)].flatMap(([, { pattern }]) => (typeof pattern === 'string' ? [pattern] : []))
    expect(patterns.length).toBeGreaterThan(10)
    expect(patterns.filter((pattern) => pattern.includes('\\/'))).toEqual([])
    for (const pattern of patterns) expect(() => new RegExp(pattern, 'u'), pattern).not.toThrow()
  })

  it('has one error schema with exactly the six codes', () => {
    const error = asObject(asObject(asObject(asObject(components.schemas).ErrorResponse).properties).error)
    const code = asObject(asObject(error.properties).code)
    expect(code.enum).toEqual([
      'forbidden',
      'internal_error',
      'invalid_request',
      'not_found',
      'rate_limited',
      'unauthenticated',
    ])
    const schemas = Object.values(asObject(components.responses)).map((response) => mediaOf(response).schema)
    expect(new Set(schemas.map((schema) => schema.$ref))).toEqual(new Set(['#/components/schemas/ErrorResponse']))
  })

  it('contains no artifacts of the schema library and no empty schema', () => {
    const text = JSON.stringify(document, (key, value) => (key === 'example' ? undefined : value))
    for (const leftover of ['$schema', '$defs', '~standard', '__schema', '"id":"']) expect(text).not.toContain(leftover)
    const empty = [...walk(document)].filter(([place, value]) => !place.includes('/example') && isEmpty(value))
    expect(empty.map(([place]) => place)).toEqual([])
  })

  it('describes every operation, parameter, header, response, tag and named schema', () => {
    const described = [...walk(document)].filter(
      ([place, value]) =>
        !place.includes('/example') &&
        value.$ref === undefined &&
        (/^#\/(tags|servers)\/\d+$/.test(place) ||
          /^#\/components\/(schemas|parameters|headers|responses|securitySchemes)\/[^/]+$/.test(place) ||
          /^#\/paths\/\/.*\/(get|post|put|patch|delete)(\/(parameters\/\d+|requestBody|responses\/\d+))?$/.test(place)),
    )
    expect(described.length).toBeGreaterThan(40)
    expect(described.filter(([, value]) => !value.description).map(([place]) => place)).toEqual([])
  })
})

describe.each(byName)('%s', (_name, contract) => {
  const operation = operationOf(contract)
  const responses = asObject(operation.responses)

  it('lists 200 and every error that it can return', () => {
    const statuses = [200, ...(contract.hasEtag ? [304] : []), ...errorsOf(contract).map((kind) => ERRORS[kind].status)]
    expect(Object.keys(responses)).toEqual(statuses.map(String))
    expect(statuses).toEqual(expect.arrayContaining([401, 403, 429, 500]))
  })

  it('names its permission', () => {
    expect(operation.description).toContain(contract.permission === null ? 'Any token' : `\`${contract.permission}\``)
  })

  it('has a parameter for each name in its path', () => {
    const parameters = (Array.isArray(operation.parameters) ? operation.parameters : []).map(asObject)
    const names = parameters.filter((parameter) => parameter.in === 'path').map((parameter) => parameter.name)
    expect(names.sort()).toEqual([...contract.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort())
    for (const parameter of parameters) {
      if (parameter.example !== undefined) expect(fits(asObject(parameter.schema), parameter.example)).toBe(true)
    }
  })

  it('has a response whose fields are all required, and to which fields can be added', () => {
    for (const [place, schema] of objectSchemas(mediaOf(responses['200']).schema)) {
      expect([place, schema.additionalProperties]).not.toEqual([place, false])
      // Shapes that are only suggested.
      if (['Message', 'Mailbox', 'Attachment'].includes(place)) continue
      // What is added only with `expand`, or where it was sent.
      const isChange = ['putOrder', 'updateOrder', 'runBatch'].includes(contract.operationId) && place !== 'Order'
      const added: readonly string[] =
        place === 'ListedOrder'
          ? EXPANSIONS
          : place === 'Changes'
            ? ['clients', 'orders']
            : isChange && !('invoice_id' in asObject(schema.properties)) && 'project' in asObject(schema.properties)
              ? ['invoice_items', 'payments']
              : []
      const always = Object.keys(asObject(schema.properties)).filter((name) => !added.includes(name))
      expect([place, schema.required]).toEqual([place, always])
    }
  })

  it('has an example response that fits its schema and its contract', () => {
    const { schema, example } = mediaOf(responses['200'])
    expect(fits(schema, example)).toBe(true)
    expect(contract.response.safeParse(example)).toMatchObject({ success: true })
    expect(fits(schema, { ...asObject(example), added_later: 1 })).toBe(true)
  })

  it('has an example input that fits its schema and its contract', () => {
    const { params, query, body } = documentationOf(contract).example
    if (contract.params) expect(contract.params.safeParse(params)).toMatchObject({ success: true })
    if (contract.query) expect(contract.query.safeParse(asText(query ?? {}))).toMatchObject({ success: true })
    if (!contract.body) return
    const media = mediaOf(operation.requestBody)
    expect(media.example).toEqual(body)
    expect(fits(media.schema, media.example)).toBe(true)
    expect(contract.body.safeParse(body)).toMatchObject({ success: true })
  })
})

describe('describeApi', () => {
  const contract = contractsOf('Clients', 'clients')('readThing', 'GET /clients/{id}', {
    params: z.strictObject({ id: idText.check(z.describe('The id.')) }),
    response: z.strictObject({ id }),
    errors: ['conflict'],
  })
  const readThing = {
    summary: 'Read a thing',
    description: 'Reads one.',
    example: { params: { id: '1' }, response: { id: 1 } },
  }
  const tags = { Clients: 'Things.' }
  const publish = (changes: Partial<Contract> = {}) => ({
    endpoints: [{ ...contract, ...changes }],
    tags,
    documentation: { readThing },
  })

  it('lists the errors of the contract beside the common ones, and only components that are used', () => {
    const described = describeApi(publish(), '')
    const operation = asObject(asObject(asObject(described.paths)['/clients/{id}']).get)
    expect(Object.keys(asObject(operation.responses))).toEqual([
      '200',
      '400',
      '401',
      '403',
      '404',
      '409',
      '429',
      '500',
      '503',
    ])
    expect(Object.keys(asObject(asObject(described.components).responses))).not.toContain('BodyTooLarge')
    expect(described.tags).toEqual([{ name: 'Clients', description: 'Things.' }])
  })

  it('states a body limit other than the default', () => {
    const described = describeApi(publish({ body: z.strictObject({}), bodyLimitBytes: 20_971_520 }), '')
    expect(JSON.stringify(described)).toContain('up to 20971520 bytes')
  })

  it('lists the contracts of a slice in the order of their documentation, also those without any', () => {
    const [first, last] = [contract, { ...contract, operationId: 'writeThing' }]
    const described = { tags, document: () => ({ readThing, writeThing: readThing }) }
    const published = publishedFrom([{ last, first }, { published: described }])
    expect(published).toMatchObject({ tags, endpoints: [first, last] })
    const forgotten = publishedFrom([
      { first, forgotten: { ...contract, operationId: 'moveThing' }, published: described },
    ])
    expect(() => describeApi(forgotten, '')).toThrow('moveThing has no documentation')
  })

  it('throws for an endpoint without documentation', () => {
    expect(() => describeApi({ ...publish(), documentation: {} }, '')).toThrow('readThing has no documentation')
  })

  it('throws for a tag and a parameter without a description', () => {
    expect(() => describeApi({ ...publish(), tags: {} }, '')).toThrow('The tag Clients has no description')
    const params = z.strictObject({ id: idText })
    expect(() => describeApi(publish({ params }), '')).toThrow('The path parameter id has no description')
  })
})

/** The object schemas with named fields inside a response, through references. Errors, which a batch has too, are none. */
function* objectSchemas(schema: JsonObject, place = 'response', depth = 0): Generator<[string, JsonObject]> {
  if (depth > 20) throw new Error('The response refers to itself.')
  if (typeof schema.$ref === 'string') {
    const name = schema.$ref.split('/').at(-1) ?? ''
    if (name === 'ErrorResponse') return
    yield* objectSchemas(asObject(asObject(components.schemas)[name]), name, depth + 1)
  }
  if (isObject(schema.properties)) yield [place, schema]
  for (const [name, property] of Object.entries(isObject(schema.properties) ? schema.properties : {})) {
    yield* objectSchemas(asObject(property), `${place}.${name}`, depth + 1)
  }
  if (isObject(schema.items)) yield* objectSchemas(schema.items, `${place}[]`, depth + 1)
  for (const branch of Array.isArray(schema.anyOf) ? schema.anyOf : []) {
    yield* objectSchemas(asObject(branch), place, depth + 1)
  }
}

const isEmpty = (value: JsonObject) => Object.keys(value).length === 0

/** Query values as a URL has them. */
function asText(query: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(Object.entries(query).map(([name, value]) => [name, String(value)]))
}
