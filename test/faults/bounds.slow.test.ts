import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { BUDGET_MS, isolateMemory } from '../../src/kernel/http/isolate.ts'
import { s3Storage } from '../../src/resources/files/s3.ts'
import { LOCAL } from '../support/addresses.ts'
import { endpoints, exampleOf } from '../support/endpoints.ts'
import { drive, MODES, run } from './run.ts'
import { BINDINGS, openShop, rowsOf, type Shop, THREAD } from './shop.ts'

/* What has no end by itself, and no binding in the matrix. */

let shop: Shop

beforeAll(async () => {
  shop = await openShop(false)
})
afterEach(() => {
  vi.useRealTimers()
})

/** A body that sends `bytes` every `everyMs`, `times` over, and then nothing; it ends only on request. */
function drip(bytes: Uint8Array, everyMs: number, times: number, ends = false): ReadableStream<Uint8Array> {
  let left = times
  return new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      if (left-- > 0) {
        await new Promise((resolve) => setTimeout(resolve, everyMs))
        controller.enqueue(bytes.slice())
      } else if (ends) controller.close()
      else await new Promise(() => undefined)
    },
  })
}

function send(method: string, path: string, body: ReadableStream<Uint8Array>, announcedBytes?: number) {
  const headers = new Headers({ authorization: `Bearer ${shop.token}`, 'content-type': 'application/json' })
  if (announcedBytes !== undefined) headers.set('content-length', String(announcedBytes))
  return run(new Request(`https://api.test/api/v1${path}`, { method, headers, body }), BINDINGS)
}

const withBody = endpoints.filter(([, contract]) => contract.body)

describe('a body that does not end', () => {
  const ONE = new TextEncoder().encode(' ')

  it.each(withBody)('is given up by %s, and nothing is written', async (_, contract) => {
    const before = await rowsOf(shop)
    for (const body of [drip(ONE, 0, 0), drip(ONE, 0, 1), drip(ONE, 1_000, 10_000)]) {
      const { response, waitedMs } = await send(contract.method, exampleOf(contract).path, body)
      expect(response).toMatchObject({ status: 408, body: { error: { code: 'invalid_request' } } })
      expect(waitedMs).toBeGreaterThan(BUDGET_MS.body - 1)
      expect(waitedMs).toBeLessThanOrEqual(BUDGET_MS.body + 1)
    }
    expect(await rowsOf(shop)).toEqual(before)
  })

  it.each([
    ['small', 64, 0.5],
    ['at the end of what is small', 262_144, 2_048],
    ['larger', 500_000, 0],
  ])('is given up where it announces its length, later by as long as that may take: %s', async (_, bytes, laterMs) => {
    for (const [method, path] of [
      ['POST', '/clients'],
      ['PUT', `/mail/email-threads/${THREAD}`],
    ] as const) {
      const { response, waitedMs } = await send(method, path, drip(ONE, 0, 1), bytes)
      expect(response.status).toBe(408)
      expect(waitedMs).toBeGreaterThan(BUDGET_MS.body + laterMs - 1)
      expect(waitedMs).toBeLessThanOrEqual(BUDGET_MS.body + laterMs + 1)
    }
  })

  it('is refused for its size within 5 s of being over it, which are for what still comes', async () => {
    const { response, waitedMs } = await send('POST', '/clients', drip(new Uint8Array(65_536).fill(32), 100, 10_000))
    expect(response.status).toBe(413)
    expect(waitedMs).toBeLessThan(7_000)
  })

  it('may take long as long as it comes', async () => {
    const text = JSON.stringify({ account_email: 'a@x.example', messages: [{ id: 'x'.repeat(2_000_000) }] })
    const bytes = new TextEncoder().encode(text)
    const piece = bytes.subarray(0, Math.ceil(bytes.length / 20))
    // The pieces need not make JSON: what counts is that all of them are read.
    const { response, waitedMs } = await send('PUT', `/mail/email-threads/${THREAD}`, drip(piece, 1_000, 20, true))
    expect(waitedMs).toBe(20_000)
    expect(response.status).toBe(400)
  })
})

it.each([
  ['POST', '/clients'],
  ['PUT', `/mail/email-threads/${THREAD}`],
])(
  'a large body that finds no memory is refused with 503 by %s %s, and nothing is written',
  { timeout: 60_000 },
  async (method, path) => {
    const before = await rowsOf(shop)
    const lease = isolateMemory.open()
    // It goes over the limit, so that there is no room for anybody else.
    await lease.resize(100_000_000)
    const { response, waitedMs } = await send(method, path, drip(new Uint8Array(300_000).fill(32), 0, 2, true))
    lease.release()
    expect(response).toMatchObject({
      status: 503,
      body: { error: { code: 'internal_error', details: { documentation_url: expect.any(String) } } },
    })
    expect(response.headers.get('retry-after')).toBe('10')
    expect(waitedMs).toBeGreaterThanOrEqual(BUDGET_MS.memory)
    expect(waitedMs).toBeLessThan(BUDGET_MS.memory + 100)
    expect(isolateMemory.usedBytes).toBe(0)
    expect(await rowsOf(shop)).toEqual(before)
  },
)

const sent = () => new Request('https://api.test/api/v1/openapi.json')
const bindings = { ...BINDINGS, ASSETS: { fetch: async () => Response.json({}) } as unknown as Fetcher }

it.each(MODES)('the published description responds in time when its storage %s', async (mode) => {
  const { response, waitedMs } = await run(sent(), bindings, { name: 'ASSETS.fetch', ordinal: 1, mode })
  const isLate = mode === 'hangs' || mode === 'never responds'
  expect(response.status).toBe(mode === 'is slow' ? 200 : isLate ? 503 : 500)
  expect(waitedMs).toBeLessThanOrEqual(BUDGET_MS.assets)
})

it('a company’s own storage that stops in the middle of its response is given up', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  const start = Date.now()
  const fetching = vi.spyOn(globalThis, 'fetch')
  fetching.mockImplementation(async () => new Response(drip(new Uint8Array([60]), 0, 1)))
  const place = { endpoint: 'https://1.1.1.1', name: 'b', region: 'auto', addressing: 'path' as const }
  const bucket = { ...place, accessKeyId: 'a', secretAccessKey: 's', addresses: LOCAL }
  try {
    await expect(drive(s3Storage(bucket, start).list('orders/1/'))).rejects.toMatchObject({ problem: 'timeout' })
  } finally {
    fetching.mockRestore()
  }
  expect(Date.now() - start).toBe(BUDGET_MS.storage)
})
