/** Any JSON value. */
export type Json = string | number | boolean | null | Json[] | JsonObject

/** A JSON object; a member that is undefined is not written. */
export interface JsonObject {
  [key: string]: Json | undefined
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** @throws Error for anything but an object */
export function asObject(value: unknown): JsonObject {
  if (!isObject(value)) throw new Error('An object was expected here.')
  return value
}

/** Applies `change` to every schema directly inside this one; leaves examples, defaults and enums alone. */
export function mapSubschemas(schema: JsonObject, change: (schema: JsonObject) => JsonObject): JsonObject {
  const mapOne = (value: Json | undefined) => (isObject(value) ? change(value) : value)
  const result: JsonObject = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (['properties', 'patternProperties', '$defs'].includes(keyword) && isObject(value)) {
      result[keyword] = Object.fromEntries(Object.entries(value).map(([name, sub]) => [name, mapOne(sub)]))
    } else if (['items', 'additionalProperties', 'propertyNames', 'contains', 'not'].includes(keyword)) {
      result[keyword] = mapOne(value)
    } else if (['anyOf', 'oneOf', 'allOf', 'prefixItems'].includes(keyword) && Array.isArray(value)) {
      result[keyword] = value.map((sub) => (isObject(sub) ? change(sub) : sub))
    } else {
      result[keyword] = value
    }
  }
  return result
}
