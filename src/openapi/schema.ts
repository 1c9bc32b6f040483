import * as z from 'zod'
import { asObject, isObject, type JsonObject, mapSubschemas } from './json.ts'

/** Keywords that count for strings only; on numbers they are left over from the text that a query value is. */
const STRING_KEYWORDS = ['pattern', 'minLength', 'maxLength', 'format', 'contentEncoding']

/** Formats whose Zod pattern says no more than the format itself, in many more characters. */
const SELF_EXPLAINING_FORMATS = new Set(['date', 'date-time', 'uuid', 'uri'])

/** What the pattern of a date-time with milliseconds and `Z` ends with, and what is published instead. */
const UTC_MILLISECONDS_END = '\\.\\d{3}(?:Z))$'
const UTC_MILLISECONDS = '\\.\\d{3}Z$'

/** How Zod's own names for definitions without an id begin. */
const UNNAMED = '__schema'

/** The component of any JSON value, and what Zod writes for it. */
const JSON_VALUE = 'JsonValue'
const JSON_VALUE_DEFINITION = JSON.stringify(
  z.toJSONSchema(z.object({ root: z.json() })).$defs?.[`${UNNAMED}0`],
).replaceAll(`${UNNAMED}0`, JSON_VALUE)

/**
 * Turns Zod schemas into JSON Schema (2020-12) as OpenAPI 3.1 wants it. Schemas with a `meta({ id })` are collected in
 * `components` and referred to from everywhere.
 */
export class SchemaWriter {
  readonly components = new Map<string, JsonObject>()

  /**
   * @param io which side of the schema: what a caller may send (`input`) or what it gets (`output`)
   * @throws Error where two different schemas have one id, or a recursive one has none
   */
  write(schema: z.core.$ZodType, io: 'input' | 'output'): JsonObject {
    // Inside a wrapper even a schema with an id comes out as a reference to a definition.
    const wrapped = toJson(z.toJSONSchema(z.object({ root: schema }), { io, override: improve }))
    for (const [id, definition] of Object.entries(asObject(wrapped.$defs ?? {}))) {
      if (isJsonValue(id, definition)) this.#add(JSON_VALUE, { description: 'Any JSON value.' })
      else if (id.startsWith(UNNAMED)) throw new Error('A schema that refers to itself needs a meta({ id }).')
      else this.#add(id, tidy(asObject(definition)))
    }
    return tidy(asObject(asObject(wrapped.properties).root))
  }

  #add(id: string, schema: JsonObject): void {
    const known = this.components.get(id)
    if (known && JSON.stringify(known) !== JSON.stringify(schema)) {
      throw new Error(`Two different schemas have the id ${id}.`)
    }
    this.components.set(id, schema)
  }
}

/** Whether Zod made this definition, which refers to itself, for `z.json()`: it is published by name. */
function isJsonValue(id: string, definition: unknown): boolean {
  return id.startsWith(UNNAMED) && JSON.stringify(definition).replaceAll(id, JSON_VALUE) === JSON_VALUE_DEFINITION
}

type Override = NonNullable<NonNullable<Parameters<typeof z.toJSONSchema>[1]>['override']>

/** What Zod leaves out of the input side: the rules behind a trim, and the default of a value that is transformed. */
const improve: Override = ({ zodSchema, jsonSchema }) => {
  const definition = zodSchema._zod.def
  if (definition.type === 'default') {
    jsonSchema.default = definition.defaultValue as typeof jsonSchema.default
  }
  if (definition.type === 'pipe' && isText(definition.in) && isText(definition.out)) {
    const { $schema, ...rules } = z.toJSONSchema(definition.out, { override: improve })
    Object.assign(jsonSchema, { ...rules, ...jsonSchema })
  }
}

function isText(schema: z.core.$ZodType): boolean {
  return schema._zod.def.type === 'string'
}

/** The same schema, shorter and true to the wire: references to components, plain nullable types, no leftovers. */
function tidy(schema: JsonObject): JsonObject {
  const { $schema, id, ...result } = mapSubschemas(schema, tidy)

  if (typeof result.$ref === 'string') {
    const name = result.$ref.replace('#/$defs/', '')
    result.$ref = `#/components/schemas/${name.startsWith(UNNAMED) ? JSON_VALUE : name}`
  }
  if (result.type === 'integer' || result.type === 'number') for (const key of STRING_KEYWORDS) delete result[key]
  if (result.type === 'integer' && typeof result.exclusiveMinimum === 'number') {
    result.minimum = result.exclusiveMinimum + 1
    delete result.exclusiveMinimum
  }
  if (result.minLength === 0) delete result.minLength
  if (typeof result.format === 'string' && SELF_EXPLAINING_FORMATS.has(result.format)) {
    const isUtc = typeof result.pattern === 'string' && result.pattern.endsWith(UTC_MILLISECONDS_END)
    if (isUtc) result.pattern = UTC_MILLISECONDS
    else delete result.pattern
  }
  if (typeof result.pattern === 'string') result.pattern = unescapeSlashes(result.pattern)
  // Keys of JSON objects are strings anyway.
  if (isObject(result.propertyNames) && Object.keys(result.propertyNames).join() === 'type') delete result.propertyNames
  if (isObject(result.additionalProperties) && Object.keys(result.additionalProperties).length === 0) {
    result.additionalProperties = true
  }
  return joinNull(result)
}

/** JavaScript's `source` escapes slashes, which only its literals need: generators that escape them too end the literal. */
function unescapeSlashes(pattern: string): string {
  return pattern.replaceAll(/\\(.)/gs, (pair, character) => (character === '/' ? '/' : pair))
}

/** `anyOf` a plain type or null becomes one type list. */
function joinNull(schema: JsonObject): JsonObject {
  const { anyOf, ...rest } = schema
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return schema
  const [first, second] = anyOf
  if (!isObject(first) || !isObject(second) || second.type !== 'null') return schema
  if (typeof first.type !== 'string' || first.const !== undefined) return schema
  return {
    ...first,
    ...rest,
    type: [first.type, 'null'],
    ...(Array.isArray(first.enum) && { enum: [...first.enum, null] }),
  }
}

function toJson(value: unknown): JsonObject {
  return asObject(JSON.parse(JSON.stringify(value)))
}
