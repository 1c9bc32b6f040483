import type { JsonObject } from '../../../src/site/reference/json.ts'
import { countCharacters } from './values.ts'

/** Whether a schema asks for more of a text than a length. */
export function isStrict(schema: JsonObject): boolean {
  const { type, pattern, format } = schema
  return type === 'integer' || pattern !== undefined || format !== undefined || schema.enum !== undefined
}

/** Whether a text may stand where the schema is, as far as that is sure: white space around it may be cut off. */
export function fits(value: string, schema: JsonObject): boolean {
  if (schema.type === 'integer') return /^\d+$/.test(value) && isWithin(Number(value), schema)
  if (Array.isArray(schema.enum)) return schema.enum.includes(value)
  const length = countCharacters(value)
  if (length < Number(schema.minLength ?? 0) || length > Number(schema.maxLength ?? Number.POSITIVE_INFINITY))
    return false
  if (new TextEncoder().encode(value).length > Number(schema['x-max-bytes'] ?? Number.POSITIVE_INFINITY)) return false
  if (schema.format === 'date') return isDay(value)
  if (schema.format === 'date-time') return !Number.isNaN(Date.parse(value)) && /T.*(Z|[+-]\d\d:\d\d)$/.test(value)
  return typeof schema.pattern !== 'string' || new RegExp(schema.pattern, 'u').test(value.trim())
}

export function isWithin(value: number, { minimum, maximum }: JsonObject): boolean {
  return value >= Number(minimum ?? Number.NEGATIVE_INFINITY) && value <= Number(maximum ?? Number.POSITIVE_INFINITY)
}

function isDay(value: string): boolean {
  const day = new Date(`${value}T00:00:00Z`)
  return /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(day.getTime()) && day.toISOString().startsWith(value)
}
