import { onTestFinished, vi } from 'vitest'

/** Stops the clock, so that what a test asserts about a time does not depend on how fast the machine is. */
export function stopTime(): void {
  moveTime(0)
}

/** Stops the clock so much later than it is. */
export function moveTime(ms: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms })
  // With each look, `vi.waitUntil` and `expect.poll` would move it.
  vi.spyOn(vi, 'advanceTimersByTime').mockReturnValue(vi)
}

export function resumeTime(): void {
  vi.useRealTimers()
  if (vi.isMockFunction(vi.advanceTimersByTime)) vi.mocked(vi.advanceTimersByTime).mockRestore()
}

/**
 * Keeps timers of these numbers of milliseconds from running in this test, so that no deadline passes because the machine is
 * slow. The returned list has them, for a test that wants them to pass.
 */
export function holdTimers(...heldMs: number[]): (() => void)[] {
  const held: (() => void)[] = []
  const { setTimeout } = globalThis
  const hold = (run: () => void, ms: number) => (heldMs.includes(ms) ? void held.push(run) : setTimeout(run, ms))
  const timers = vi.spyOn(globalThis, 'setTimeout').mockImplementation(hold as typeof setTimeout)
  onTestFinished(() => timers.mockRestore())
  return held
}
