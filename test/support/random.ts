/** Numbers that look random and are the same in every run. */
export interface Random {
  /** A whole number from `min` to `max`, both included. */
  between: (min: number, max: number) => number
  pick: <T>(list: readonly [T, ...T[]] | readonly T[]) => T
  /** True in about this share of calls, 0 to 1. */
  chance: (share: number) => boolean
  /** Lower-case hex digits, the first one not 0. */
  hex: (digits: number) => string
}

/** A generator by a 32-bit seed (mulberry32). */
export function createRandom(seed: number): Random {
  let state = seed >>> 0

  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  const between = (min: number, max: number) => min + Math.floor(next() * (max - min + 1))
  return {
    between,
    pick<T>(list: readonly T[]): T {
      const index = between(0, list.length - 1)
      const [value] = list.slice(index, index + 1)
      if (value === undefined) throw new Error('There is nothing to pick from.')
      return value
    },
    chance: (share) => next() < share,
    hex: (digits) =>
      Array.from({ length: digits }, (_, index) => between(index === 0 ? 1 : 0, 15).toString(16)).join(''),
  }
}
