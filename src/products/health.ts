import type { SupplierErrorReason } from './suppliers/supplier.ts'

/** So many failures in a row, and the supplier is left alone for a while. */
export const FAILURES_TO_REST = 5
export const REST_MS = 30_000

/** How long one trial call after a rest keeps others from trying as well. */
export const TRIAL_MS = 12_000

/** The supplier counts calls by the minute; a refusal without `Retry-After` is waited out for less than all of it. */
export const CALLS_WINDOW_MS = 60_000
export const THROTTLE_MS = 10_000
const THROTTLE_MAX_MS = 300_000

/** Fewer calls left than this are kept for product info: search then spends none on what it has in the cache. */
export const FEW_CALLS = 10

/**
 * What an isolate knows of one company's account with one supplier: a circuit breaker and the calls that are left. Kept
 * per company, since credentials and allowance are the company's own. Times are milliseconds since the epoch.
 */
export interface Health {
  readonly failuresInRow: number
  /** Why the last call failed. */
  readonly reason: SupplierErrorReason
  /** No calls before: the supplier is sick, or refused the credentials. The first call after it is a trial. */
  readonly restsUntil: number
  /** No calls before: the supplier said that there were too many. */
  readonly throttledUntil: number
  /** Null where the supplier does not say; known until `callsLeftUntil`. */
  readonly callsLeft: number | null
  readonly callsLeftUntil: number
}

export const HEALTHY: Health = {
  failuresInRow: 0,
  reason: 'supplier_unavailable',
  restsUntil: 0,
  throttledUntil: 0,
  callsLeft: null,
  callsLeftUntil: 0,
}

/** Whether the supplier may be called now. */
export function mayCall(health: Health, now: number): boolean {
  return now >= health.restsUntil && now >= health.throttledUntil
}

/** Whether the calls that are left in this minute are too few to refresh what is cached. */
export function hasFewCalls(health: Health, now: number): boolean {
  return health.callsLeft !== null && now < health.callsLeftUntil && health.callsLeft < FEW_CALLS
}

/** A call begins. After a rest it is a trial, and no other begins before it ends or {@link TRIAL_MS} have passed. */
export function beginCall(health: Health, now: number): Health {
  const isTrial = health.failuresInRow >= FAILURES_TO_REST
  return {
    ...health,
    callsLeft: health.callsLeft === null ? null : Math.max(0, health.callsLeft - 1),
    restsUntil: isTrial ? now + TRIAL_MS : health.restsUntil,
  }
}

/** A call was answered. @param callsLeft as the supplier says, null where it does not */
export function noteAnswer(health: Health, callsLeft: number | null, now: number): Health {
  return {
    ...health,
    failuresInRow: 0,
    restsUntil: 0,
    // Of calls side by side the last to answer may be the first that was counted.
    throttledUntil: callsLeft === 0 ? now + CALLS_WINDOW_MS : health.throttledUntil,
    callsLeft,
    callsLeftUntil: now + CALLS_WINDOW_MS,
  }
}

interface Failure {
  reason: SupplierErrorReason
  throttled: boolean
  retryAfterSeconds: number | null
}

/**
 * A call failed. Too many calls are no sickness: only the wait that was asked for follows. Refused credentials bring the
 * rest at once: more of the same calls could lock the account.
 */
export function noteFailure(health: Health, failure: Failure, now: number): Health {
  if (failure.throttled) {
    const wait = failure.retryAfterSeconds === null ? THROTTLE_MS : failure.retryAfterSeconds * 1000
    return { ...health, reason: failure.reason, throttledUntil: now + Math.min(wait, THROTTLE_MAX_MS) }
  }
  const isRefused = failure.reason === 'supplier_rejected_credentials'
  const failuresInRow = isRefused ? FAILURES_TO_REST : health.failuresInRow + 1
  const rests = failuresInRow >= FAILURES_TO_REST
  return { ...health, reason: failure.reason, failuresInRow, restsUntil: rests ? now + REST_MS : health.restsUntil }
}
