import { beforeEach, expect, it, vi } from 'vitest'
import { readJsonBytes } from '../../../src/kernel/api/input.ts'
import { type Lease, MemoryBudget } from '../../../src/kernel/http/isolate.ts'

beforeEach(() => {
  vi.useFakeTimers()
})

/** Notes the names of leases in the order in which they were granted. */
const watch = (granted: string[], name: string, lease: Lease, bytes: number) =>
  lease.resize(bytes).then(() => granted.push(name))

type Read = (view: Uint8Array<ArrayBuffer>) => Promise<{ value?: Uint8Array<ArrayBuffer>; done: boolean }>

function bodyOf(read: Read): Request {
  const headers = new Headers({ 'content-type': 'application/json' })
  return { headers, body: { getReader: () => ({ read }) } } as unknown as Request
}

it('the memory budget grants at once what fits, and gives a released lease nothing more', async () => {
  const budget = new MemoryBudget(100)
  const leases = [budget.open(), budget.open()] as const
  await Promise.all([leases[0].resize(40), leases[1].resize(60)])
  expect(budget.usedBytes).toBe(100)
  leases[0].release()
  await expect(leases[0].resize(10)).rejects.toMatchObject({ kind: 'unavailable' })
  expect(budget.usedBytes).toBe(60)
})

it('the memory budget frees the bytes that a lease owns with it, but not those that were used up before', () => {
  const lease = new MemoryBudget(100).open()
  const [owned, used] = [new Uint8Array(8), new Uint8Array(8)]
  for (const bytes of [owned, used]) lease.own(bytes)
  lease.disown(used)
  lease.release()
  expect([owned.length, used.length]).toEqual([0, 8])
})

it('the memory budget lets one lease at a time exceed the limit, whatever waits', async () => {
  const budget = new MemoryBudget(100)
  const [older, over, other] = [budget.open(), budget.open(), budget.open()]
  for (const lease of [older, over, other]) await lease.resize(30)
  await over.resize(80)
  const granted: string[] = []
  watch(granted, 'other', other, 60)
  watch(granted, 'older', older, 60)
  await over.resize(150)
  await vi.advanceTimersByTimeAsync(50)
  expect([granted, budget.usedBytes]).toEqual([[], 210])
  over.release()
  await vi.advanceTimersByTimeAsync(50)
  expect(granted.sort()).toEqual(['older', 'other'])
})

it('the memory budget lets no second lease exceed the limit when another one is released beside the first', async () => {
  const budget = new MemoryBudget(100)
  const [small, over, next] = [budget.open(), budget.open(), budget.open()]
  await small.resize(10)
  await over.resize(150)
  small.release()
  const granted: string[] = []
  watch(granted, 'next', next, 10)
  await vi.advanceTimersByTimeAsync(100)
  expect([granted, budget.usedBytes]).toEqual([[], 150])
  over.release()
  await vi.advanceTimersByTimeAsync(100)
  expect([granted, budget.usedBytes]).toEqual([['next'], 10])
})

it('the memory budget finishes every one of many leases that grow step by step', async () => {
  const budget = new MemoryBudget(100)
  const done: number[] = []
  const grow = async (index: number) => {
    const lease = budget.open()
    for (let bytes = 10; bytes <= 80; bytes += 10) {
      await lease.resize(bytes)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    lease.release()
    done.push(index)
  }
  const all = Promise.all(Array.from({ length: 8 }, (_, index) => grow(index)))
  await vi.advanceTimersByTimeAsync(9_000)
  await all
  expect(done).toHaveLength(8)
  expect(budget.usedBytes).toBe(0)
})

it('the memory budget refuses with 503 and Retry-After after 10 s, and forgets the request', async () => {
  const budget = new MemoryBudget(100)
  const [over, full, waiting] = [budget.open(), budget.open(), budget.open()]
  await full.resize(100)
  await over.resize(10)
  const refusal = { kind: 'unavailable', headers: { 'Retry-After': '10' } }
  const refused = expect(waiting.resize(10)).rejects.toMatchObject(refusal)
  await vi.advanceTimersByTimeAsync(10_100)
  await refused
  over.release()
  full.release()
  await budget.open().resize(100)
  expect(budget.usedBytes).toBe(100)
})

it('the memory budget reclaims the memory of a canceled request', async () => {
  const budget = new MemoryBudget(100)
  const [over, canceled] = [budget.open(), budget.open()]
  await canceled.resize(50)
  await over.resize(60)
  over.release()
  await vi.advanceTimersByTimeAsync(61_000)
  await budget.open().resize(10)
  expect(budget.usedBytes).toBe(10)
})

it('the memory budget does not give away the memory of a body that stalls: the body is refused before', async () => {
  const budget = new MemoryBudget(20_000_000)
  const start = (controller: ReadableByteStreamController) => controller.enqueue(new Uint8Array(8_000_000))
  const body = new ReadableStream({ type: 'bytes', start })
  const headers = { 'content-type': 'application/json' }
  const sent = new Request('https://api.test/', { method: 'PUT', headers, body })
  const stalled = budget.open()
  let refusal: unknown
  readJsonBytes(sent, 20_000_000, stalled).catch((error: unknown) => {
    refusal = error
  })
  while (budget.usedBytes < 7_900_000) await scheduler.wait(1)
  await vi.advanceTimersByTimeAsync(59_000)
  expect(budget.usedBytes).toBeGreaterThan(7_900_000)
  expect(refusal).toMatchObject({ kind: 'request_timeout' })
})

it('the memory budget holds nothing of a body over its limit while the rest is read', async () => {
  const buffers = new Set<ArrayBuffer>()
  let sentBytes = 0
  let heldBytes = 0
  const read: Read = async (view) => {
    for (const { byteLength } of buffers) heldBytes = sentBytes > 4_000_000 ? heldBytes + byteLength : 0
    buffers.add(view.buffer)
    sentBytes += view.length
    return heldBytes > 0 ? { done: true } : { value: view, done: false }
  }
  const lease = new MemoryBudget(20_000_000).open()
  await expect(readJsonBytes(bodyOf(read), 4_000_000, lease)).rejects.toMatchObject({ kind: 'too_large' })
  // The buffer of the rest.
  expect(heldBytes).toBe(65_536)
})

it('the memory budget gives a body nothing before it is there: one that waits holds its first 64 KiB', async () => {
  const budget = new MemoryBudget(100)
  await budget.open().resize(101)
  let bytes = 0
  const read: Read = async (view) => {
    bytes += view.length
    return bytes > 4_000_000 ? { done: true } : { value: view, done: false }
  }
  const reading = readJsonBytes(bodyOf(read), 4_000_000, budget.open())
  const refused = expect(reading).rejects.toMatchObject({ kind: 'unavailable' })
  await vi.advanceTimersByTimeAsync(9_900)
  expect(bytes).toBe(65_536)
  await vi.advanceTimersByTimeAsync(200)
  await refused
  // The rest was read: the caller, who still sends, would see a closed connection instead of the 503.
  expect(bytes).toBeGreaterThan(4_000_000)
})
