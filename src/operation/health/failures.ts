import { WorkerEntrypoint } from 'cloudflare:workers'
import type { Env } from '../../env.ts'

/** The platform shows only this error; the log has the details under the same request id. */
class InternalError extends Error {
  override readonly name = 'InternalError'
}

/** Throws, so that the platform counts an exception: see {@link countException}. */
export class FailureCounter extends WorkerEntrypoint<Env> {
  override fetch(request: Request): never {
    throw new InternalError(`of request ${request.headers.get('x-request-id')}`)
  }
}

/**
 * Counts a 500 among the platform's own exceptions, after the response. A rejected `waitUntil` leaves the outcome at
 * `ok`, and throwing in the request would replace the response by the platform's page.
 */
export function countException(
  context: { exports?: unknown; waitUntil(work: Promise<unknown>): void },
  requestId: string,
) {
  const { FailureCounter: counter } = context.exports as { FailureCounter: Fetcher }
  const call = counter.fetch('https://failure.internal/', { headers: { 'x-request-id': requestId } })
  context.waitUntil(call.catch(() => undefined))
}
