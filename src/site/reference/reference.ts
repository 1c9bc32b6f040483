import * as z from 'zod'
import { BODY_LIMIT_BYTES, type Contract, type Documentation, takesKey } from '../../kernel/api/contract.ts'
import { ApiError, ERRORS, type ErrorKind, errorBody } from '../../kernel/http/errors.ts'
import { errorResponses, errorSchema } from './errors.ts'
import examples from './examples.json' with { type: 'json' }
import { ERROR_HEADERS, type HeaderName, ownHeaders, requestHeaders, SUCCESS_HEADERS } from './headers.ts'
import { asObject, type Json, type JsonObject } from './json.ts'
import { SchemaWriter } from './schema.ts'
import { describeWebhooks } from './webhooks.ts'

/** The differences between the two APIs. */
export interface Api {
  title: string
  server: string
  /** The tags that come first, in their order. All others follow by name. */
  tags: readonly string[]
  security: JsonObject
  /** The request headers of every operation, by component name. */
  headers: Record<string, Parameter>
  /** Overrides of error descriptions. */
  errors?: Partial<Record<ErrorKind, string>>
  /** Overrides of error examples. */
  examples?: Partial<Record<ErrorKind, ApiError>>
  errorSchema: z.core.$ZodType
  describeWebhooks?: (schemas: SchemaWriter) => JsonObject
}

/** The model of an API from which every published form is made: OpenAPI, the page, llms.txt and Postman. */
export type Reference = ReturnType<typeof readContracts>

/** Its path has `{name}` for a parameter. The headers of {@link Api} are not among its parameters. */
export type Operation = ReturnType<typeof describeOperation>

export type Parameter = {
  name: string
  in: string
  description: string
  required?: boolean
  schema: JsonObject
  example?: Json | undefined
}

export interface Response {
  status: number
  kind?: ErrorKind
  description: string
  headers: readonly HeaderName[]
  schema: JsonObject | null
  example?: Json | undefined
  mediaType?: string | undefined
}

/** Errors of every operation besides its own. 405 belongs to methods that are not described. */
const COMMON_ERRORS = [
  'invalid_request',
  'unauthenticated',
  'forbidden',
  'rate_limited',
  'internal_error',
  'unavailable',
] as const

const integrationApi: Api = {
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
  headers: requestHeaders,
  errorSchema,
  describeWebhooks,
}

/** The introduction is in Markdown. @throws Error for what has no description, and for schemas that share an id */
export function readContracts(published: Published, introduction: string, api = integrationApi) {
  const schemas = new SchemaWriter()
  const errorSchemas = new SchemaWriter()
  const error = errorSchemas.write(api.errorSchema, 'output')
  const byTag = Map.groupBy(published.endpoints, ({ tag }) => tag)
  const names = new Set([...api.tags, ...[...byTag.keys()].sort()])
  const tags = [...names].flatMap((name) => {
    const contracts = byTag.get(name)
    if (!contracts) return []
    const byPath = [...Map.groupBy(contracts, ({ path }) => path).values()].flat()
    const description = published.tags[name]
    if (!description) throw new Error(`The tag ${name} has no description.`)
    const operations = byPath.map((contract) => {
      const operation = describeOperation(contract, findDocumentation(published.documentation, contract), schemas)
      const errors = errorsOf(contract).map((kind) => describeError(kind, error, api, contract))
      return { ...operation, responses: [...operation.responses, ...errors] }
    })
    return [{ name, description, operations }]
  })
  const webhooks = api.describeWebhooks?.(schemas)
  const sorted = [...schemas.components].sort(([a], [b]) => (a < b ? -1 : 1))
  return {
    api,
    introduction,
    tags,
    operations: tags.flatMap(({ operations }) => operations),
    webhooks,
    schemas: Object.fromEntries([...sorted, ...errorSchemas.components]),
  }
}

/** The endpoints of an API with their documentation, which the Worker does not import. */
export interface Published {
  /** In the order of their documentation. */
  endpoints: Contract[]
  tags: Record<string, string>
  /** By operation. */
  documentation: Record<string, Documentation>
}

/** A module of a slice, with contracts, their documentation by operation, or both. */
export type SliceModule = Record<string, unknown> & {
  published?: { tags: Record<string, string>; document: () => Record<string, Documentation> }
}

export function publishedFrom(modules: readonly SliceModule[]): Published {
  const described = modules.flatMap(({ published }) => published ?? [])
  const documentation: Published['documentation'] = Object.assign({}, ...described.map((each) => each.document()))
  const place = ({ operationId }: Contract) => Object.keys(documentation).indexOf(operationId)
  const contracts = modules.flatMap((module) => Object.values(module).filter(isContract))
  return {
    endpoints: contracts.sort((a, b) => place(a) - place(b)),
    tags: Object.assign({}, ...described.map(({ tags }) => tags)),
    documentation,
  }
}

