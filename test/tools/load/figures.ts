import { median, quantile } from '../bench/load.ts'
import type { Outcome, Phase } from './open-loop.ts'

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
export function levelOf(medians: readonly number[]): number {
  const known = medians.filter((each) => !Number.isNaN(each))
  return quantile(known, 0.95)
}

/** How often each status came; 0 means no response. */
export function countStatuses(outcomes: readonly Outcome[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status } of outcomes) counts[status] = (counts[status] ?? 0) + 1
  return counts
}
