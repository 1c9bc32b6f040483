import { isObject, type Json } from '../../src/openapi/json.ts'

/** For `JSON.parse` of the description: fields that it only suggests may be anything, or be left out. */
export function dropSuggested(_key: string, value: Json): Json {
  if (!isObject(value) || !value['x-suggested']) return value
  const { properties, ...rest } = value
  return rest
}
