import { conclude, readFlags } from '../harness/arguments.ts'
import { PRIMARIES } from './places.ts'
import { describe, judge } from './report.ts'
import { runEdge } from './run.ts'

/*
 * npm run edge
 *
 * Simulates the Worker in eight regions, with its database in three of them, and prints how long requests take from
 * each. Then callers read what they have just written. Ends with exit code 1 where a target is missed. Times are real
 * ones: what is far takes as long as it would.
 */
const USAGE = 'npm run edge -- [--requests N] [--ignore-bookmarks]'
const CLIENTS = 1_000
const MOST_SAMPLES = 40
const LEAST_SAMPLES = 5
const REQUESTS_PER_SAMPLE = 500
const DEPLOYS = 5
const COLD_SHARE = 0.2

const flags = readFlags(USAGE, { requests: [1, 1_000_000] }, ['ignore-bookmarks'])
const { requests: pairs = 20_000, 'ignore-bookmarks': ignoresBookmarks = false } = flags
const measured = await runEdge({
  primaries: PRIMARIES,
  clients: CLIENTS,
  samples: Math.min(MOST_SAMPLES, Math.max(LEAST_SAMPLES, Math.round(pairs / REQUESTS_PER_SAMPLE))),
  pairs,
  coldShare: COLD_SHARE,
  deploys: DEPLOYS,
  ignoresBookmarks,
  say: console.log,
})
console.log(describe(measured))
conclude(judge(measured))
