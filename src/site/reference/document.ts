import { ERRORS, type ErrorKind } from '../../kernel/http/errors.ts'
import { errorResponseName } from './errors.ts'
import { headerNameOf, responseHeaders } from './headers.ts'
import type { Json, JsonObject } from './json.ts'
import { type Operation, type Reference, type Response, readContracts } from './reference.ts'

export const VERSION = '1.1.0'

/** The OpenAPI 3.1 document of an API: see {@link readContracts}. */
export function describeApi(...contracts: Parameters<typeof readContracts>) {
  return writeDocument(readContracts(...contracts))
}

export function writeDocument({ api, introduction, tags, operations, webhooks, schemas }: Reference) {
  const { title, server, security, headers } = api
  const paths: Record<string, JsonObject> = {}
  for (const operation of operations) {
    const { path, method } = operation
    paths[path] = { ...paths[path], [method.toLowerCase()]: writeOperation(operation, Object.keys(headers)) }
  }
  const all = operations.flatMap((operation) => operation.responses)
  const errors = (Object.keys(ERRORS) as ErrorKind[]).flatMap((kind) => all.find((each) => each.kind === kind) ?? [])
  const responses = Object.fromEntries(
    errors.map(({ kind, ...response }) => [kind && errorResponseName(kind), writeResponse(response)]),
  )
  const used = JSON.stringify([paths, responses])
  const isUsed = (header: string) => used.includes(`"#/components/headers/${header}"`)

  return {
    openapi: '3.1.0',
    info: {
      title,
      version: VERSION,
      description: introduction,
      contact: { name: 'The operator of this API' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: server, description: 'The server of this description.' }],
    security: Object.keys(security).map((name) => ({ [name]: [] })),
    tags: tags.map(({ name, description }) => ({ name, description })),
    paths,
    ...(webhooks && { webhooks }),
    components: {
      securitySchemes: security,
      schemas,
      parameters: headers,
      headers: Object.fromEntries(Object.entries(responseHeaders).filter(([name]) => isUsed(name))),
      responses,
    },
  }
}

/** @param headers the component names of the request headers of every operation */
function writeOperation(operation: Operation, headers: readonly string[]): JsonObject {
  const { id, tag, summary, description, parameters, body, responses } = operation
  const written = responses.map((response) => {
    const { status, kind } = response
    return [status, kind ? ref('responses', errorResponseName(kind)) : writeResponse(response)]
  })
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    parameters: [...parameters, ...headers.map((name) => ref('parameters', name))],
    ...(body && {
      requestBody: { description: body.description, required: true, content: json(body.schema, body.example) },
    }),
    responses: Object.fromEntries(written),
  }
}

function writeResponse({ description, headers, schema, example, mediaType }: Response): JsonObject {
  return {
    description,
    headers: Object.fromEntries(headers.map((name) => [headerNameOf(name), ref('headers', name)])),
    ...(schema && { content: json(schema, example, mediaType) }),
  }
}

function json(schema: JsonObject, example: Json | undefined, mediaType = 'application/json'): JsonObject {
  return { [mediaType]: { schema, example } }
}

function ref(kind: string, name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` }
}
