import { WorkerEntrypoint } from 'cloudflare:workers'
import type { Env } from '../../env.ts'

/** What the platform shows of a failure: the log has the rest under the same request id. */
class InternalError extends Error {
  override readonly name = 'InternalError'
}

/** Throws, and so counts as an invocation that ended with an exception: see {@link countFailure}. */
export class FailureCounter extends WorkerEntrypoint<Env> {
  override fetch(request: Request): never {
    throw new InternalError(`of request ${request.headers.get('x-request-id')}`)
  }
}

/**
 * Counts a 500 among the platform's own exceptions, after the response. A rejected `waitUntil` leaves the outcome of a
 * request at `ok`, and an exception of the request itself would replace the response by the platform's own page.
 */
export function countFailure(
  context: { exports?: unknown; waitUntil(work: Promise<unknown>): void },
  requestId: string,
) {
  const { FailureCounter: counter } = context.exports as { FailureCounter: Fetcher }
  const call = counter.fetch('https://failure.internal/', { headers: { 'x-request-id': requestId } })
  context.waitUntil(call.catch(() => undefined))
}
