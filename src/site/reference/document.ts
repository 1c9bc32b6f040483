import * as z from 'zod'
import { type Contract, type Documentation, type Published, takesKey } from '../../kernel/api/contract.ts'
import { BODY_LIMIT_BYTES } from '../../kernel/http/body.ts'
import { ApiError, ERRORS, type ErrorKind, errorBody } from '../../kernel/http/errors.ts'
import { errorResponseName, errorResponses, errorSchema } from './errors.ts'
import {
  ERROR_HEADERS,
  type HeaderName,
  ownHeaders,
  requestHeaders,
  responseHeaders,
  SUCCESS_HEADERS,
} from './headers.ts'
import { asObject, isObject, type Json, type JsonObject } from './json.ts'
import { SchemaWriter } from './schema.ts'
import { describeWebhooks } from './webhooks.ts'

/** Errors of every operation besides its own. 405 belongs to methods that are not described. */
const COMMON_ERRORS = [
  'invalid_request',
  'unauthenticated',
  'forbidden',
  'rate_limited',
  'internal_error',
  'unavailable',
] as const

/** Finds an endpoint's documentation by its operation; throws an Error for one without. */
export function documentationFrom(published: readonly Published[]) {
  const all: Record<string, Documentation> = Object.assign({}, ...published.map(({ document }) => document()))
  return ({ operationId }: Pick<Contract, 'operationId'>): Documentation => {
    const found = all[operationId]
    if (!found) throw new Error(`${operationId} has no documentation.`)
    return found
  }
}

/** The differences between the documents of the two APIs. */
export interface Described {
  title: string
  /** The path of the API. */
  server: string
  /** The tags that come first, in their order. All others follow by name. */
  tags: readonly string[]
  security: JsonObject
  /** The request headers of every operation, by component name. */
  parameters: Record<string, JsonObject>
  /** Overrides of error descriptions. */
  errors?: Partial<Record<ErrorKind, string>>
  webhooks: ((schemas: SchemaWriter) => JsonObject) | null
}

/** The integration API. */
const integrationApi: Described = {
  title: 'CRM integration API',
  server: '/api/v1',
  tags: ['Account', 'Clients', 'Orders', 'Changes', 'Products', 'Mail', 'Files', 'Batch'],
  security: {
    bearer: {
      type: 'http',
      scheme: 'bearer',
      bearerFormat: '64 hexadecimal characters',
      description: 'A token of the company, as shown once in the developer settings.',
    },
  },
  parameters: requestHeaders,
  webhooks: describeWebhooks,
}

/**
 * The OpenAPI 3.1 document of an API, with an introduction in Markdown.
 *
 * @throws Error for an endpoint without documentation, an undescribed tag, a parameter without a description, and schemas that share an id
 */
export function describeApi(published: readonly Published[], introduction: string, described: Partial<Described> = {}) {
  const api = { ...integrationApi, ...described }
  const { title, server, security, parameters, errors: worded = {}, webhooks } = api
  const schemas = new SchemaWriter()
  const all = published.flatMap(({ endpoints }) => endpoints)
  const documentationOf = documentationFrom(published)
  const tags = [...new Set([...api.tags, ...all.map(({ tag }) => tag).sort()])]
  const contracts = tags.flatMap((tag) => all.filter((each) => each.tag === tag))
  const paths: Record<string, JsonObject> = {}
  for (const contract of contracts) {
    const operation = describeOperation(contract, documentationOf(contract), schemas, Object.keys(parameters))
    paths[contract.path] = { ...paths[contract.path], [contract.method.toLowerCase()]: operation }
  }
  const writer = new SchemaWriter()
  const error = writer.write(errorSchema, 'output')
  const errorSchemas = asObject(describeFirst(Object.fromEntries(writer.components)))
  const usedErrors = new Set(contracts.flatMap(errorsOf))
  const errors = (Object.keys(ERRORS) as ErrorKind[]).filter((kind) => usedErrors.has(kind))
  const responses = Object.fromEntries(
    errors.map((kind) => [errorResponseName(kind), describeError(kind, error, worded[kind])]),
  )
  const used = JSON.stringify([paths, responses])
  const isUsed = (header: string) => used.includes(`"#/components/headers/${header}"`)

  return {
    openapi: '3.1.0',
    info: {
      title,
      version: '1.1.0',
      description: introduction,
      contact: { name: 'The operator of this API' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: server, description: 'The server of this description.' }],
    security: Object.keys(security).map((name) => ({ [name]: [] })),
    tags: describeTags(contracts, published),
    paths,
    ...(webhooks && { webhooks: webhooks(schemas) }),
    components: {
      securitySchemes: security,
      schemas: { ...Object.fromEntries([...schemas.components].sort(([a], [b]) => (a < b ? -1 : 1))), ...errorSchemas },
      parameters,
      headers: Object.fromEntries(Object.entries(responseHeaders).filter(([name]) => isUsed(name))),
      responses,
    },
  }
}

function describeTags(contracts: readonly Contract[], published: readonly Published[]): JsonObject[] {
  return [...new Set(contracts.map(({ tag }) => tag))].map((name) => {
    const own = published.find(({ tag, endpoints }) => tag !== null && endpoints.some((each) => each.tag === name))
    if (!own?.tag) throw new Error(`The tag ${name} has no description.`)
    return { name, description: own.tag }
  })
}

