/**
 * How long a request waits for each thing that it needs, in milliseconds. Bindings end a call that hangs late or never,
 * so every wait has its end here; suppliers have theirs in `products/`, since the contract tells it.
 */
export const BUDGET_MS = {
  /** One batch, with its repetition. */
  database: 10_000,
  /** Then the request goes on without it. */
  limiter: 2_000,
  /** The same. */
  cache: 1_000,
  /** One page of a listing. */
  storage: 10_000,
  /** All pages of a listing. */
  listing: 25_000,
  /** The published description. */
  assets: 5_000,
  /** A body that sends nothing at all; see {@link bodyBudgetMs}. */
  body: 10_000,
  /** For a large body: until others have released their memory. */
  memory: 10_000,
  /** Everything that a handler does. */
  handler: 30_000,
  /** A step of what goes on after the answer. */
  afterwards: 10_000,
} as const

/** 128 KB a second, which a link of 1 Mbit/s holds. */
const MIN_BYTES_PER_MS = 128

/** How long a body of so many bytes may take to arrive, or a response to be read: 10 s, and what the minimum rate takes. */
export function bodyBudgetMs(bytes: number): number {
  return BUDGET_MS.body + bytes / MIN_BYTES_PER_MS
}

/** What took longer than its budget; its message holds nothing of the request. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError'

  constructor(ms: number) {
    super(`No answer within ${ms} ms.`)
  }
}

/**
 * The promise's outcome, or a {@link DeadlineError} after `ms` milliseconds. The work itself is not stopped: bindings
 * know no cancellation.
 */
export function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const outcome = new Promise<T>((resolve, reject) => {
    timer = setTimeout(() => reject(new DeadlineError(ms)), ms)
    work.then(resolve, reject)
  })
  // What follows `work` runs in the request that `work` belongs to, which may not clear another one's timer.
  return outcome.finally(() => clearTimeout(timer))
}

const LONGEST_POLL_MS = 16

/**
 * Waits for what another request brings about, by timers of its own. A promise that another request resolves would be
 * continued in that request's context where the runtime does not hand it back, and never if that request was aborted.
 *
 * @throws DeadlineError after `ms` milliseconds
 */
export async function poll(isDone: () => boolean, ms: number): Promise<void> {
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
  }, ms)
  try {
    for (let next = 1; !isDone(); next = Math.min(next * 2, LONGEST_POLL_MS)) {
      if (isLate) throw new DeadlineError(ms)
      await pause(next)
    }
  } finally {
    clearTimeout(timer)
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
