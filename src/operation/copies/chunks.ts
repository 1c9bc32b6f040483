import { Buffer } from 'node:buffer'

/** The bytes of a value as JSON, whose escapes may be six times as long as a text. */
export const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

/**
 * Splits a list into groups that each stay within limits; an item over a limit is a group by itself.
 *
 * @param limits of the sums of the sizes in one group
 */
export function splitBySize<T>(items: Iterable<T>, sizesOf: (item: T) => number[], limits: number[]): T[][] {
  const groups: T[][] = []
  let sums: number[] = []
  for (const item of items) {
    const sizes = sizesOf(item)
    const group = groups.at(-1)
    sums = sizes.map((size, index) => size + (sums[index] ?? 0))
    if (group && limits.every((limit, index) => (sums[index] ?? 0) <= limit)) group.push(item)
    else {
      groups.push([item])
      sums = sizes
    }
  }
  return groups
}
