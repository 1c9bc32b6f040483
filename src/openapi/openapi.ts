import * as z from 'zod'
import { BODY_LIMIT_BYTES } from '../http/body.ts'
import type { Contract, Documentation } from '../http/contract.ts'
import { ERRORS, type ErrorKind } from '../http/errors.ts'
import { documentationOf } from './documentation.ts'
import { describeError, detailSchemas, errorResponseName, errorSchema } from './errors.ts'
import { headersOf, ifNoneMatch, requestHeaders, responseHeaders } from './headers.ts'
import { asObject, type Json, type JsonObject } from './json.ts'
import { SchemaWriter } from './schema.ts'
import { introduction, tags } from './text.ts'

/** What any operation can answer besides its own errors. 405 belongs to methods that are not described. */
const COMMON_ERRORS: readonly ErrorKind[] = [
  'invalid_request',
  'unauthenticated',
  'forbidden',
  'rate_limited',
  'internal_error',
]

/**
 * The OpenAPI 3.1 document of an API.
 *
 * @throws Error for an unknown tag, a parameter without a schema or a description, and schemas that share an id
 */
export function describeApi(contracts: readonly Contract[], documentation = documentationOf): JsonObject {
  const schemas = new SchemaWriter()
  const paths: Record<string, JsonObject> = {}
  for (const contract of contracts) {
    paths[contract.path] = {
      ...paths[contract.path],
      [contract.method.toLowerCase()]: describeOperation(contract, documentation(contract), schemas),
    }
  }

  return {
    openapi: '3.1.0',
    info: {
      title: 'CRM integration API',
      version: '1.0.0',
      description: introduction,
      contact: { name: 'The operator of this API' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/api/v1', description: 'The server of this description.' }],
    security: [{ bearer: [] }],
    tags: usedTags(contracts),
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: '64 hexadecimal characters',
          description: 'A token of the company, as shown once in the developer settings.',
        },
      },
      schemas: {
        ...Object.fromEntries([...schemas.components].sort(([a], [b]) => (a < b ? -1 : 1))),
        Error: errorSchema,
        ...detailSchemas,
      },
      parameters: requestHeaders,
      headers: responseHeaders,
      responses: describeErrors(contracts),
    },
  }
}

/** The errors that an operation can answer with, by status. */
export function errorsOf(contract: Contract): ErrorKind[] {
  const kinds = new Set<ErrorKind>([...COMMON_ERRORS, ...contract.errors])
  if (contract.params) kinds.add(contract.invalidParams ?? 'not_found')
  if (contract.body) kinds.add('too_large').add('unsupported_media_type').add('unavailable')
  return [...kinds].sort((a, b) => ERRORS[a].status - ERRORS[b].status)
}

function describeOperation(
  contract: Contract,
  { summary, description, example }: Documentation,
  schemas: SchemaWriter,
): JsonObject {
  const limitBytes = contract.bodyLimitBytes ?? BODY_LIMIT_BYTES
  const limit = limitBytes === BODY_LIMIT_BYTES ? '' : ` The body may have up to ${limitBytes} bytes.`
  return {
    operationId: contract.operationId,
    tags: [contract.tag],
    summary,
    description: `${description}${limit}\n\nPermission: \`${contract.permission}\`.`,
    parameters: [
      ...describeParameters('path', contract.params, example.params, schemas),
      ...describeParameters('query', contract.query, example.query, schemas),
      ...(contract.hasEtag ? [ifNoneMatch] : []),
      ...Object.keys(requestHeaders).map((name) => ref('parameters', name)),
    ],
    ...(contract.body && {
      requestBody: {
        description: descriptionOf(contract.body) ?? 'The body.',
        required: true,
        content: json(schemas.write(contract.body, 'input'), asJson(example.body)),
      },
    }),
    responses: {
      '200': {
        description: descriptionOf(contract.response) ?? 'The operation succeeded.',
        headers: headersOf('answer', contract.hasEtag ? ['ETag', 'Vary'] : []),
        content: json(schemas.write(contract.response, 'output'), asJson(example.response)),
      },
      ...(contract.hasEtag && {
        '304': {
          description: 'What `If-None-Match` names is still the answer. Without a body.',
          headers: headersOf('answer', ['ETag', 'Vary']),
        },
      }),
      ...Object.fromEntries(
        errorsOf(contract).map((kind) => [String(ERRORS[kind].status), ref('responses', errorResponseName(kind))]),
      ),
    },
  }
}

function descriptionOf(schema: z.core.$ZodType): string | undefined {
  return z.globalRegistry.get(schema)?.description
}

function describeParameters(
  place: 'path' | 'query',
  schema: z.core.$ZodType | undefined,
  examples: Record<string, unknown> | undefined,
  schemas: SchemaWriter,
): JsonObject[] {
  if (!schema) return []
  const { properties, required } = schemas.write(schema, 'input')
  const requiredNames = Array.isArray(required) ? required : []
  return Object.entries(asObject(properties)).map(([name, property]) => {
    const { description, ...rest } = asObject(property)
    if (!description) throw new Error(`The ${place} parameter ${name} has no description.`)
    const example = asJson(examples?.[name])
    return {
      name,
      in: place,
      description,
      required: place === 'path' || requiredNames.includes(name),
      schema: rest,
      ...(example !== undefined && { example }),
    }
  })
}

function describeErrors(contracts: readonly Contract[]): JsonObject {
  const used = new Set(contracts.flatMap(errorsOf))
  const kinds = (Object.keys(ERRORS) as ErrorKind[]).filter((kind) => used.has(kind))
  return Object.fromEntries(
    kinds.map((kind) => {
      const { description, headers, example } = describeError(kind)
      return [
        errorResponseName(kind),
        {
          description,
          headers: headersOf(kind === 'unauthenticated' ? 'unauthenticated' : 'error', headers),
          content: json(ref('schemas', 'Error'), example),
        },
      ]
    }),
  )
}

function usedTags(contracts: readonly Contract[]): JsonObject[] {
  const used = new Set(contracts.map((contract) => contract.tag))
  for (const tag of used) if (!tags[tag]) throw new Error(`The tag ${tag} has no description in text.ts.`)
  return Object.entries(tags)
    .filter(([name]) => used.has(name))
    .map(([name, description]) => ({ name, description }))
}

function json(schema: JsonObject, example: Json | undefined): JsonObject {
  return { 'application/json': { schema, ...(example !== undefined && { example }) } }
}

function ref(kind: string, name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` }
}

function asJson(value: unknown): Json | undefined {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value))
}
