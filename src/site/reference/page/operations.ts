import { asObject, type Json, type JsonObject } from '../json.ts'
import { type Section, splitSections } from './markdown.ts'

/** An OpenAPI document as its readers see it, with resolved references, except those in schemas. */
export interface Reference {
  title: string
  version: string
  description: string
  /** The parts of the description: the first one, and those under a heading. */
  summary: string
  sections: Section[]
  tags: { name: string; description: string; operations: Operation[] }[]
  operations: Operation[]
  /** The named schemas. */
  schemas: JsonObject
}

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
  place: string
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

/** Reads a document, in its order. */
export function readReference(document: JsonObject): Reference {
  const info = textsOf(document.info, 'title', 'version', 'description')
  const [summary, ...sections] = splitSections(info.description)
  const all = Object.entries(asObject(document.paths)).flatMap(([path, item]) =>
    Object.entries(asObject(item)).map(([method, operation]) => readOperation(document, method, path, operation)),
  )
  const isGeneric = ({ place, name }: Parameter) =>
    place === 'header' && all.every(({ parameters }) => parameters.some((each) => each.name === name))
  const operations = all.map((operation) => ({
    ...operation,
    parameters: operation.parameters.filter((parameter) => !isGeneric(parameter)),
    genericHeaders: operation.parameters.filter(isGeneric),
  }))
  const tags = list(document.tags).map((value) => {
    const tag = textsOf(value, 'name', 'description')
    return { ...tag, operations: operations.filter((operation) => operation.tag === tag.name) }
  })
  const schemas = asObject(asObject(document.components).schemas)
  return { ...info, summary: summary?.text ?? '', sections, tags, operations, schemas }
}

function readOperation(document: JsonObject, method: string, path: string, value: Json | undefined): Operation {
  const { operationId, tags, parameters, requestBody, responses } = asObject(value)
  return {
    id: String(operationId),
    method: method.toUpperCase(),
    path,
    tag: String(list(tags)[0]),
    ...textsOf(value, 'summary', 'description'),
    parameters: list(parameters).map((reference) => {
      const parameter = resolve(document, reference)
      const { in: place, required, schema, example } = parameter
      const texts = textsOf(parameter, 'name', 'description')
      return { ...texts, place: String(place), required: required === true, schema: resolve(document, schema), example }
    }),
    genericHeaders: [],
    body: requestBody === undefined ? null : { ...textsOf(requestBody, 'description'), ...readContent(requestBody) },
    responses: Object.entries(asObject(responses)).map(([status, reference]) => {
      const response = resolve(document, reference)
      const headers = Object.entries(asObject(response.headers ?? {})).map(([name, header]) => ({
        name,
        ...textsOf(resolve(document, header), 'description'),
      }))
      const content = response.content === undefined ? { schema: null, example: undefined } : readContent(response)
      return { status: Number(status), ...textsOf(response, 'description'), headers, ...content }
    }),
  }
}

/** Reads the JSON content of a request or response. */
function readContent(value: Json) {
  const { schema, example } = asObject(asObject(asObject(value).content)['application/json'])
  return { schema: asObject(schema), example }
}

/** Follows a reference within the document. */
function resolve(document: JsonObject, value: Json | undefined): JsonObject {
  const object = asObject(value)
  if (typeof object.$ref !== 'string') return object
  const keys = object.$ref.slice(2).split('/')
  return asObject(keys.reduce<Json | undefined>((at, key) => asObject(at)[key], document))
}

/** The component that a schema refers to, such as `Client`, or null. */
export function componentOf({ $ref }: JsonObject): string | null {
  return typeof $ref === 'string' ? ($ref.split('/').at(-1) ?? null) : null
}

function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : []
}

/** The texts of an object's members; empty for those that it lacks. */
function textsOf<Name extends string>(value: Json | undefined, ...names: Name[]) {
  const object = asObject(value)
  return Object.fromEntries(names.map((name) => [name, String(object[name] ?? '')])) as Record<Name, string>
}
