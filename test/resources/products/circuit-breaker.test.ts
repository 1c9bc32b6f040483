import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CALLS_WINDOW_MS,
  FAILURES_TO_OPEN,
  FEW_CALLS,
  HEALTHY,
  type Health,
  hasFewCalls,
  mayCall,
  OPEN_MS,
  recordFailure,
  recordSuccess,
  startCall,
} from '../../../src/resources/products/supplier-cache.ts'

const NOW = 1_000_000

const failure = { reason: 'supplier_unavailable', retryAfterSeconds: null } as const
const rejection = { ...failure, reason: 'supplier_rejected_credentials' } as const
const throttle = (retryAfterSeconds: number) => ({ ...failure, retryAfterSeconds })

function failTimes(count: number): Health {
  let health = HEALTHY
  for (let i = 0; i < count; i++) health = recordFailure(health, failure, NOW)
  return health
}

describe('the circuit breaker', () => {
  it('opens after so many failures in a row', () => {
    expect(mayCall(failTimes(FAILURES_TO_OPEN - 1), NOW)).toBe(true)
    const open = failTimes(FAILURES_TO_OPEN)
    expect(mayCall(open, NOW)).toBe(false)
    expect(mayCall(open, NOW + OPEN_MS - 1)).toBe(false)
    expect(mayCall(open, NOW + OPEN_MS)).toBe(true)
  })

  it('counts only consecutive failures', () => {
    const health = recordSuccess(failTimes(FAILURES_TO_OPEN - 1), null, NOW)
    expect(mayCall(recordFailure(health, failure, NOW), NOW)).toBe(true)
  })

  it('lets one call through when half-open, and another when that one was lost', () => {
    const later = NOW + OPEN_MS
    const trying = startCall(failTimes(FAILURES_TO_OPEN), later)
    expect(mayCall(trying, later + OPEN_MS - 1)).toBe(false)
    expect(mayCall(trying, later + OPEN_MS)).toBe(true)
  })

  it('closes after a trial that succeeds, and opens again after one that fails', () => {
    const later = NOW + OPEN_MS
    const trying = startCall(failTimes(FAILURES_TO_OPEN), later)
    expect(mayCall(recordSuccess(trying, null, later), later)).toBe(true)
    expect(mayCall(recordFailure(trying, failure, later), later + OPEN_MS - 1)).toBe(false)
  })

  it('opens at once when the credentials are rejected, and stores the reason', () => {
    const health = recordFailure(HEALTHY, rejection, NOW)
    expect(mayCall(health, NOW + OPEN_MS - 1)).toBe(false)
    expect(health.reason).toBe('supplier_rejected_credentials')
  })
})

describe('the rate limit', () => {
  it.each([
    ['waits for the time in Retry-After', throttle(20), 20_000],
    ['waits five minutes at most', throttle(86_400), 300_000],
  ])('%s', (_, error, waitMs) => {
    const health = recordFailure(HEALTHY, error, NOW)
    expect(mayCall(health, NOW + waitMs - 1)).toBe(false)
    expect(mayCall(health, NOW + waitMs)).toBe(true)
    expect(health.failuresInRow).toBe(0)
    // The success of a call that was in flight does not shorten the wait.
    expect(mayCall(recordSuccess(health, 5, NOW), NOW + waitMs - 1)).toBe(false)
  })

  it('allows no call for a minute when none is left', () => {
    const health = recordSuccess(HEALTHY, 0, NOW)
    expect(mayCall(health, NOW + CALLS_WINDOW_MS - 1)).toBe(false)
    expect(mayCall(health, NOW + CALLS_WINDOW_MS)).toBe(true)
  })

  it('counts calls in flight as used', () => {
    const health = recordSuccess(HEALTHY, FEW_CALLS, NOW)
    expect(hasFewCalls(health, NOW)).toBe(false)
    const busy = startCall(health, NOW)
    expect(hasFewCalls(busy, NOW)).toBe(true)
    expect(hasFewCalls(busy, NOW + CALLS_WINDOW_MS)).toBe(false)
    expect(hasFewCalls(HEALTHY, NOW)).toBe(false)
  })
})

it('lets a call through within five minutes, whatever happens', () => {
  const event = fc.oneof(
    fc.constant((health: Health, now: number) => startCall(health, now)),
    fc.option(fc.nat(60)).map((left) => (health: Health, now: number) => recordSuccess(health, left, now)),
    fc
      .constantFrom(failure, rejection, throttle(0), throttle(999_999_999))
      .map((error) => (health: Health, now: number) => recordFailure(health, error, now)),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(event, fc.nat(30_000))), (events) => {
      let now = NOW
      let health = HEALTHY
      for (const [apply, passedMs] of events) {
        health = apply(health, now)
        expect(mayCall(health, now + 300_000)).toBe(true)
        now += passedMs
      }
    }),
  )
})
