export type Json = string | number | boolean | null | Json[] | JsonObject

/** A JSON object; a member that is undefined is not written. */
export type JsonObject = { [key: string]: Json | undefined }

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** @throws Error for anything but an object */
export function asObject(value: unknown): JsonObject {
  if (!isObject(value)) throw new Error('An object was expected here.')
  return value
}

export function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
