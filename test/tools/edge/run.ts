import { join } from 'node:path'
import { openBuild } from '../harness/worker.ts'
import { type Callers, type Failure, KINDS, LANE_TOKENS, openCallers } from './callers.ts'
import { CALLER_SITES, type Location, type Site } from './places.ts'
import { type Build, makeData, readBuild, serve } from './serve.ts'

export interface Settings {
  primaries: readonly Location[]
  clients: number
  /** Measured requests of each kind from each region. */
  samples: number
  /** Writes with a read of the same, over all primaries. */
  pairs: number
  /** The share of requests that meet an isolate which has never had one. */
  coldShare: number
  deploys: number
  /** See {@link Setup}. */
  ignoresBookmarks?: boolean
  say?: (line: string) => void
}

/** What was measured with the primary of the database at one location. */
export interface Measured {
  primary: Location
  samples: Callers['samples']
  pairs: PairsResult
  failures: Failure[]
  errors: string[]
}

const PAIR_TOKENS = 150
const PAIR_CALLERS = 40
/** Pairs are many: of their requests fewer meet a cold isolate. */
const PAIR_COLD_SHARE = 0.1

/** Builds, serves and measures, one primary after the other. */
export async function runEdge(settings: Settings): Promise<Measured[]> {
  const { say = () => {} } = settings
  await using built = await openBuild()
  const build = await readBuild(built.script)
  const measured: Measured[] = []
  for (const primary of settings.primaries) {
    say(`primary ${primary}`)
    measured.push(await measureAt(primary, build, settings, join(built.directory, primary)))
  }
  return measured
}

async function measureAt(primary: Location, build: Build, settings: Settings, state: string): Promise<Measured> {
  const data = makeData(settings.clients, LANE_TOKENS + PAIR_TOKENS + 1)
  await using served = await serve(build, primary, data, state, settings.ignoresBookmarks ?? false)
  const callers = openCallers(served, data)
  const { samples, coldShare } = settings
  await callers.putThreads(LANE_TOKENS + PAIR_TOKENS)
  await callers.control(`evaluate?count=${Math.ceil(samples * CALLER_SITES.length * KINDS.length * coldShare)}`)
  await callers.runLanes(samples, coldShare)
  const pairs = await runPairs(callers, {
    pairs: settings.pairs / settings.primaries.length,
    callers: Math.min(PAIR_CALLERS, settings.clients),
    deploys: settings.deploys,
    coldShare: coldShare * PAIR_COLD_SHARE,
    firstToken: LANE_TOKENS,
    tokens: PAIR_TOKENS,
  })
  return { primary, samples: callers.samples, pairs, failures: callers.failures, errors: served.errors }
}

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
    readMs: [] as number[],
  }
  const send = (site: Site, token: number, call: Parameters<Callers['request']>[3]) =>
    callers.request(site, token, Math.random() < coldShare, call)
  let writes = 0

  /** @returns the read of what was written; null where the write failed */
  async function write(caller: number): Promise<(() => Promise<void>) | null> {
    const turn = writes++
    const token = firstToken + (turn % tokens)
    const value = `Edge ${turn}`
    // A client for each caller: nobody else changes it meanwhile.
    const path = `/clients/${caller + 1}`
    const from = pick(CALLER_SITES)
    const body = { first_name: value }
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
