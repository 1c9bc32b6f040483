import autocannon, { type Request } from 'autocannon'

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
export function loadOf(url: string, next: () => Request, connections = CONNECTIONS): Load {
  return async (seconds) => {
    const times: number[] = []
    const run = autocannon({
      url,
      connections,
      duration: seconds,
      requests: [{ setupRequest: (request) => ({ ...request, ...next() }) }],
    })
    run.on('response', (_client, _status, _bytes, ms) => times.push(ms))
    const result = await run
    if (result.non2xx + result.errors + result.timeouts > 0) {
      const { method = 'GET', path = '' } = next()
      throw new Error(
        `${method} ${url}${path}: ${result.non2xx} responses other than 2xx, ${result.errors} errors, ${result.timeouts} timeouts`,
      )
    }
    return times
  }
}

export function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` }
}

export type Get = ReturnType<typeof get>

/** A request to read from the API. */
export function get(path: string, token: string) {
  return { method: 'GET', path: `/api/v1${path}`, headers: bearer(token) }
}

/** The database time that the token of a response has left, in milliseconds. */
export function databaseLeft({ headers }: Response): number {
  return Number(/"database";r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1])
}

/** Milliseconds, for a table. */
export function column(value: number): string {
  return value.toFixed(1).padStart(8)
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
