import { setTimeout as sleep } from 'node:timers/promises'
import autocannon from 'autocannon'
import type { Wire } from './http.ts'

export const CONNECTIONS = 8

/**
 * Each round has processes of its own: of two that run the same code, one may be faster by a sixth for as long as it
 * lives. Ratios are taken within a round.
 */
export const ROUNDS = Number(process.env.ROUNDS ?? 5)

/** Makes load for some seconds and lists how long each response took, in milliseconds. */
export type Load = (seconds: number) => Promise<number[]>

export interface Pace {
  /** Long enough for what is called to be compiled. */
  warmUpSeconds: number
  slices: number
  /** Whole: autocannon ends with a second. */
  sliceSeconds: number
}

export const describePace = ({ slices, sliceSeconds }: Pace, rounds: number) =>
  `median of ${rounds} rounds, each of ${slices} slices of ${sliceSeconds} s in turn and with new processes; p50 in ms`

/**
 * Loads several in turn, in short slices, and pools the slices of each: a machine that is slow for a while is so for
 * all. @returns the p50 of each, in milliseconds
 */
export async function compare<Name extends string>(
  loads: Record<Name, Load>,
  { warmUpSeconds, slices, sliceSeconds }: Pace,
): Promise<Record<Name, number>> {
  const entries = Object.entries<Load>(loads).map(([name, run]) => ({ name, run, times: [] as number[] }))
  for (const { run } of entries) await run(warmUpSeconds)
  for (let slice = 0; slice < slices; slice++) {
    for (const { run, times } of entries) times.push(...(await run(sliceSeconds)))
  }
  return Object.fromEntries(entries.map(({ name, times }) => [name, median(times)])) as Record<Name, number>
}

/**
 * Loads one address over some connections and takes each response's time as it comes (autocannon's own histogram knows
 * whole milliseconds only).
 *
 * @param next makes the next request
 * @throws when a response is not 2xx: a refused request must not count as a fast one
 */
export function loadOf(url: string, next: () => Wire, connections = CONNECTIONS): Load {
  return async (seconds) => {
    const times: number[] = []
    const setupRequest = (request: object) => ({ ...request, ...next() })
    const run = autocannon({ url, connections, duration: seconds, requests: [{ setupRequest }] })
    run.on('response', (_client, _status, _bytes, ms) => times.push(ms))
    const { non2xx, errors, timeouts } = await run
    if (non2xx + errors + timeouts === 0) return times
    const { method = 'GET', path } = next()
    const found = `${non2xx} responses other than 2xx, ${errors} errors, ${timeouts} timeouts`
    throw new Error(`${method} ${url}${path}: ${found}`)
  }
}

/**
 * Makes calls at even times for some seconds, whether those before were served or not.
 *
 * @param call is given the number of the call and the time at which it was due, in milliseconds since the first
 */
export async function callEvenly(perSecond: number, seconds: number, call: (number: number, dueMs: number) => void) {
  const start = performance.now()
  for (let number = 0; number < perSecond * seconds; number++) {
    const dueMs = (number * 1_000) / perSecond
    while (performance.now() < start + dueMs) await sleep(1)
    call(number, dueMs)
  }
}

/** Each of a list in turn, again and again: a token may make 300 requests a minute, so they go round many. */
export function inTurn<T>(list: readonly T[]): () => T {
  let turn = 0
  return () => list[turn++ % list.length] as T
}

/** Ids up to a size, without a pattern that a cache could profit from. */
export const idAt = (turn: number, size: number) => 1 + ((turn * 7_919) % size)

/** The database time that the token of a response has left, in milliseconds. */
export function databaseLeft({ headers }: Response): number {
  return Number(/"database";r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1])
}

/** Milliseconds, for a table. */
export const column = (value: number) => value.toFixed(1).padStart(8)

/** A ratio for a table, beside its target. */
export const judged = (ratio: number, target: number) =>
  `${ratio.toFixed(2).padStart(6)} ${String(target).padStart(6)}${ratio > target ? ' over' : '     '}`

export const median = (values: readonly number[]) => quantile(values, 0.5)

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
