import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CALLS_WINDOW_MS,
  FAILURES_TO_OPEN,
  FEW_CALLS,
  HALF_OPEN_MS,
  HEALTHY,
  type Health,
  hasFewCalls,
  mayCall,
  OPEN_MS,
  recordFailure,
  recordSuccess,
  startCall,
} from '../../src/products/supplier-cache.ts'

const NOW = 1_000_000

const failure = { reason: 'supplier_unavailable', retryAfterSeconds: null } as const
const refusal = { ...failure, reason: 'supplier_rejected_credentials' } as const
const throttle = (retryAfterSeconds: number) => ({ ...failure, retryAfterSeconds })

function failTimes(count: number): Health {
  let health = HEALTHY
  for (let i = 0; i < count; i++) health = recordFailure(health, failure, NOW)
  return health
}

describe('the breaker', () => {
  it('lets calls through until so many in a row have failed, then rests', () => {
    expect(mayCall(failTimes(FAILURES_TO_OPEN - 1), NOW)).toBe(true)
    const sick = failTimes(FAILURES_TO_OPEN)
    expect(mayCall(sick, NOW)).toBe(false)
    expect(mayCall(sick, NOW + OPEN_MS - 1)).toBe(false)
    expect(mayCall(sick, NOW + OPEN_MS)).toBe(true)
  })

  it('counts failures in a row only', () => {
    const health = recordSuccess(failTimes(FAILURES_TO_OPEN - 1), null, NOW)
    expect(mayCall(recordFailure(health, failure, NOW), NOW)).toBe(true)
  })

  it('lets one trial through after the rest, and another when that one was lost', () => {
    const later = NOW + OPEN_MS
    const trying = startCall(failTimes(FAILURES_TO_OPEN), later)
    expect(mayCall(trying, later + HALF_OPEN_MS - 1)).toBe(false)
    expect(mayCall(trying, later + HALF_OPEN_MS)).toBe(true)
  })

  it('is closed by a trial that is answered, and rests again after one that fails', () => {
    const later = NOW + OPEN_MS
    const trying = startCall(failTimes(FAILURES_TO_OPEN), later)
    expect(mayCall(recordSuccess(trying, null, later), later)).toBe(true)
    expect(mayCall(recordFailure(trying, failure, later), later + OPEN_MS - 1)).toBe(false)
  })

  it('rests at once when the credentials are refused, and remembers why', () => {
    const health = recordFailure(HEALTHY, refusal, NOW)
    expect(mayCall(health, NOW + OPEN_MS - 1)).toBe(false)
    expect(health.reason).toBe('supplier_rejected_credentials')
  })
})

describe('the allowance', () => {
  it.each([
    ['the wait that is asked for', throttle(20), 20_000],
    ['five minutes at most', throttle(86_400), 300_000],
  ])('%s', (_, error, waitMs) => {
    const health = recordFailure(HEALTHY, error, NOW)
    expect(mayCall(health, NOW + waitMs - 1)).toBe(false)
    expect(mayCall(health, NOW + waitMs)).toBe(true)
    expect(health.failuresInRow).toBe(0)
    // A call that was under way and is answered takes nothing of the wait away.
    expect(mayCall(recordSuccess(health, 5, NOW), NOW + waitMs - 1)).toBe(false)
  })

  it('stops at no calls left, for the supplier’s minute', () => {
    const health = recordSuccess(HEALTHY, 0, NOW)
    expect(mayCall(health, NOW + CALLS_WINDOW_MS - 1)).toBe(false)
    expect(mayCall(health, NOW + CALLS_WINDOW_MS)).toBe(true)
  })

  it('knows when few calls are left, those under way counted', () => {
    const health = recordSuccess(HEALTHY, FEW_CALLS, NOW)
    expect(hasFewCalls(health, NOW)).toBe(false)
    const busy = startCall(health, NOW)
    expect(hasFewCalls(busy, NOW)).toBe(true)
    expect(hasFewCalls(busy, NOW + CALLS_WINDOW_MS)).toBe(false)
    expect(hasFewCalls(HEALTHY, NOW)).toBe(false)
  })
})

it('never keeps a supplier away for good, whatever happens', () => {
  const event = fc.oneof(
    fc.constant((health: Health, now: number) => startCall(health, now)),
    fc.option(fc.nat(60)).map((left) => (health: Health, now: number) => recordSuccess(health, left, now)),
    fc
      .constantFrom(failure, refusal, throttle(0), throttle(999_999_999))
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
