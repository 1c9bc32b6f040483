import { countStatuses, figuresOf, isSustained, levelOf, windowMedians } from './figures.ts'
import { comparePlateaus } from './memory.ts'
import { GAVE_UP, type Outcome } from './open-loop.ts'
import { type MeasuredPhase, P99_LIMIT_MS, type Report } from './run.ts'

const RECOVERY_LIMIT_MS = 5_000
/** How much of the Worker's heap may stay behind after a run. */
const HEAP_GROWTH_MIB = 4
const SHOWN = 5

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
function isOverload({ logs }: Report, { status, requestId, text }: Outcome): boolean {
  if (status === 0) return text === GAVE_UP
  return status === LATE_BODY || (status === 500 && logs.isOverload(requestId))
}

/** What is not as it must be, a line each. Times and memory mean something only in a run of the usual length. */
export function judge(report: Report): string[] {
  const { steady, doubled, heap, logs } = report
  const wrong = unexpected(report)
  const examples = wrong.slice(0, SHOWN).map(({ status, requestId, text }) => {
    return `${status || 'no response'}: ${logs.failureOf(requestId) ?? text}`
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

/** The report for people. */
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
  const statuses = Object.entries(countStatuses(phase.outcomes)).map(([status, count]) => `${status} × ${count}`)
  return [
    `${phase.name.padEnd(15)} ${phase.seconds} s: ${Math.round(phase.askedPerSecond)}/s sent, ${Math.round(reachedPerSecond)}/s completed`,
    `p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}`,
    `${statuses.join(', ')}`,
    `${phase.turnedAway} turned away`,
  ].join('; ')
}

function describeMemory({ phase, memory }: MeasuredPhase): string {
  const { first, second, isFlat } = comparePlateaus(memory)
  return `memory of the runtime, ${phase.name}: ${mib(memory[0])} at the start, ${mib(memory.at(-1))} at the end, ${mib(Math.max(...memory))} at most; plateaus ${mib(first)} and ${mib(second)}${isFlat ? '' : ': not flat'}`
}

function mib(value: number | undefined): string {
  return `${(value ?? Number.NaN).toFixed(0)} MiB`
}
