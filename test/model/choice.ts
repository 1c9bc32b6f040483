import type { Random } from '../support/random.ts'

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
}

export type Kind = keyof typeof KINDS

/** Each as often as it is chosen. */
export const ALL_KINDS = (Object.keys(KINDS) as Kind[]).flatMap((kind) => Array<Kind>(KINDS[kind]).fill(kind))

/** True in one of so many cases. */
export const oneIn = (count: number, random: Random) => random.chance(1 / count)

export const maybe = <T>(all: readonly T[], random: Random, count = 2): T | undefined =>
  all.length > 0 && oneIn(count, random) ? random.pick(all) : undefined
