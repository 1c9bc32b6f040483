import { join } from 'node:path'
import { inDirectory } from '../harness/state.ts'
import { type Build, buildFrom, ROOT } from './build.ts'
import { Callers, type Failure, KINDS, LANE_TOKENS } from './callers.ts'
import { type PairsResult, runPairs } from './pairs.ts'
import { CALLER_SITES, type Location } from './places.ts'
import { makeData, serve } from './serve.ts'

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
  /** See `setup.ts`. */
  ignoresBookmarks?: boolean
  say?: (line: string) => void
}

/** What was measured with the primary of the database at one location. */
export interface Measured {
  primary: Location
  samples: Callers['samples']
  pairs: PairsResult
  failures: Failure[]
  /** What the Worker logged as errors. */
  errors: string[]
}

const PAIR_TOKENS = 150
const PAIR_CALLERS = 40
/** Pairs are many: of their requests fewer meet a cold isolate. */
const PAIR_COLD_SHARE = 0.1

/** Builds, serves and measures, one primary after the other. */
export function runEdge(settings: Settings): Promise<Measured[]> {
  const { say = () => {} } = settings
  return inDirectory(async (directory) => {
    const build = await buildFrom(ROOT, join(directory, 'build'))
    const measured: Measured[] = []
    for (const primary of settings.primaries) {
      say(`primary ${primary}`)
      measured.push(await measureAt(primary, build, settings, join(directory, primary)))
    }
    return measured
  })
}

async function measureAt(primary: Location, build: Build, settings: Settings, state: string): Promise<Measured> {
  const data = makeData(settings.clients, LANE_TOKENS + PAIR_TOKENS + 1)
  const served = await serve(build, primary, data, state, settings.ignoresBookmarks ?? false)
  try {
    const callers = new Callers(served, data)
    await measureLatency(callers, settings)
    const pairs = await runPairs(callers, {
      pairs: settings.pairs / settings.primaries.length,
      callers: Math.min(PAIR_CALLERS, settings.clients),
      deploys: settings.deploys,
      coldShare: settings.coldShare * PAIR_COLD_SHARE,
      firstToken: LANE_TOKENS,
      tokens: PAIR_TOKENS,
    })
    return { primary, samples: callers.samples, pairs, failures: callers.failures, errors: served.errors }
  } finally {
    await served.stop()
  }
}

async function measureLatency(callers: Callers, { samples, coldShare }: Settings): Promise<void> {
  await callers.putThreads(LANE_TOKENS + PAIR_TOKENS)
  await callers.control(`evaluate?count=${Math.ceil(samples * CALLER_SITES.length * KINDS.length * coldShare)}`)
  await Promise.all(callers.lanes(samples, coldShare).map((lane) => lane()))
}
