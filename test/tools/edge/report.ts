import { quantile } from '../harness/load.ts'
import { KINDS, type Kind } from './callers.ts'
import { CALLER_SITES, hasReplicaOnContinent, nearHopMs, roundTripMs, type Site } from './places.ts'
import type { Measured } from './run.ts'

/** What a request may take beside its hops: the time of its statements. */
const DATABASE_MS = 10
const SHOWN = 5

interface Figures {
  p50: number
  p95: number
}

/** NaN where nothing was measured. */
const summarize = (times: readonly number[]) => ({ p50: quantile(times, 0.5), p95: quantile(times, 0.95) })

function figuresOf({ samples }: Measured, site: Site, kind: Kind, isCold: boolean): Figures {
  const all = samples.filter((each) => each.site === site && each.kind === kind && each.isCold === isCold)
  return summarize(all.map(({ ms }) => ms))
}

/** A table for each primary, of warm isolates and of cold ones; `a/b` are p50 and p95. */
export function describe(all: readonly Measured[]): string {
  const tables = all.flatMap((measured) =>
    [false, true].flatMap((isCold) => [
      '',
      `primary ${measured.primary}, ${isCold ? 'cold' : 'warm'} isolates, ms:`,
      row('from', 'near', 'far', KINDS),
      ...CALLER_SITES.map((site) => {
        const cells = KINDS.map((kind) => cell(figuresOf(measured, site, kind, isCold)))
        return row(site, String(nearHopMs(site)), String(roundTripMs(site, measured.primary)), cells)
      }),
    ]),
  )
  return [...tables, '', ...all.flatMap(describeRun)].join('\n')
}

function describeRun({ primary, pairs, samples }: Measured): string[] {
  // A wait that is neither for a binding nor for this machine would be in it, too.
  const machineMs = cell(summarize(samples.map((each) => each.machineMs)))
  const readMs = cell(summarize(pairs.readMs))
  return [
    `primary ${primary}: ${pairs.stale} of ${pairs.pairs} reads right behind an own write were stale; they took ${readMs} ms`,
    `primary ${primary}: this machine took ${machineMs} ms more`,
  ]
}

function row(site: string, near: string, far: string, cells: readonly string[]): string {
  return `  ${site.padEnd(10)}${near.padStart(5)}${far.padStart(5)}   ${cells.map((text) => text.padEnd(20)).join('')}`.trimEnd()
}

function cell({ p50, p95 }: Figures): string {
  return `${p50.toFixed(0)}/${p95.toFixed(0)}`
}

/** The targets that are missed, a line each. */
export function judge(all: readonly Measured[]): string[] {
  return all.flatMap((measured) => {
    const problems = [...judgeLatency(measured), ...judgePairs(measured), ...judgeFailures(measured)]
    return problems.map((problem) => `primary ${measured.primary}${problem}`)
  })
}

function judgeLatency(measured: Measured): string[] {
  const problems: string[] = []
  const check = (what: string, site: Site, p50: number, limit: number) => {
    // Not met where nothing was measured, either.
    if (p50 <= limit) return
    problems.push(`, ${site}: ${what} took ${p50.toFixed(0)} ms (p50), at most ${limit.toFixed(0)}`)
  }
  for (const site of CALLER_SITES) {
    const near = nearHopMs(site)
    const far = roundTripMs(site, measured.primary)
    for (const isCold of measured.samples.some((each) => each.isCold) ? [false, true] : [false]) {
      const state = isCold ? 'cold' : 'warm'
      const p50 = (kind: Kind) => figuresOf(measured, site, kind, isCold).p50
      if (hasReplicaOnContinent(site)) check(`a ${state} read`, site, p50('read'), 2 * near + DATABASE_MS)
      check(`a ${state} write`, site, p50('write'), far + 2 * near + DATABASE_MS)
    }
  }
  return problems
}

function judgePairs({ pairs }: Measured): string[] {
  if (pairs.pairs === 0) return [': no write was read back']
  return pairs.stale === 0 ? [] : [`: ${pairs.stale} stale reads, such as: ${pairs.examples.join('; ')}`]
}

function judgeFailures({ failures, errors }: Measured): string[] {
  const shown = failures.slice(0, SHOWN).map(({ what, status, text }) => `${what}: ${status} ${text}`)
  return [
    ...(failures.length > 0 ? [`: ${failures.length} requests failed, such as ${shown.join('; ')}`] : []),
    ...(errors.length > 0
      ? [`: ${errors.length} errors were logged, such as ${errors.slice(0, SHOWN).join('; ')}`]
      : []),
  ]
}
