import { asObject, type Json, type JsonObject } from '../json.ts'

/** An operation of an OpenAPI document with resolved references, except those in schemas. */
export interface Operation {
  id: string
  method: string
  /** The path, with `{name}` for a parameter. */
  path: string
  tag: string
  summary: string
  description: string
  parameters: Parameter[]
  /** The headers of every operation; they are not among the parameters. */
  genericHeaders: Parameter[]
  body: { description: string; schema: JsonObject; example: Json | undefined } | null
  responses: Response[]
}

export interface Parameter {
  name: string
  place: 'path' | 'query' | 'header'
  description: string
  required: boolean
  schema: JsonObject
  example: Json | undefined
}

export interface Response {
  status: number
  description: string
  headers: { name: string; description: string }[]
  schema: JsonObject | null
  example: Json | undefined
}

/** Reads the document's information about the whole API. */
export function readInfo(document: JsonObject) {
  const { title, version, description } = asObject(document.info)
  return { title: text(title), version: text(version), description: text(description) }
}

/** Follows a reference within the document. */
export function resolve(document: JsonObject, value: Json | undefined): JsonObject {
  const object = asObject(value)
  if (typeof object.$ref !== 'string') return object
  const keys = object.$ref.slice(2).split('/')
  return resolve(
    document,
    keys.reduce<Json | undefined>((at, key) => asObject(at)[key], document),
  )
}

/** The component that a schema refers to, such as `Client`, or null. */
export function componentOf({ $ref }: JsonObject): string | null {
  return typeof $ref === 'string' ? ($ref.split('/').at(-1) ?? null) : null
}

/** The operations of a document in its order. */
export function listOperations(document: JsonObject): Operation[] {
  const operations = Object.entries(asObject(document.paths)).flatMap(([path, item]) =>
    Object.entries(asObject(item)).map(([method, operation]) =>
      readOperation(document, method.toUpperCase(), path, asObject(operation)),
    ),
  )
  const isGeneric = ({ place, name }: Parameter) =>
    place === 'header' && operations.every(({ parameters }) => parameters.some((each) => each.name === name))
  return operations.map((operation) => ({
    ...operation,
    parameters: operation.parameters.filter((parameter) => !isGeneric(parameter)),
    genericHeaders: operation.parameters.filter(isGeneric),
  }))
}

function readOperation(document: JsonObject, method: string, path: string, operation: JsonObject) {
  const { operationId, tags, summary, description, parameters, requestBody, responses } = operation
  const body = requestBody === undefined ? null : resolve(document, requestBody)
  return {
    id: text(operationId),
    method,
    path,
    tag: text(list(tags)[0]),
    summary: text(summary),
    description: text(description),
    parameters: list(parameters).map((parameter) => readParameter(document, parameter)),
    body: body && { description: text(body.description), ...readContent(body) },
    responses: Object.entries(asObject(responses)).map(([status, response]) => {
      const { headers = {}, content, description } = resolve(document, response)
      return {
        status: Number(status),
        description: text(description),
        headers: Object.entries(asObject(headers)).map(([name, header]) => {
          return { name, description: text(resolve(document, header).description) }
        }),
        ...(content === undefined ? { schema: null, example: undefined } : readContent({ content })),
      }
    }),
  }
}

function readParameter(document: JsonObject, value: Json): Parameter {
  const { name, in: place, description, required, schema, example } = resolve(document, value)
  if (place !== 'path' && place !== 'query' && place !== 'header') throw new Error(`${name} has the place ${place}.`)
  return {
    name: text(name),
    place,
    description: text(description),
    required: required === true,
    schema: resolve(document, schema),
    example,
  }
}

/** Reads the JSON content of a request or response. */
function readContent({ content }: JsonObject) {
  const { schema, example } = asObject(asObject(content)['application/json'])
  return { schema: asObject(schema), example }
}

function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : []
}

function text(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}
