import type { SupplierError } from '../../../../src/resources/products/suppliers/supplier.ts'
import type { Call, Fault } from '../../../../src/simulators/kit.ts'
import { look, spoil } from '../../../../src/simulators/steer.ts'

let nextScope = 1

/** A simulator's scope of one test: its own faults and its own log of calls. */
export class SupplierScope {
  readonly url: string

  constructor(simulatorUrl: string) {
    this.url = `${simulatorUrl}/t/${crypto.randomUUID()}-${nextScope++}`
  }

  async setFaults(...faults: Fault[]): Promise<void> {
    await spoil(this.url, ...faults)
  }

  async calls(): Promise<Call[]> {
    return (await look(this.url)).calls
  }
}

/** The error that the promise rejects with; fails the test when it resolves. */
export async function errorOf(promise: Promise<unknown>): Promise<SupplierError> {
  return promise.then(
    () => {
      throw new Error('expected an error')
    },
    (error) => error,
  )
}

/** Everything that a log could show of an error. */
export function showAll(error: Error): string {
  return [error.stack, String(error.cause), JSON.stringify(error), JSON.stringify(Object.entries(error))].join('\n')
}

export const UNAVAILABLE = { reason: 'supplier_unavailable', retryAfterSeconds: null } as const
export const REJECTED = { reason: 'supplier_rejected_credentials', retryAfterSeconds: null } as const

/** Faults that both suppliers may have, and the expected error. */
export const BROKEN_WIRE: readonly (readonly [string, Fault, Partial<SupplierError>])[] = [
  ['503 with an HTML page', { status: 503, body: '<html><body><h1>Busy</h1></body></html>' }, UNAVAILABLE],
  ['502 with no body', { status: 502 }, UNAVAILABLE],
  ['500 with no body', { status: 500 }, UNAVAILABLE],
  [
    '200 with an HTML page',
    { body: '<!doctype html><html><br></html>', headers: { 'content-type': 'text/html' } },
    UNAVAILABLE,
  ],
  ['200 with no body', { body: '' }, UNAVAILABLE],
  ['200 with garbage', { body: '\u0000\ufffd garbage' }, UNAVAILABLE],
  ['a body cut short', { cutAfterBytes: 200 }, UNAVAILABLE],
  ['a connection closed without a response', { destroy: true }, UNAVAILABLE],
  ['a redirect', { status: 302, headers: { location: '?again=1' } }, UNAVAILABLE],
  ['a permanent redirect', { status: 308, headers: { location: '?again=1' } }, UNAVAILABLE],
  ['an empty 204', { status: 204 }, UNAVAILABLE],
  ['401', { status: 401, body: '<html>who are you</html>' }, REJECTED],
  ['403', { status: 403, body: '{"message":"Forbidden"}' }, REJECTED],
  ['429', { status: 429 }, { ...UNAVAILABLE, retryAfterSeconds: 10 }],
  [
    '429 with Retry-After',
    { status: 429, headers: { 'retry-after': '17' } },
    { ...UNAVAILABLE, retryAfterSeconds: 17 },
  ],
  [
    '429 with a past date in Retry-After',
    { status: 429, headers: { 'retry-after': 'Sat, 21 Nov 2026 08:00:00 GMT' } },
    { ...UNAVAILABLE, retryAfterSeconds: 10 },
  ],
]
