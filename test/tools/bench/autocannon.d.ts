/** The little of autocannon that the benchmarks use; it ships no types. */
declare module 'autocannon' {
  interface Request {
    method?: string
    path?: string
    headers?: Record<string, string>
    body?: string
    setupRequest?: (request: Request) => Request
  }
  interface Options {
    url: string
    connections: number
    duration: number
    requests: Request[]
  }
  interface Result {
    non2xx: number
    errors: number
    timeouts: number
  }
  interface Instance extends Promise<Result> {
    on(event: 'response', listener: (client: unknown, status: number, bytes: number, ms: number) => void): this
  }
  export default function autocannon(options: Options): Instance
}