/** The errors of an operation, by status. */
export function errorsOf(contract: Contract): ErrorKind[] {
  const kinds = new Set<ErrorKind>([...COMMON_ERRORS, ...contract.errors])
  if (contract.params) kinds.add(contract.invalidParams ?? 'not_found')
  if (takesKey(contract)) kinds.add('conflict')
  if (contract.body) kinds.add('too_large').add('unsupported_media_type')
  return [...kinds].sort((a, b) => ERRORS[a].status - ERRORS[b].status)
}

function describeOperation(
  contract: Contract,
  documentation: Documentation,
  schemas: SchemaWriter,
  parameters: readonly string[],
): JsonObject {
  const { body, response, bodyLimitBytes = BODY_LIMIT_BYTES, hasEtag } = contract
  const { summary, description, example } = documentation
  const limit = bodyLimitBytes === BODY_LIMIT_BYTES ? '' : ` The body may have up to ${bodyLimitBytes} bytes.`
  const successHeaders = refs('headers', successHeadersOf(contract))
  const errors = errorsOf(contract).map((kind) => [ERRORS[kind].status, ref('responses', errorResponseName(kind))])
  return {
    operationId: contract.operationId,
    tags: [contract.tag],
    summary,
    description: `${description}${limit}\n\n${accessOf(contract)}`,
    parameters: [
      ...describeInput('params', contract, documentation, schemas),
      ...describeInput('query', contract, documentation, schemas),
      ...(hasEtag ? [ownHeaders.ifNoneMatch] : []),
      ...(contract.errors.includes('precondition_failed') ? [ownHeaders.ifMatch] : []),
      ...(contract.createsOnly ? [ownHeaders.ifNoneMatchAny] : []),
      ...(takesKey(contract) ? [ownHeaders.idempotencyKey] : []),
      ...parameters.map((name) => ref('parameters', name)),
    ],
    ...(body && {
      requestBody: {
        description: z.globalRegistry.get(body)?.description ?? 'The body.',
        required: true,
        content: json(schemas.write(body, 'input'), example.body),
      },
    }),
    responses: {
      '200': {
        description: z.globalRegistry.get(response)?.description ?? 'The operation succeeded.',
        headers: successHeaders,
        content: json(schemas.write(response, 'output'), example.response, contract.mediaType),
      },
      ...(hasEtag && {
        '304': { description: 'Not modified since the `ETag` in `If-None-Match`. No body.', headers: successHeaders },
      }),
      ...Object.fromEntries(errors),
    },
  }
}

/** Describes the required access in a sentence. */
function accessOf({ role, permission }: Contract): string {
  if (role !== undefined) return role === 'member' ? 'Everyone who is signed in.' : `Role: \`${role}\`.`
  return permission === null ? 'Any token.' : `Permission: \`${permission}\`.`
}

function successHeadersOf(contract: Contract): HeaderName[] {
  if (contract.role !== undefined) return ['X-Request-Id']
  return [
    ...SUCCESS_HEADERS,
    ...(contract.hasVersion ? (['ETag--version'] as const) : contract.hasEtag ? (['ETag', 'Vary'] as const) : []),
    ...(takesKey(contract) ? (['Idempotency-Replayed'] as const) : []),
    ...(contract.isPaged ? (['Link'] as const) : []),
  ]
}

function describeInput(part: 'params' | 'query', contract: Contract, { example }: Documentation, writer: SchemaWriter) {
  const schema = contract[part]
  if (!schema) return []
  const place = part === 'params' ? 'path' : 'query'
  const { properties, required } = writer.write(schema, 'input')
  return Object.entries(asObject(properties)).map(([name, property]) => {
    const { description, ...rest } = asObject(property)
    if (!description) throw new Error(`The ${place} parameter ${name} has no description.`)
    const isRequired = place === 'path' || (Array.isArray(required) && required.includes(name))
    const value = example[part]?.[name]
    const shown = exampleOf(typeof value === 'string' && rest.type === 'integer' ? Number(value) : value)
    return { name, in: place, description, required: isRequired, schema: rest, ...shown }
  })
}

function describeError(kind: ErrorKind, schema: JsonObject, worded?: string): JsonObject {
  const { description, headers = ERROR_HEADERS, example = new ApiError(kind) } = errorResponses[kind]
  const body = errorBody(example, 'https://crm.example/api/v1')
  return { description: worded ?? description, headers: refs('headers', headers), content: json(schema, body) }
}

function json(schema: JsonObject, example: unknown, mediaType = 'application/json'): JsonObject {
  return { [mediaType]: { schema, ...exampleOf(example) } }
}

function exampleOf(value: unknown): { example?: Json } {
  return value === undefined ? {} : { example: JSON.parse(JSON.stringify(value)) }
}

function refs(kind: string, names: readonly string[]): JsonObject {
  return Object.fromEntries(names.map((name) => [name.replace(/--.*/, ''), ref(kind, name)]))
}

function ref(kind: string, name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` }
}

/** Moves the type and description of objects and lists before their members, as readers expect. */
function describeFirst(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(describeFirst)
  if (!isObject(schema)) return schema
  const { type, description, minItems, maxItems, ...rest } = schema
  const isContainer = 'properties' in schema || 'items' in schema || 'anyOf' in schema
  const ordered = isContainer ? { type, description, minItems, maxItems, ...rest } : { type, ...rest, description }
  return Object.fromEntries(Object.entries(ordered).map(([key, value]) => [key, describeFirst(value)]))
}
