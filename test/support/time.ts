import { vi } from 'vitest'

/** Stops the clock, so that what a test asserts about a time does not depend on how fast the machine is. */
export function stopTime(): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() })
}

/** Stops the clock so much later than it is. */
export function moveTime(ms: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms })
}
