import { median, quantile } from '../harness/load.ts'
import { forgetPeakMemory, listRuntimes, peakMemoryBytes } from '../harness/processes.ts'
import { type MeasuredPhase, P99_LIMIT_MS, type Report } from './run.ts'
import { GAVE_UP, type Outcome, type Phase } from './traffic.ts'

const RECOVERY_LIMIT_MS = 5_000
/** How much of the Worker's heap may stay behind after a run. */
const HEAP_GROWTH_MIB = 4
const SHOWN = 5
/** A database that times out or is overloaded: the only failures that load may cause. */
const OVERLOAD = /DeadlineError|No \w+ within \d+ ms|overloaded/

/** The status of a body that was sent at once, and that the runtime had no time to take. */
const LATE_BODY = 408

/**
 * Responses that load must not cause. At the rate that is sustained all are successes; at twice that there may also be
 * those that only overload explains.
 */
export function unexpected(report: Report): Outcome[] {
  const failed = report.steady.phase.outcomes.filter(({ status }) => status !== 200)
  return [...failed, ...overloadedOutcomes(report).filter((outcome) => !isOverload(report, outcome))]
}

/** All but the successes since the rate was doubled. */
function overloadedOutcomes({ doubled, after }: Report): Outcome[] {
  return [doubled, after].flatMap(({ phase }) => phase.outcomes.filter(({ status }) => status !== 200))
}

/** A timeout of the caller, of a body or of the database. */
function isOverload({ failures }: Report, { status, requestId, text }: Outcome): boolean {
  if (status === 0) return text === GAVE_UP
  return status === LATE_BODY || (status === 500 && OVERLOAD.test(failures.get(requestId) ?? ''))
}

/** What is not as it must be, a line each. Times and memory mean something only in a run of the usual length. */
export function judge(report: Report): string[] {
  const { steady, doubled, heap, failures } = report
  const wrong = unexpected(report)
  const examples = wrong.slice(0, SHOWN).map(({ status, requestId, text }) => {
    return `${status || 'no response'}: ${failures.get(requestId) ?? text}`
  })
  const uneven = [steady, doubled].filter(({ memory }) => !comparePlateaus(memory).isFlat)
  const heapGrowth = Math.max(heap.afterSteady - heap.start, heap.afterDoubled - heap.afterSteady)
  return [
    ...(wrong.length > 0 ? [`${wrong.length} unexpected responses, as ${examples.join(' | ')}`] : []),
    ...uneven.map(({ phase }) => `memory is not flat at ${phase.name}`),
    ...(heapGrowth > HEAP_GROWTH_MIB ? [`the heap grew by ${heapGrowth.toFixed(1)} MiB in a run`] : []),
    ...(report.recoveryMs > RECOVERY_LIMIT_MS ? [`latency was not back within ${RECOVERY_LIMIT_MS / 1_000} s`] : []),
  ]
}

export function describe(report: Report): string {
  const { steady, doubled, after, heap } = report
  const before = windowMedians(steady.phase)
  const overloaded = overloadedOutcomes(report).filter((outcome) => isOverload(report, outcome))
  return [
    '',
    'open loop: latency counts from when a request was due; ms',
    ...[steady, doubled, after].map(describePhase),
    isSustained(steady.phase, P99_LIMIT_MS)
      ? 'the sustained rate was held'
      : `the sustained rate was not held throughout (p99 over ${P99_LIMIT_MS} ms, or a call was turned away): others use this machine, or the first measurement was lucky`,
    '',
    ...[steady, doubled].map(describeMemory),
    `heap of the Worker, garbage collected: ${mib(heap.start)} before, ${mib(heap.afterSteady)} and ${mib(heap.afterDoubled)} after the two runs`,
    `latency was back after ${report.recoveryMs / 1_000} s (half seconds whose median is at most ${levelOf(before).toFixed(0)} ms)`,
    `responses that only overload explains: ${overloaded.length}`,
    '',
  ].join('\n')
}

function describePhase({ phase }: MeasuredPhase): string {
  const { p50, p99, reachedPerSecond } = figuresOf(phase)
  const byStatus = Object.entries(Object.groupBy(phase.outcomes, ({ status }) => status))
  return [
    `${phase.name.padEnd(15)} ${phase.seconds} s: ${Math.round(phase.askedPerSecond)}/s sent, ${Math.round(reachedPerSecond)}/s completed`,
    `p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}`,
    byStatus.map(([status, outcomes = []]) => `${status} × ${outcomes.length}`).join(', '),
    `${phase.turnedAway} turned away`,
  ].join('; ')
}

