import fc from 'fast-check'

/** Numbers of one step, used one after the other for what it chooses. */
export class Choice {
  private readonly numbers: readonly number[]
  private at = 0

  constructor(numbers: readonly number[]) {
    this.numbers = numbers
  }

  /** A whole number from 0 to `end`, which is not included. */
  below(end: number): number {
    return (this.numbers[this.at++ % this.numbers.length] ?? 0) % Math.max(1, end)
  }

  /** True in one of so many cases. */
  oneIn(count: number): boolean {
    return this.below(count) === 0
  }

  /** @throws Error where there is nothing to choose */
  pick<T>(all: readonly T[]): T {
    const [value] = all.slice(this.below(all.length)).slice(0, 1)
    if (value === undefined) throw new Error('There is nothing to choose.')
    return value
  }

  maybe<T>(all: readonly T[], oneIn = 2): T | undefined {
    return all.length > 0 && this.oneIn(oneIn) ? this.pick(all) : undefined
  }
}

/** What a step does, with how often. */
const KINDS = {
  listClients: 12,
  listOrders: 12,
  listThreads: 4,
  listContexts: 4,
  listChanges: 4,
  continueWalk: 16,
  createClient: 4,
  changeClient: 6,
  deleteOrRestoreClient: 5,
  createOrder: 4,
  changeOrder: 4,
  deleteOrder: 3,
  putThread: 4,
  deleteThread: 2,
  putContext: 3,
  deleteContext: 1,
} as const

export type Kind = keyof typeof KINDS

export interface Step {
  kind: Kind
  company: number
  numbers: number[]
}

const NUMBERS = 24

/** The steps of a seed. */
export function stepsOf(seed: number, count: number): Step[] {
  const kinds = Object.entries(KINDS) as [Kind, number][]
  const kind = fc.oneof(...kinds.map(([name, weight]) => ({ weight, arbitrary: fc.constant(name) })))
  const numbers = fc.array(fc.nat({ max: 2 ** 31 - 1 }), { minLength: NUMBERS, maxLength: NUMBERS })
  return fc.sample(fc.record({ kind, company: fc.nat({ max: 2 }), numbers: fc.noShrink(numbers) }), {
    seed,
    numRuns: count,
  })
}
