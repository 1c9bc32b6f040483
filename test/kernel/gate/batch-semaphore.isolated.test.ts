import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { BatchSemaphore, IN_FLIGHT, type Permit } from '../../../src/kernel/gate/batch-semaphore.ts'

describe('the semaphore of a company’s batches', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  function fullSemaphore() {
    const semaphore = new BatchSemaphore()
    const permits = Array.from({ length: IN_FLIGHT }, () => semaphore.tryAcquire()).filter((permit) => permit !== null)
    expect(permits).toHaveLength(6)
    expect(semaphore.tryAcquire()).toBeNull()
    return { semaphore, permits }
  }

  it('admits queued batches in their order, before any later one', async () => {
    const { semaphore, permits } = fullSemaphore()
    const order: number[] = []
    const admitted: Permit[] = []
    const waits = [1, 2, 3].map((number) =>
      semaphore.acquire().then((permit) => {
        order.push(number)
        admitted.push(permit)
      }),
    )
    for (const permit of permits.slice(0, 2)) semaphore.release(permit, 1)
    expect(semaphore.tryAcquire()).toBeNull()
    await vi.advanceTimersByTimeAsync(20)
    expect(order).toEqual([1, 2])
    for (const permit of admitted) semaphore.release(permit, 1)
    await vi.advanceTimersByTimeAsync(20)
    await Promise.all(waits)
    expect(order).toEqual([1, 2, 3])
  })

  it('lets a batch wait for 8 s and then removes it from the queue', async () => {
    const { semaphore, permits } = fullSemaphore()
    const outcome = semaphore.acquire().catch((error: Error) => error.name)
    await vi.advanceTimersByTimeAsync(8_100)
    expect(await outcome).toBe('DeadlineError')
    const next = semaphore.acquire()
    for (const permit of permits.slice(0, 1)) semaphore.release(permit, 1)
    await vi.advanceTimersByTimeAsync(20)
    expect((await next).startedAt).toBeGreaterThan(0)
  })

  it('forgets after 20 s a batch that was lost with its request', async () => {
    const { semaphore } = fullSemaphore()
    await vi.advanceTimersByTimeAsync(19_999)
    expect(semaphore.tryAcquire()).toBeNull()
    await vi.advanceTimersByTimeAsync(1)
    expect(semaphore.tryAcquire()).not.toBeNull()
  })

  it('frees a place once, however often the batch is released', () => {
    const { semaphore, permits } = fullSemaphore()
    const [permit] = permits
    if (!permit) throw new Error('There is no permit.')
    semaphore.release(permit, 1)
    semaphore.release(permit, 1)
    expect(semaphore.tryAcquire()).not.toBeNull()
    expect(semaphore.tryAcquire()).toBeNull()
  })

  it.each([
    { beside: 'nobody', isAlone: true, burst: [1_000, 200], waitMs: 600 },
    { beside: 'others', isAlone: false, burst: [250, 50], waitMs: 300 },
  ])('gives a company its burst of database time and then its share, beside $beside', ({ isAlone, burst, waitMs }) => {
    const semaphore = new BatchSemaphore(() => isAlone)
    const run = (databaseMs: number) => {
      const permit = semaphore.tryAcquire()
      if (permit) semaphore.release(permit, databaseMs)
      return permit !== null
    }
    expect([...burst.map(run), run(1)]).toEqual([true, true, false])
    vi.advanceTimersByTime(waitMs - 1)
    expect(run(1)).toBe(false)
    vi.advanceTimersByTime(1)
    expect([run(100), run(1)]).toEqual([true, false])
    vi.advanceTimersByTime(isAlone ? 300 : 600)
    expect(run(1)).toBe(true)
  })

  it.each([
    { beside: 'nobody', isAlone: true, inFlight: IN_FLIGHT },
    { beside: 'others', isAlone: false, inFlight: 1 },
  ])('runs $inFlight batches at once beside $beside after a heavy one', ({ isAlone, inFlight }) => {
    const semaphore = new BatchSemaphore(() => isAlone)
    const permit = semaphore.tryAcquire()
    if (permit) semaphore.release(permit, 200)
    const permits = Array.from({ length: IN_FLIGHT + 1 }, () => semaphore.tryAcquire())
    expect(permits.filter(Boolean)).toHaveLength(inFlight)
  })
})
