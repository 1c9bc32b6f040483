import type { Callers } from './callers.ts'
import { CALLER_SITES, type Site } from './places.ts'

/** Each reads once what it has written, from the same site or another one, by the same token. */
export interface PairsResult {
  pairs: number
  stale: number
  /** The first of the stale reads. */
  examples: string[]
  /** Of the reads, by the site that they came from. */
  readMs: Map<Site, number[]>
}

export interface PairsSettings {
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

/** Writes and reads as many pairs as the settings say. Failures are recorded by the callers. */
export async function runPairs(callers: Callers, settings: PairsSettings): Promise<PairsResult> {
  const result: PairsResult = { pairs: 0, stale: 0, examples: [], readMs: new Map() }
  const rounds = Math.max(1, settings.deploys)
  const perCaller = Math.max(1, Math.ceil(settings.pairs / rounds / settings.callers))
  const run = new Run(callers, settings, result)
  for (let round = 0; round < rounds; round++) {
    const numbers = Array.from({ length: settings.callers }, (_, index) => index)
    await callers.control(`evaluate?count=${Math.ceil(settings.callers * perCaller * 2 * settings.coldShare)}`)
    await Promise.all(
      numbers.map(async (caller) => {
        for (let turn = 1; turn < perCaller; turn++) await (await run.write(caller))?.()
      }),
    )
    const reads = await Promise.all(numbers.map((caller) => run.write(caller)))
    await callers.control('deploy')
    await Promise.all(reads.map((read) => read?.()))
  }
  return result
}

class Run {
  readonly #callers: Callers
  readonly #settings: PairsSettings
  readonly #result: PairsResult
  #turn = 0

  constructor(callers: Callers, settings: PairsSettings, result: PairsResult) {
    this.#callers = callers
    this.#settings = settings
    this.#result = result
  }

  /** @returns the read of what was written; null where the write failed */
  async write(caller: number): Promise<(() => Promise<void>) | null> {
    const { tokens, firstToken } = this.#settings
    const turn = this.#turn++
    const token = firstToken + (turn % tokens)
    const value = `Edge ${turn}`
    // A client for each caller: nobody else changes it meanwhile.
    const path = `/clients/${caller + 1}`
    const from = pick(CALLER_SITES)
    const body = JSON.stringify({ first_name: value })
    const written = await this.#send(from, token, { what: 'write of a pair', method: 'PATCH', path, body })
    if (!written) return null
    return async () => {
      const site = Math.random() < SAME_SITE_SHARE ? from : pick(CALLER_SITES)
      const read = await this.#send(site, token, { what: 'read of a pair', path })
      if (!read) return
      const { client } = JSON.parse(read.text) as { client: { first_name: string } }
      this.#result.pairs++
      this.#result.readMs.set(site, [...(this.#result.readMs.get(site) ?? []), read.ms])
      if (client.first_name === value) return
      this.#result.stale++
      if (this.#result.examples.length >= EXAMPLES) return
      this.#result.examples.push(`written from ${from}: ${value}; read from ${site}: ${client.first_name}`)
    }
  }

  #send(site: Site, token: number, call: Parameters<Callers['send']>[3]) {
    return this.#callers.send(site, token, Math.random() < this.#settings.coldShare, call)
  }
}
