/** The little of autocannon that the benchmarks use; it ships no types. */
declare module 'autocannon' {
  interface Options {
    url: string
    connections: number
    duration: number
    requests: { setupRequest: (request: object) => object }[]
  }
  interface Instance extends Promise<Record<'non2xx' | 'errors' | 'timeouts', number>> {
    on(event: 'response', listener: (client: unknown, status: number, bytes: number, ms: number) => void): this
  }
  export default function autocannon(options: Options): Instance
}
