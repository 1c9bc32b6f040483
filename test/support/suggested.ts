import { isObject, type Json } from '../../src/site/reference/json.ts'

/** For `JSON.parse` of the description: what it only suggests, the fields of an object or a type, may be anything. */
export function dropSuggested(_key: string, value: Json): Json {
  if (!isObject(value) || !value['x-suggested']) return value
  const { properties, ...rest } = value
  return properties ? rest : {}
}
