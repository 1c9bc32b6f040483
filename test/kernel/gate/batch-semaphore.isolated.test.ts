import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BatchSemaphore, fairShare, IN_FLIGHT, type Permit } from '../../../src/kernel/gate/limits.ts'

describe('the semaphore of a company’s batches', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] })
  })
  afterEach(() => {
    vi.restoreAllMocks()
  })

  /** The permit of a batch that starts at once; null for one that would wait, which then leaves the queue. */
  function start(semaphore: BatchSemaphore): Permit | null {
    const permit = semaphore.enter()
    if (permit.startedAt > 0) return permit
    semaphore.release(permit, 0)
    return null
  }

  function fullSemaphore() {
    const semaphore = new BatchSemaphore()
    const permits = Array.from({ length: IN_FLIGHT }, () => semaphore.enter())
    expect(permits.filter(({ startedAt }) => startedAt > 0)).toHaveLength(6)
    expect(start(semaphore)).toBeNull()
    return { semaphore, permits }
  }

  function semaphoreBeside(isAlone: boolean) {
    vi.spyOn(fairShare, 'isAlone').mockReturnValue(isAlone)
    return new BatchSemaphore()
  }

  it('admits queued batches in their order, before any later one', async () => {
    const { semaphore, permits } = fullSemaphore()
    const order: number[] = []
    const queued = [1, 2, 3].map((number) => ({ number, permit: semaphore.enter() }))
    const waits = queued.map(async ({ number, permit }) => {
      await semaphore.wait(permit)
      order.push(number)
    })
    for (const permit of permits.slice(0, 2)) semaphore.release(permit, 1)
    expect(start(semaphore)).toBeNull()
    await vi.advanceTimersByTimeAsync(20)
    expect(order).toEqual([1, 2])
    for (const { permit } of queued.slice(0, 2)) semaphore.release(permit, 1)
    await vi.advanceTimersByTimeAsync(20)
    await Promise.all(waits)
    expect(order).toEqual([1, 2, 3])
  })

  it('starts the batch of a request that has written before those that have not', () => {
    const { semaphore, permits } = fullSemaphore()
    const queued = [semaphore.enter(), semaphore.enter(true)]
    for (const permit of permits.slice(0, 1)) semaphore.release(permit, 1)
    expect(queued.map(({ startedAt }) => startedAt > 0)).toEqual([false, true])
  })

  it('lets a batch wait for 8 s, then refuses it and removes it from the queue', async () => {
    const { semaphore, permits } = fullSemaphore()
    const late = semaphore.enter()
    const refused = expect(semaphore.wait(late)).rejects.toThrow('Too many concurrent requests of this company')
    await vi.advanceTimersByTimeAsync(8_100)
    await refused
    const next = semaphore.enter()
    for (const permit of permits.slice(0, 1)) semaphore.release(permit, 1)
    expect([late.startedAt > 0, next.startedAt > 0]).toEqual([false, true])
  })

  it('forgets after 20 s a batch that was lost with its request', async () => {
    const { semaphore } = fullSemaphore()
    await vi.advanceTimersByTimeAsync(19_999)
    expect(start(semaphore)).toBeNull()
    await vi.advanceTimersByTimeAsync(1)
    expect(start(semaphore)).not.toBeNull()
  })

  it('frees a place once, however often the batch is released', () => {
    const { semaphore, permits } = fullSemaphore()
    const [permit] = permits
    if (!permit) throw new Error('There is no permit.')
    semaphore.release(permit, 1)
    semaphore.release(permit, 1)
    expect(start(semaphore)).not.toBeNull()
    expect(start(semaphore)).toBeNull()
  })

  it.each([
    { beside: 'nobody', isAlone: true, burst: [1_000, 200], waitMs: 300 },
    { beside: 'others', isAlone: false, burst: [250, 50], waitMs: 300 },
  ])('gives a company its burst of database time and then its share, beside $beside', ({ isAlone, burst, waitMs }) => {
    const semaphore = semaphoreBeside(isAlone)
    const run = (databaseMs: number) => {
      const permit = start(semaphore)
      if (permit) semaphore.release(permit, databaseMs)
      return permit !== null
    }
    expect([...burst.map(run), run(1)]).toEqual([true, true, false])
    vi.advanceTimersByTime(waitMs - 1)
    expect(run(1)).toBe(false)
    // One millisecond more, since the debt is paid off in fractions.
    vi.advanceTimersByTime(2)
    expect([run(100), run(1)]).toEqual([true, false])
    vi.advanceTimersByTime(isAlone ? 150 : 600)
    expect(run(1)).toBe(true)
  })

  it.each([
    { beside: 'nobody', isAlone: true, inFlight: IN_FLIGHT },
    { beside: 'others', isAlone: false, inFlight: 1 },
  ])('runs $inFlight batches at once beside $beside after a heavy one', ({ isAlone, inFlight }) => {
    const semaphore = semaphoreBeside(isAlone)
    const permit = start(semaphore)
    if (permit) semaphore.release(permit, 200)
    const permits = Array.from({ length: IN_FLIGHT + 1 }, () => start(semaphore))
    expect(permits.filter(Boolean)).toHaveLength(inFlight)
  })
})
