import { asObject, isObject, type JsonObject } from '../../../src/site/reference/json.ts'
import { document, patternOf, resolve } from '../../support/conformance.ts'

export interface Parameter {
  name: string
  required: boolean
  /** Its value on the wire is text, whatever the type. */
  schema: JsonObject
}

export interface Operation {
  id: string
  method: string
  /** With `{name}` for a parameter. */
  path: string
  methods: string[]
  pathParameters: Parameter[]
  queryParameters: Parameter[]
  headerParameters: Parameter[]
  /** The schema of the JSON body, references at its top followed. */
  body: JsonObject | null
}

/** Every operation of the published description. */
export const operations: readonly Operation[] = Object.entries(asObject(document.paths)).flatMap(([path, item]) =>
  Object.entries(asObject(item)).map(([method, operation]) =>
    describe(path, Object.keys(asObject(item)), method, asObject(operation)),
  ),
)

function describe(path: string, methods: string[], method: string, operation: JsonObject): Operation {
  const parameters = (Array.isArray(operation.parameters) ? operation.parameters : []).map((one) => resolve(one))
  const inPlace = (place: string) =>
    parameters
      .filter((parameter) => parameter.in === place)
      .map((parameter) => ({
        name: String(parameter.name),
        required: parameter.required === true,
        schema: resolve(parameter.schema),
      }))
  const content = operation.requestBody && asObject(asObject(operation.requestBody).content)
  return {
    id: String(operation.operationId),
    method: method.toUpperCase(),
    path,
    methods: methods.map((name) => name.toUpperCase()),
    pathParameters: inPlace('path'),
    queryParameters: inPlace('query'),
    headerParameters: inPlace('header'),
    body: content ? resolve(asObject(content['application/json']).schema) : null,
  }
}

/** A path without parameters comes before one that fits it too. */
const patterns = operations
  .map((operation) => ({ operation, pattern: patternOf(operation.path) }))
  .toSorted((a, b) => a.operation.path.split('{').length - b.operation.path.split('{').length)

/** The operation of a request. @param path behind the server's address, with or without a query */
export function findOperation(method: string, path: string): Operation | undefined {
  const [pathname = ''] = path.split('?')
  return patterns.find(({ operation, pattern }) => operation.method === method && pattern.test(pathname))?.operation
}

/** The types that a schema allows; null where it allows any. */
export function typesOf(schema: JsonObject): string[] | null {
  if (schema.type === undefined) return null
  return Array.isArray(schema.type) ? schema.type.map(String) : [String(schema.type)]
}

export function propertiesOf(schema: JsonObject): [name: string, schema: JsonObject][] {
  const properties = isObject(schema.properties) ? schema.properties : {}
  return Object.entries(properties).map(([name, property]) => [name, resolve(property)])
}

export const requiredOf = (schema: JsonObject) => (Array.isArray(schema.required) ? schema.required.map(String) : [])

/** Whether an object may have members that are not named. */
export const isOpen = (schema: JsonObject) => schema.additionalProperties !== false
