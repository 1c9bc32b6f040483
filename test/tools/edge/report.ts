import { quantile } from '../bench/load.ts'
import { KINDS, type Kind } from './callers.ts'
import { CALLER_SITES, hasReplicaOnContinent, nearHopMs, roundTripMs, type Site, siteOf } from './places.ts'
import type { Measured } from './run.ts'

/** What a request may take beside its hops: the time of its statements. */
const DATABASE_MS = 10
/** How much slower than before a request may be in the region of the primary. */
const SLOWER_MS = 5
const SHOWN = 5

interface Figures {
  p50: number
  p95: number
}

/** NaN where nothing was measured. */
function summarize(times: readonly number[]): Figures {
  const sorted = times.toSorted((a, b) => a - b)
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95) }
}

function figuresOf({ samples }: Measured, site: Site, kind: Kind, isCold: boolean): Figures {
  const all = samples.filter((each) => each.site === site && each.kind === kind && each.isCold === isCold)
  return summarize(all.map(({ ms }) => ms))
}

/** A table for each primary, of warm isolates and of cold ones; `a/b` are p50 and p95, those of the build before behind `|`. */
export function describe(all: readonly Measured[]): string {
  const lines: string[] = []
  for (const measured of all.filter(({ build }) => build === 'this')) {
    const before = beforeOf(all, measured)
    for (const isCold of [false, true]) {
      lines.push('', `primary ${measured.primary}, ${isCold ? 'cold' : 'warm'} isolates, ms:`)
      lines.push(row('from', 'near', 'far', KINDS))
      for (const site of CALLER_SITES) {
        const cells = KINDS.map((kind) => {
          const [now, then] = [measured, before].map((each) => each && cell(figuresOf(each, site, kind, isCold)))
          return then ? `${now} | ${then}` : (now ?? '')
        })
        lines.push(row(site, String(nearHopMs(site)), String(roundTripMs(site, measured.primary)), cells))
      }
    }
  }
  return [...lines, '', ...all.flatMap(describeRun)].join('\n')
}

function describeRun({ build, primary, pairs, samples }: Measured): string[] {
  const [of, readMs] = [`${build}, primary ${primary}`, cell(summarize(pairs.readMs))]
  // A wait that is neither for a binding nor for this machine would be in it, too.
  const machineMs = cell(summarize(samples.map((each) => each.machineMs)))
  return [
    `${of}: ${pairs.stale} of ${pairs.pairs} reads right behind an own write were stale; they took ${readMs} ms`,
    `${of}: this machine took ${machineMs} ms more`,
  ]
}

function row(site: string, near: string, far: string, cells: readonly string[]): string {
  return `  ${site.padEnd(10)}${near.padStart(5)}${far.padStart(5)}   ${cells.map((text) => text.padEnd(20)).join('')}`.trimEnd()
}

function cell({ p50, p95 }: Figures): string {
  return `${p50.toFixed(0)}/${p95.toFixed(0)}`
}

function beforeOf(all: readonly Measured[], { primary }: Measured): Measured | undefined {
  return all.find((each) => each.build === 'before' && each.primary === primary)
}

/** The targets that are missed, a line each. */
export function judge(all: readonly Measured[]): string[] {
  return all.flatMap((measured) => {
    const faults = [...judgePairs(measured), ...judgeFailures(measured)]
    return measured.build === 'this' ? [...judgeLatency(measured, beforeOf(all, measured)), ...faults] : faults
  })
}

function judgeLatency(measured: Measured, before: Measured | undefined): string[] {
  const { primary } = measured
  const problems: string[] = []
  const check = (what: string, site: Site, p50: number, limit: number) => {
    // Not met where nothing was measured, either.
    if (p50 <= limit) return
    problems.push(`primary ${primary}, ${site}: ${what} took ${p50.toFixed(0)} ms (p50), at most ${limit.toFixed(0)}`)
  }
  for (const site of CALLER_SITES) {
    const near = nearHopMs(site)
    const far = roundTripMs(site, primary)
    for (const isCold of measured.samples.some((each) => each.isCold) ? [false, true] : [false]) {
      const state = isCold ? 'cold' : 'warm'
      const p50 = (kind: Kind) => figuresOf(measured, site, kind, isCold).p50
      if (hasReplicaOnContinent(site)) check(`a ${state} read`, site, p50('read'), 2 * near + DATABASE_MS)
      check(`a ${state} write`, site, p50('write'), far + 2 * near + DATABASE_MS)
      if (!before || site !== siteOf(primary)) continue
      for (const kind of KINDS) {
        const limit = figuresOf(before, site, kind, isCold).p50 + SLOWER_MS
        check(`a ${state} ${kind} in the region of the primary`, site, p50(kind), limit)
      }
    }
  }
  return problems
}

function judgePairs({ build, primary, pairs }: Measured): string[] {
  if (pairs.pairs === 0) return [`${build}, primary ${primary}: no write was read back`]
  if (pairs.stale === 0) return []
  return [`${build}, primary ${primary}: ${pairs.stale} stale reads, such as: ${pairs.examples.join('; ')}`]
}

function judgeFailures({ build, primary, failures, errors }: Measured): string[] {
  const shown = failures.slice(0, SHOWN).map(({ what, status, text }) => `${what}: ${status} ${text}`)
  const lines = failures.length > 0 ? [`${failures.length} requests failed, such as ${shown.join('; ')}`] : []
  if (errors.length > 0) lines.push(`${errors.length} errors were logged, such as ${errors.slice(0, SHOWN).join('; ')}`)
  return lines.map((line) => `${build}, primary ${primary}: ${line}`)
}