function isContract(value: unknown): value is Contract {
  return typeof value === 'object' && value !== null && 'operationId' in value
}

type Described = Required<Documentation>

/** The company of an example is 1 by default. @throws Error for an endpoint without documentation */
export function findDocumentation(all: Published['documentation'], { operationId, path }: Contract): Described {
  const found = all[operationId]
  if (!found) throw new Error(`${operationId} has no documentation.`)
  const { params, ...example } = found.example ?? {}
  const company = path.includes('{company_id}') && { company_id: '1' }
  return { ...found, example: { ...example, params: { ...company, ...params } } }
}

export function errorsOf(contract: Contract): ErrorKind[] {
  const kinds = new Set<ErrorKind>([...COMMON_ERRORS, ...contract.errors])
  if (contract.params) kinds.add(contract.invalidParams ?? 'not_found')
  if (takesKey(contract)) kinds.add('conflict')
  if (contract.body) kinds.add('request_timeout').add('too_large').add('unsupported_media_type')
  return [...kinds].sort((a, b) => ERRORS[a].status - ERRORS[b].status)
}

function describeOperation(contract: Contract, documentation: Described, schemas: SchemaWriter) {
  const { operationId: id, method, path, tag, body, response, bodyLimitBytes = BODY_LIMIT_BYTES, hasEtag } = contract
  const { summary, description, example } = documentation
  const limit = bodyLimitBytes === BODY_LIMIT_BYTES ? '' : ` The body may have up to ${bodyLimitBytes} bytes.`
  const headers = successHeadersOf(contract)
  const descriptionOf = (schema: z.core.$ZodType) => z.globalRegistry.get(schema)?.description
  const notModified = 'Not modified since the `ETag` in `If-None-Match`. No body.'
  const parameters: Parameter[] = [
    ...describeInput('params', contract, documentation, schemas),
    ...describeInput('query', contract, documentation, schemas),
    ...(hasEtag ? [ownHeaders.ifNoneMatch] : []),
    ...(contract.errors.includes('precondition_failed') ? [ownHeaders.ifMatch] : []),
    ...(contract.createsOnly ? [ownHeaders.ifNoneMatchAny] : []),
    ...(takesKey(contract) ? [ownHeaders.idempotencyKey] : []),
  ]
  const responses: Response[] = [
    {
      status: 200,
      description: descriptionOf(response) ?? 'The operation succeeded.',
      headers,
      schema: schemas.write(response, 'output'),
      example: toExample(example.response ?? asObject(examples)[id]),
      mediaType: contract.mediaType,
    },
    ...(hasEtag ? [{ status: 304, description: notModified, headers, schema: null }] : []),
  ]
  return {
    id,
    method,
    path,
    tag,
    summary,
    description: `${description}${limit}\n\n${accessOf(contract)}`,
    parameters,
    body: body && {
      description: descriptionOf(body) ?? 'The body.',
      schema: schemas.write(body, 'body'),
      example: toExample(example.body),
    },
    responses,
  }
}

function accessOf({ role, permission }: Contract): string {
  if (role !== undefined) return role === 'member' ? 'Operators, and the members of any company.' : `Role: \`${role}\`.`
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

function describeInput(part: 'params' | 'query', contract: Contract, { example }: Described, schemas: SchemaWriter) {
  const input = contract[part]
  if (!input) return []
  const place = part === 'params' ? 'path' : 'query'
  const { properties, required } = schemas.write(input, 'input')
  return Object.entries(asObject(properties)).map(([name, property]) => {
    const { description, ...schema } = asObject(property)
    if (!description) throw new Error(`The ${place} parameter ${name} has no description.`)
    const isRequired = place === 'path' || (Array.isArray(required) && required.includes(name))
    const value = example[part]?.[name]
    const shown = toExample(typeof value === 'string' && schema.type === 'integer' ? Number(value) : value)
    return { name, in: place, description: String(description), required: isRequired, schema, example: shown }
  })
}

function describeError(kind: ErrorKind, schema: JsonObject, api: Api, { role }: Contract): Response {
  const { headers = ERROR_HEADERS, example = new ApiError(kind), ...published } = errorResponses[kind]
  const description = api.errors?.[kind] ?? published.description
  const sent = headers.filter((name) => role === undefined || !/^(RateLimit|Idempotency)|--conflict$/.test(name))
  const body = toExample(errorBody(api.examples?.[kind] ?? example, `https://crm.example${api.server}`))
  return { status: ERRORS[kind].status, kind, description, headers: sent, schema, example: body }
}

function toExample(value: unknown): Json | undefined {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value))
}
