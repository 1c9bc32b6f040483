import { isDeepStrictEqual } from 'node:util'

/** One finding where two values differ, else none. */
export function differences(what: string, actual: unknown, expected: unknown): string[] {
  if (isDeepStrictEqual(actual, expected)) return []
  return [`${what} is ${abridge(actual)} instead of ${abridge(expected)}`]
}

function abridge(value: unknown): string {
  return (JSON.stringify(value) ?? 'absent').slice(0, 400)
}

/** The first difference of two lists: everything after a missing element would differ as well. */
export function compareLists<T>(name: (place: number) => string, expected: readonly T[], actual: readonly T[]) {
  const length = Math.max(expected.length, actual.length)
  const index = Array.from({ length }, (_, place) => place).find((p) => !isDeepStrictEqual(expected[p], actual[p]))
  return index === undefined ? [] : differences(name(index + 1), actual[index], expected[index])
}

/** The value at a path inside a response. */
export function at(value: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, key) : undefined),
    value,
  )
}
