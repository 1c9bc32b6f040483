import type { Callers } from './callers.ts'
import { CALLER_SITES, type Site } from './places.ts'

export type PairsResult = Awaited<ReturnType<typeof runPairs>>

interface PairsSettings {
  pairs: number
  /** How many at once. */
  callers: number
  /** Between the write and the read of the last pair of each round all isolates are replaced. */
  deploys: number
  coldShare: number
  firstToken: number
  tokens: number
}

const SAME_SITE_SHARE = 0.5
const EXAMPLES = 5

const pick = (sites: readonly Site[]) => sites[Math.floor(Math.random() * sites.length)] ?? 'Virginia'

/**
 * Writes and reads as many pairs as the settings say: each reads once what it has written, from the same site or another
 * one, by the same token. Failures are recorded by the callers.
 */
export async function runPairs(callers: Callers, settings: PairsSettings) {
  const { tokens, firstToken, coldShare } = settings
  const result = {
    pairs: 0,
    stale: 0,
    /** The first of the stale reads. */
    examples: [] as string[],
    /** Of the reads. */
    readMs: [] as number[],
  }
  const send = (site: Site, token: number, call: Parameters<Callers['send']>[3]) =>
    callers.send(site, token, Math.random() < coldShare, call)
  let writes = 0

  /** @returns the read of what was written; null where the write failed */
  async function write(caller: number): Promise<(() => Promise<void>) | null> {
    const turn = writes++
    const token = firstToken + (turn % tokens)
    const value = `Edge ${turn}`
    // A client for each caller: nobody else changes it meanwhile.
    const path = `/clients/${caller + 1}`
    const from = pick(CALLER_SITES)
    const body = JSON.stringify({ first_name: value })
    const written = await send(from, token, { what: 'write of a pair', method: 'PATCH', path, body })
    if (!written) return null
    return async () => {
      const site = Math.random() < SAME_SITE_SHARE ? from : pick(CALLER_SITES)
      const read = await send(site, token, { what: 'read of a pair', path })
      if (!read) return
      const { client } = JSON.parse(read.text) as { client: { first_name: string } }
      result.pairs++
      result.readMs.push(read.ms)
      if (client.first_name === value) return
      result.stale++
      if (result.examples.length >= EXAMPLES) return
      result.examples.push(`written from ${from}: ${value}; read from ${site}: ${client.first_name}`)
    }
  }

  const rounds = Math.max(1, settings.deploys)
  const perCaller = Math.max(1, Math.ceil(settings.pairs / rounds / settings.callers))
  for (let round = 0; round < rounds; round++) {
    const numbers = Array.from({ length: settings.callers }, (_, index) => index)
    await callers.control(`evaluate?count=${Math.ceil(settings.callers * perCaller * 2 * coldShare)}`)
    await Promise.all(
      numbers.map(async (caller) => {
        for (let turn = 1; turn < perCaller; turn++) await (await write(caller))?.()
      }),
    )
    const reads = await Promise.all(numbers.map(write))
    await callers.control('deploy')
    await Promise.all(reads.map((read) => read?.()))
  }
  return result
}
