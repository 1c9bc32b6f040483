import autocannon, { type Request } from 'autocannon'

export interface Figures {
  /** Milliseconds. */
  p50: number
  p99: number
  requestsPerSecond: number
}

export const CONNECTIONS = 8

/**
 * Loads one address for some seconds over 8 connections and takes each answer's time as it comes (autocannon's own
 * histogram knows whole milliseconds only).
 *
 * @param next makes the next request
 * @throws when an answer is not 2xx: a refused request must not count as a fast one
 */
export async function load(url: string, next: () => Request, seconds: number): Promise<Figures> {
  const times: number[] = []
  const run = autocannon({
    url,
    connections: CONNECTIONS,
    duration: seconds,
    requests: [{ setupRequest: (request) => ({ ...request, ...next() }) }],
  })
  run.on('response', (_client, _status, _bytes, ms) => times.push(ms))
  const result = await run
  if (result.non2xx + result.errors + result.timeouts > 0) {
    throw new Error(
      `${url}: ${result.non2xx} answers other than 2xx, ${result.errors} errors, ${result.timeouts} timeouts`,
    )
  }
  times.sort((a, b) => a - b)
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99), requestsPerSecond: times.length / result.duration }
}

/** The median run of several, by p50. */
export function medianOf(runs: Figures[]): Figures {
  const sorted = [...runs].sort((a, b) => a.p50 - b.p50)
  const middle = sorted[Math.floor(sorted.length / 2)]
  if (!middle) throw new Error('There was no run.')
  return middle
}

/** @param sorted ascending */
export function quantile(sorted: number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
