import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { KINDS } from '../tools/edge/callers.ts'
import { CALLER_SITES, nearHopMs, roundTripMs, type Site } from '../tools/edge/places.ts'
import { describe as describeReport, judge } from '../tools/edge/report.ts'
import { type Measured, runEdge, type Settings } from '../tools/edge/run.ts'
import { makeData, readBuild, serve } from '../tools/edge/serve.ts'
import { openBuild } from '../tools/harness/worker.ts'
import { temporaryFolder } from './cli-support.ts'

/** Short, and says nothing of targets: `npm run edge` does. */
const SHORT = { primaries: ['enam'], clients: 40, samples: 2, pairs: 80, coldShare: 0.5, deploys: 2 } satisfies Settings

const TIMEOUT = { timeout: 900_000 }

it('the edge command runs, and every write takes the way to the primary', TIMEOUT, async () => {
  const measured = await runEdge(SHORT)
  expect(measured).toHaveLength(1)
  for (const { failures, errors, samples } of measured) {
    expect(failures).toEqual([])
    expect(errors).toEqual([])
    for (const site of CALLER_SITES) {
      for (const kind of KINDS) {
        const states = samples.filter((each) => each.site === site && each.kind === kind).map(({ isCold }) => isCold)
        expect(new Set(states)).toEqual(new Set([false, true]))
      }
    }
    // Not the time of a machine but the sum of the hops.
    const writes = samples.filter(({ kind }) => kind === 'write')
    expect(writes.filter(({ site, ms }) => ms < roundTripMs(site, 'enam'))).toEqual([])
  }
  expect(measured[0]?.pairs).toMatchObject({ pairs: 80, stale: 0 })
  // The objects answer, and so do the replicas.
  const fromSydney = measured[0]?.samples.filter(({ site, kind }) => site === 'Sydney' && kind === 'read') ?? []
  expect(Math.min(...fromSydney.map(({ ms }) => ms))).toBeLessThan(roundTripMs('Sydney', 'enam'))
  expect(describeReport(measured)).toMatch(/primary enam, warm isolates[\s\S]*Sydney +4 +200 +\d+\/\d+/)
})

it('finds stale reads where bookmarks are ignored', TIMEOUT, async () => {
  const [measured] = await runEdge({ ...SHORT, samples: 0, coldShare: 0, pairs: 200, ignoresBookmarks: true })
  // A slow machine reads a thread before the copy has it.
  expect(measured?.failures.filter(({ status }) => status !== 404)).toEqual([])
  expect(measured?.pairs.stale).toBeGreaterThan(0)
  expect(judge(measured ? [measured] : []).join('\n')).toMatch(/stale reads, such as: written from/)
})

const COUNTING_WORKER = `import { DurableObject } from 'cloudflare:workers'
let requests = 0
export class Counter extends DurableObject {
  calls = 0
  count() { return ++this.calls }
}
export default {
  async fetch(request, { COUNTER }) {
    return Response.json([++requests, await COUNTER.get(COUNTER.idFromName('a')).count()])
  },
}`

const COUNTING_TOML = `name = "counting"
main = "index.js"
compatibility_date = "2026-01-01"
compatibility_flags = ["nodejs_compat"]
d1_databases = []
kv_namespaces = []
r2_buckets = []
ratelimits = []
durable_objects.bindings = [{ name = "COUNTER", class_name = "Counter" }]
migrations = [{ tag = "v1", new_sqlite_classes = ["Counter"] }]
[env.production]
d1_databases = []
kv_namespaces = []
r2_buckets = []
durable_objects.bindings = [{ name = "COUNTER", class_name = "Counter" }]`

it(
  'isolates and objects lose what they have in memory at a deploy, isolates alone when they are cold',
  TIMEOUT,
  async () => {
    const directory = await temporaryFolder()
    await writeFile(join(directory, 'index.js'), COUNTING_WORKER)
    await writeFile(join(directory, 'wrangler.toml'), COUNTING_TOML)
    await using built = await openBuild('index.js', [], directory)
    const build = await readBuild(built.script, directory)
    await using served = await serve(build, 'enam', makeData(0, 0), built.state, false)
    const { url } = served
    const send = async (headers = {}) =>
      (await fetch(url, { headers: { 'x-edge-site': 'Sydney', ...headers } })).json() as Promise<[number, number]>
    const counts = []
    for (let turn = 0; turn < 6; turn++) counts.push(await send())
    expect(counts.map(([, calls]) => calls)).toEqual([1, 2, 3, 4, 5, 6])
    expect(Math.max(...counts.map(([requests]) => requests))).toBeGreaterThan(1)
    expect(await send({ 'x-edge-cold': '1' })).toEqual([1, 7])
    expect((await fetch(`${url}/edge/deploy`)).status).toBe(204)
    expect(await send()).toEqual([1, 1])
  },
)

/** A run that meets every target by a little, but for what is given. */
function runOf(
  fields: Partial<Measured> = {},
  slower: { site: Site; kind: string; ms: number } | null = null,
): Measured {
  const samples = CALLER_SITES.flatMap((site) =>
    KINDS.map((kind) => {
      const ms = 2 * nearHopMs(site) + (kind === 'write' ? roundTripMs(site, 'enam') : 0) + 9
      const isSlower = slower?.site === site && slower.kind === kind
      return { site, kind, isCold: false, ms: ms + (isSlower ? slower.ms : 0), machineMs: 1 }
    }),
  )
  const pairs = { pairs: 10, stale: 0, examples: [], readMs: [] }
  return { primary: 'enam', samples, pairs, failures: [], errors: [], ...fields }
}

const stale = { pairs: 10, stale: 1, examples: ['written from Paris'], readMs: [] }
const failures = [{ what: 'read from Paris', status: 503, text: 'unavailable' }]

describe('a simulated run', () => {
  it.each<[string, Measured, RegExp | null]>([
    ['a good one', runOf(), null],
    ['a slow read', runOf({}, { site: 'Sydney', kind: 'read', ms: 5 }), /Sydney: a warm read took 22 ms/],
    ['a slow read far from every replica', runOf({}, { site: 'Cape Town', kind: 'read', ms: 5 }), null],
    ['a slow write', runOf({}, { site: 'Cape Town', kind: 'write', ms: 5 }), /Cape Town: a warm write took/],
    ['a stale read', runOf({ pairs: stale }), /1 stale reads, such as: written from Paris/],
    ['a failure', runOf({ failures }), /1 requests failed, such as read from Paris: 503/],
    ['an error', runOf({ errors: ['TypeError'] }), /1 errors were logged, such as TypeError/],
    ['no pairs', runOf({ pairs: { ...stale, pairs: 0, stale: 0 } }), /no write was read back/],
  ])('is judged: %s', (_, measured, problem) => {
    const problems = judge([measured])
    if (problem) expect(problems).toEqual([expect.stringMatching(problem)])
    else expect(problems).toEqual([])
  })
})
