/** Calls of bindings may hang, so every wait has a deadline. Those of suppliers are in the contract: see `products/`. */
export const BUDGET_MS = {
  /** One batch, with its retry. */
  database: 10_000,
  /** After it the request continues without the limiter. */
  limiter: 2_000,
  /** A token's object: half of the time that callers commonly wait. */
  silence: 15_000,
  /** After it the request continues without the cache. */
  cache: 1_000,
  storage: 10_000,
  listing: 25_000,
  /** The published description. */
  assets: 5_000,
  /** A body of no bytes: see {@link bodyBudgetMs}. */
  body: 10_000,
  /** The wait of a large body for memory. */
  memory: 10_000,
  handler: 30_000,
  /** Each step of the work after the response. */
  afterwards: 10_000,
} as const

/** The minimum rate is 128 KB a second: a link of 1 Mbit/s. */
const MIN_BYTES_PER_MS = 128

/** The deadline of a body or response with this many bytes: 10 s and the time at the minimum rate. */
export function bodyBudgetMs(bytes: number): number {
  return BUDGET_MS.body + bytes / MIN_BYTES_PER_MS
}

/** A passed deadline. The message contains nothing of the request. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError'

  constructor(ms: number) {
    super(`No response within ${ms} ms.`)
  }
}

/** Rejects with a {@link DeadlineError} after `ms`. The work itself continues: calls of bindings cannot be canceled. */
export function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const timer = setTimeout(() => reject(new DeadlineError(ms)), ms)
  work.then(resolve, reject)
  // Continuations of `work` run in the request that started it, which must not clear another request's timer.
  return promise.finally(() => clearTimeout(timer))
}

const LONGEST_POLL_MS = 16

/**
 * Polls for another request's work: a promise resolved by another request may continue in that request's context, or
 * never if that request is aborted. @throws DeadlineError after `ms`
 */
export async function poll(isDone: () => boolean, ms: number): Promise<void> {
  const endMs = Date.now() + ms
  for (let nextMs = 1; !isDone(); nextMs = Math.min(nextMs * 2, LONGEST_POLL_MS)) {
    if (Date.now() >= endMs) throw new DeadlineError(ms)
    await pause(nextMs)
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