function describeMemory({ phase, memory }: MeasuredPhase): string {
  const { first, second, isFlat } = comparePlateaus(memory)
  return `memory of the runtime, ${phase.name}: ${mib(memory[0])} at the start, ${mib(memory.at(-1))} at the end, ${mib(Math.max(...memory))} at most; plateaus ${mib(first)} and ${mib(second)}${isFlat ? '' : ': not flat'}`
}

const mib = (value: number | undefined) => `${(value ?? Number.NaN).toFixed(0)} MiB`

const WINDOW_MS = 500

/** Milliseconds, over all requests of a phase with a response, and successes per second. */
export function figuresOf({ outcomes, seconds }: Phase) {
  const latencies = outcomes.map(({ latencyMs }) => latencyMs)
  const successes = outcomes.filter(({ status }) => status === 200).length
  return { p50: median(latencies), p99: quantile(latencies, 0.99), reachedPerSecond: successes / seconds }
}

/** Whether the service keeps up: no call is turned away, nearly all responses come soon, and no queue is left. */
export function isSustained(phase: Phase, p99LimitMs: number): boolean {
  const { p99 } = figuresOf(phase)
  const queue = (phase.askedPerSecond * p99LimitMs) / 1_000 / 2
  return phase.turnedAway === 0 && p99 <= p99LimitMs && phase.inFlightAtEnd <= queue
}

/** The median latency of each half second, by when requests were due; NaN where there were none. */
export function windowMedians({ outcomes, seconds }: Phase): number[] {
  return Array.from({ length: Math.round((seconds * 1_000) / WINDOW_MS) }, (_, index) => {
    const within = outcomes.filter(({ dueMs }) => Math.floor(dueMs / WINDOW_MS) === index)
    return median(within.map(({ latencyMs }) => latencyMs))
  })
}

/**
 * When latency is back at the level of the first run: at the end of the first half second whose median, and whose
 * next one's, is at most what 95 of 100 half seconds of that run had.
 *
 * @returns milliseconds since the load went down; infinite when it was never seen
 */
export function recoveryMs(steadyMedians: readonly number[], medians: readonly number[]): number {
  const level = levelOf(steadyMedians)
  const isBack = (index: number) => (medians[index] ?? Number.POSITIVE_INFINITY) <= level
  const index = medians.findIndex((_, at) => isBack(at) && isBack(at + 1))
  return index === -1 ? Number.POSITIVE_INFINITY : (index + 1) * WINDOW_MS
}

/** What 95 of 100 half seconds had at most. */
function levelOf(medians: readonly number[]): number {
  const known = medians.filter((each) => !Number.isNaN(each))
  return quantile(known, 0.95)
}

const EVERY_MS = 1_000
const MIB = 1_048_576

/**
 * How much more than before the runtime may hold in the second part of a phase. It takes some more for long by itself;
 * retained bodies would be many times that, and what the Worker retains shows in its heap.
 */
const GROWTH = 0.1

/** The runtime's peak memory of each second, in MiB. */
export function watchMemory() {
  const pids = listRuntimes(process.pid)
  const look = () => {
    const bytes = pids.map(peakMemoryBytes)
    pids.forEach(forgetPeakMemory)
    return bytes.reduce((sum, each) => sum + each, 0) / MIB
  }
  look()
  let series: number[] = []
  const timer = setInterval(() => series.push(look()), EVERY_MS)
  return {
    /** The seconds since the last time that this was asked. */
    take() {
      const taken = [...series, look()]
      series = []
      return taken
    },
    [Symbol.dispose]: () => clearInterval(timer),
  }
}

/**
 * Whether memory stays where it is under one load: the first quarter, in which it goes to its new height, is left out;
 * of the rest the median of the second half may be a tenth above that of the first.
 */
export function comparePlateaus(series: readonly number[]) {
  const rest = series.slice(Math.floor(series.length / 4))
  const middle = Math.floor(rest.length / 2)
  const first = median(rest.slice(0, middle))
  const second = median(rest.slice(middle))
  return { first, second, isFlat: second <= first * (1 + GROWTH) }
}

/** Keeps why a request failed, where a line of the Worker's log says so. */
export function noteFailure(failures: Map<string, string>, line: string): void {
  const { request_id, error } = line.startsWith('{"event":"failure"') ? JSON.parse(line) : {}
  if (request_id) failures.set(request_id, String(error))
}
