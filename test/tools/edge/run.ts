import { join } from 'node:path'
import { inDirectory } from '../harness/state.ts'
import { type Build, buildFrom } from './build.ts'
import { Callers, type Failure, KINDS, LANE_TOKENS } from './callers.ts'
import { type PairsResult, runPairs } from './pairs.ts'
import { CALLER_SITES, type Location } from './places.ts'
import { makeData, type Served, serve } from './serve.ts'

export interface Settings {
  /** Another build, as {@link buildFrom} takes it; nothing for none. */
  before?: string | undefined
  primaries: readonly Location[]
  clients: number
  /** Measured requests of each kind from each region. */
  samples: number
  /** Writes with a read of the same, over all primaries; of the build before a tenth. */
  pairs: number
  /** The share of requests that meet an isolate which has never had one. */
  coldShare: number
  deploys: number
  /** See `setup.ts`. */
  ignoresBookmarks?: boolean
  say?: (line: string) => void
}

/** What was measured of one build with the primary of its database at one location. */
export interface Measured {
  primary: Location
  build: 'this' | 'before'
  samples: Callers['samples']
  pairs: PairsResult
  failures: Failure[]
  /** What the Worker logged as errors. */
  errors: string[]
}

const PAIR_TOKENS = 150
const PAIR_CALLERS = 40
const BEFORE_SHARE = 0.1
/** Pairs are many: of their requests fewer meet a cold isolate. */
const PAIR_COLD_SHARE = 0.1

/** Builds, serves and measures; the primaries one after the other, the two builds side by side. */
export function runEdge(settings: Settings): Promise<Measured[]> {
  const { say = () => {} } = settings
  return inDirectory(async (directory) => {
    const builds: [Measured['build'], Build][] = [['this', await buildFrom(undefined, join(directory, 'this'))]]
    if (settings.before) builds.push(['before', await buildFrom(settings.before, join(directory, 'before'))])
    const measured: Measured[] = []
    for (const primary of settings.primaries) {
      say(`primary ${primary}`)
      measured.push(...(await measureAt(primary, builds, settings, directory)))
    }
    return measured
  })
}

async function measureAt(
  primary: Location,
  builds: [Measured['build'], Build][],
  settings: Settings,
  directory: string,
): Promise<Measured[]> {
  const data = makeData(settings.clients, LANE_TOKENS + PAIR_TOKENS + 1)
  const served: [Measured['build'], Served][] = []
  try {
    for (const [name, build] of builds) {
      const state = join(directory, `${name}-${primary}`)
      served.push([name, await serve(build, primary, data, state, settings.ignoresBookmarks ?? false)])
    }
    const callers = served.map(([, each]) => new Callers(each, data))
    await measureLatency(callers, settings)
    const measured: Measured[] = []
    for (const [index, [build, { errors }]] of served.entries()) {
      const each = callers[index]
      if (!each) continue
      const pairs = await runPairs(each, {
        pairs: (settings.pairs / settings.primaries.length) * (build === 'this' ? 1 : BEFORE_SHARE),
        callers: Math.min(PAIR_CALLERS, settings.clients),
        deploys: settings.deploys,
        coldShare: settings.coldShare * PAIR_COLD_SHARE,
        firstToken: LANE_TOKENS,
        tokens: PAIR_TOKENS,
      })
      measured.push({ primary, build, samples: each.samples, pairs, failures: each.failures, errors })
    }
    return measured
  } finally {
    for (const [, { stop }] of served) await stop()
  }
}

/** Every lane asks both builds in turn, so that a busy machine slows both. */
async function measureLatency(callers: readonly Callers[], { samples, coldShare }: Settings): Promise<void> {
  for (const each of callers) {
    await each.putThreads(LANE_TOKENS + PAIR_TOKENS)
    await each.control(`evaluate?count=${Math.ceil(samples * CALLER_SITES.length * KINDS.length * coldShare)}`)
  }
  const [first = [], ...others] = callers.map((each) => each.lanes(samples, coldShare))
  await Promise.all(
    first.map(async ({ count, step }, lane) => {
      const steps = [step, ...others.flatMap((lanes) => lanes[lane]?.step ?? [])]
      for (let turn = 0; turn < count; turn++) for (const each of steps) await each(turn)
    }),
  )
}
