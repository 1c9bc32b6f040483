import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { DatabaseGate, mayEnter, type Pass, updateEstimate } from '../../../src/kernel/gate/database-gate.ts'

/** How many batches may be in flight with this estimate. */
function capacityOf(estimateMs: number): number {
  let inFlight = 0
  while (mayEnter(inFlight, estimateMs)) inFlight++
  return inFlight
}

const estimateAfter = (durations: number[], from = 30) => durations.reduce(updateEstimate, from)

describe('the number of batches in flight', () => {
  it.each([
    [5, 50],
    [30, 8],
    [25, 10],
    [124, 2],
    [126, 1],
    [5_000, 1],
  ])('with an estimate of %d ms is %i', (estimateMs, capacity) => {
    expect(capacityOf(estimateMs)).toBe(capacity)
  })
})

describe('the estimate', () => {
  it('rises at once to the time of an expensive batch', () => {
    expect(updateEstimate(30, 300)).toBe(300)
  })

  it('falls slowly after one expensive batch among many cheap ones', () => {
    const cheap = (count: number) => Array.from({ length: count }, () => 1)
    expect(capacityOf(estimateAfter([300, ...cheap(3)]))).toBe(1)
    expect(capacityOf(estimateAfter([300, ...cheap(10)]))).toBeLessThan(10)
    expect(capacityOf(estimateAfter([300, ...cheap(30)]))).toBe(50)
  })

  it('adapts to cheap batches within the first ten', () => {
    expect(capacityOf(estimateAfter(Array.from({ length: 10 }, () => 1)))).toBeGreaterThan(40)
  })

  it('never allows more than 50 batches of a token in flight', () => {
    expect(capacityOf(estimateAfter(Array.from({ length: 1_000 }, () => 0)))).toBe(50)
  })
})

describe('the gate', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  /** Fills a gate whose batches are known to take 100 ms: two are in flight. */
  function fullGate() {
    const gate = new DatabaseGate()
    const first = gate.tryEnter()
    if (!first) throw new Error('The gate is closed.')
    gate.leave(first, 100)
    const passes = [gate.tryEnter(), gate.tryEnter()].filter((pass) => pass !== null)
    expect(passes).toHaveLength(2)
    expect(gate.tryEnter()).toBeNull()
    return { gate, passes }
  }

  it('admits queued batches in their order, before any later one', async () => {
    const { gate, passes } = fullGate()
    const order: number[] = []
    const admitted: Pass[] = []
    const waits = [1, 2, 3].map((number) =>
      gate.wait().then((pass) => {
        order.push(number)
        admitted.push(pass)
      }),
    )
    for (const pass of passes) gate.leave(pass, 100)
    expect(gate.tryEnter()).toBeNull()
    await vi.advanceTimersByTimeAsync(20)
    expect(order).toEqual([1, 2])
    for (const pass of admitted) gate.leave(pass, 100)
    await vi.advanceTimersByTimeAsync(20)
    await Promise.all(waits)
    expect(order).toEqual([1, 2, 3])
  })

  it('lets a batch wait for 5 s and then removes it from the queue', async () => {
    const { gate, passes } = fullGate()
    const outcome = gate.wait().catch((error: Error) => error.name)
    await vi.advanceTimersByTimeAsync(5_100)
    expect(await outcome).toBe('DeadlineError')
    const next = gate.wait()
    for (const pass of passes) gate.leave(pass, 1)
    await vi.advanceTimersByTimeAsync(20)
    expect(await next).toMatchObject({ enteredAt: expect.any(Number) })
  })

  it('forgets after 20 s a batch that was lost with its request', async () => {
    const { gate } = fullGate()
    await vi.advanceTimersByTimeAsync(19_999)
    expect(gate.tryEnter()).toBeNull()
    await vi.advanceTimersByTimeAsync(1)
    expect(gate.tryEnter()).not.toBeNull()
  })

  it('frees a place once, however often the batch leaves', () => {
    const { gate, passes } = fullGate()
    const [pass] = passes
    if (!pass) throw new Error('There is no pass.')
    gate.leave(pass, 100)
    gate.leave(pass, 100)
    expect(gate.tryEnter()).not.toBeNull()
    expect(gate.tryEnter()).toBeNull()
  })

  it('allows a burst of one second of database time, then a third of the time', async () => {
    const gate = new DatabaseGate()
    let usedMs = 0
    /** A caller that always has another batch of 300 ms. */
    const use = async (ms: number) => {
      const endsAt = Date.now() + ms
      while (Date.now() < endsAt) {
        const pass = gate.tryEnter() ?? (await gate.wait())
        await new Promise((resolve) => setTimeout(resolve, 300))
        gate.leave(pass, 300)
        usedMs += 300
      }
    }
    const running = use(30_000)
    await vi.advanceTimersByTimeAsync(40_000)
    await running
    expect(usedMs).toBeGreaterThan(10_000)
    expect(usedMs).toBeLessThan(12_500)
  })

  it('never delays cheap batches: 300 of 2 ms in a minute', async () => {
    const gate = new DatabaseGate()
    for (let i = 0; i < 300; i++) {
      const pass = gate.tryEnter()
      if (!pass) throw new Error(`The batch ${i} must wait.`)
      gate.leave(pass, 2)
    }
  })

  it('estimates the time of the batches in flight and in the queue', async () => {
    const { gate } = fullGate()
    const outcome = gate.wait().catch(() => undefined)
    expect(gate.expectedMs()).toBe(300)
    await vi.advanceTimersByTimeAsync(6_000)
    await outcome
  })
})
