import * as z from 'zod'
import { asObject, isObject, type Json, type JsonObject } from './json.ts'

/** Formats that say as much as their Zod pattern, which is omitted. */
const SELF_EXPLAINING_FORMATS = new Set<unknown>(['date', 'date-time', 'uuid', 'uri'])
/** The end of Zod's pattern for a UTC date-time with milliseconds. */
const UTC_MILLISECONDS_END = '\\.\\d{3}(?:Z))$'
/** Zod's name of definitions without an id: recursive ones, of which `z.json()` is published by name. */
const UNNAMED = '__schema'
const JSON_VALUE = 'JsonValue'
const JSON_VALUE_DEFINITION = JSON.stringify(Object.values(asObject(convert(z.json(), 'output').$defs)))

type Use = 'input' | 'body' | 'output'

/** Writes Zod schemas as JSON Schema (2020-12) for OpenAPI 3.1. One with a `meta({ id })` becomes a component. */
export class SchemaWriter {
  readonly components = new Map<string, JsonObject>()

  /** @throws Error where two different schemas have one id, or a recursive one has none */
  write(schema: z.core.$ZodType, io: Use): JsonObject {
    const { $defs = {}, properties } = convert(schema, io)
    for (const [name, definition] of Object.entries(asObject($defs))) {
      const isUnnamed = name.startsWith(UNNAMED)
      if (isUnnamed && JSON.stringify([definition]) !== JSON_VALUE_DEFINITION) {
        throw new Error('A schema that refers to itself needs a meta({ id }).')
      }
      const id = isUnnamed ? JSON_VALUE : name
      const component = isUnnamed ? { description: 'Any JSON value.' } : asObject(definition)
      const known = this.components.get(id) ?? component
      if (JSON.stringify(known) !== JSON.stringify(component))
        throw new Error(`Two different schemas have the id ${id}.`)
      this.components.set(id, component)
    }
    return asObject(asObject(properties).root)
  }
}

/** Converts the schema as the property `root` of an object, so that a schema with an id becomes a reference too. */
function convert(schema: z.core.$ZodType, use: Use): JsonObject {
  const io = use === 'output' ? 'output' : 'input'
  const text = JSON.stringify(z.toJSONSchema(z.object({ root: schema }), { io, override: addHiddenRules }))
  return JSON.parse(text, (_key, value: Json) => (isObject(value) ? tidy(value, use) : value))
}

type Node = Parameters<NonNullable<z.core.ToJSONSchemaParams['override']>>[0]

/** Adds rules that Zod omits from the input side: those behind a trim, and the default of a transformed value. */
function addHiddenRules({ zodSchema, jsonSchema }: Node): void {
  const definition = zodSchema._zod.def
  if (definition.type === 'default') jsonSchema.default = definition.defaultValue as typeof jsonSchema.default
  if (definition.type !== 'pipe') return
  const isText = [definition.in, definition.out].every((side) => side._zod.def.type === 'string')
  if (!isText) return
  Object.assign(jsonSchema, { ...z.toJSONSchema(definition.out, { override: addHiddenRules }), ...jsonSchema })
}

/** Shortens a schema and makes it true to the wire. Its subschemas are already tidy. */
function tidy({ ...schema }: JsonObject, io: Use): JsonObject {
  // A property may have this name too: only the keyword is text.
  if (typeof schema.$schema === 'string') delete schema.$schema
  // Responses may get new fields; a request body with an unknown one is refused.
  if (io === 'output' && schema.additionalProperties === false) delete schema.additionalProperties
  if (typeof schema.$ref === 'string') {
    const name = schema.$ref.replace('#/$defs/', '')
    schema.$ref = `#/components/schemas/${name.startsWith(UNNAMED) ? JSON_VALUE : name}`
  }
  // The pattern is that of the query's text for the number.
  if (schema.type === 'integer') delete schema.pattern
  if (schema.type === 'integer' && typeof schema.exclusiveMinimum === 'number') {
    schema.minimum = schema.exclusiveMinimum + 1
    delete schema.exclusiveMinimum
  }
  if (io === 'body' && isObject(schema.properties)) Object.values(schema.properties).forEach(describeDefault)
  if (schema.minLength === 0) delete schema.minLength
  if (typeof schema.pattern === 'string') {
    // JavaScript's `source` escapes slashes. Generators that escape them again would end their own literal.
    const pattern = schema.pattern.replaceAll(/\\(.)/gs, (pair, character) => (character === '/' ? '/' : pair))
    if (!SELF_EXPLAINING_FORMATS.has(schema.format)) schema.pattern = pattern
    else if (schema.pattern.endsWith(UTC_MILLISECONDS_END)) schema.pattern = '\\.\\d{3}Z$'
    else delete schema.pattern
  }
  // Keys of JSON objects are always strings.
  if (JSON.stringify(schema.propertyNames) === '{"type":"string"}') delete schema.propertyNames
  if (JSON.stringify(schema.additionalProperties) === '{}') schema.additionalProperties = true
  return joinNull(schema)
}

/** Moves a default into the description: openapi-typescript makes a field with the keyword required. */
function describeDefault(field: Json | undefined): void {
  if (!isObject(field) || field.default === undefined) return
  field.description = `${field.description ?? ''} Default: \`${JSON.stringify(field.default)}\`.`.trimStart()
  delete field.default
}

/** Joins `anyOf` a plain type or null to one list of types. */
function joinNull(schema: JsonObject): JsonObject {
  const { anyOf, ...rest } = schema
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return schema
  const [first, second] = anyOf
  if (!isObject(first) || !isObject(second) || second.type !== 'null') return schema
  if (typeof first.type !== 'string' || first.const !== undefined) return schema
  const values = Array.isArray(first.enum) ? { enum: [...first.enum, null] } : {}
  return { ...first, ...rest, type: [first.type, 'null'], ...values }
}
