import { env } from 'cloudflare:workers'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { FairShare, fairShare, LONGEST_WAIT_MS } from '../../../src/kernel/gate/limits.ts'
import { mintCompany, request, send } from '../../support/app.ts'

const SPENDER = 8
const NEIGHBOUR = 9
const MIB = 2 ** 20

/** A share in which a neighbour sends a request every second, and the spender's waits. */
function besideNeighbour() {
  const share = new FairShare()
  let nextAt = 0
  const enter = (now: number, bodyBytes = 0) => {
    for (; nextAt <= now; nextAt += 1_000) expect(share.enter(NEIGHBOUR, 0, nextAt)).toBe(0)
    return share.enter(SPENDER, bodyBytes, now)
  }
  return { share, enter }
}

describe('the share of a company in an isolate', () => {
  it('does not limit a company that is alone, however much it sends', () => {
    const share = new FairShare()
    for (let i = 0; i < 5_000; i++) expect(share.enter(SPENDER, MIB, i)).toBe(0)
  })

  it('paces the requests of a crowd beside others, in their order, and refuses those that would wait too long', () => {
    const { enter } = besideNeighbour()
    const waits = Array.from({ length: 2_000 }, () => enter(0))
    const served = waits.filter((wait) => wait !== null)
    // 250 ms at once and a quarter of the next 8 s, at 3 ms a request.
    expect(waits.findIndex((wait) => wait !== 0)).toBe(84)
    expect(served).toHaveLength(1 + Math.floor((1_000 + LONGEST_WAIT_MS) / 12))
    expect(served).toEqual(served.toSorted((a, b) => a - b))
    expect(waits.slice(served.length)).toEqual(waits.slice(served.length).map(() => null))
  })

  it('lets later requests wait for a body whose length was unknown', () => {
    const { share, enter } = besideNeighbour()
    expect(enter(0)).toBe(0)
    share.charge(SPENDER, 4 * MIB, 0)
    expect(enter(0)).toBe((3 + 4 * 120 - 250) * 4)
    expect(share.enter(NEIGHBOUR, 0, 0)).toBe(0)
  })

  it.each([
    { requests: 'without a body', bytes: 0, most: 83 },
    { requests: 'of 250 KB', bytes: 250_000, most: 8 },
    { requests: 'of 1 MiB', bytes: MIB, most: 3 },
    { requests: 'that claim any length', bytes: Number.MAX_SAFE_INTEGER, most: 1 },
  ])('starts at most $most requests $requests in a second', ({ bytes, most }) => {
    const { enter } = besideNeighbour()
    let started = 0
    for (let now = 0; now < 20_000; now += 50) {
      const waits = Array.from({ length: 10 }, () => enter(now, bytes))
      started += waits.filter((wait) => wait !== null && now + wait >= 10_000 && now + wait < 20_000).length
    }
    expect(started).toBeGreaterThan(0)
    expect(Math.floor(started / 10)).toBeLessThanOrEqual(most)
  })

  it('lets a company send freely again when the others have been silent for 2 s', () => {
    const { share } = besideNeighbour()
    share.enter(NEIGHBOUR, 0, 0)
    for (let i = 0; i < 500; i++) share.enter(SPENDER, 0, 0)
    expect(share.enter(SPENDER, 0, 1_999)).toBeGreaterThan(0)
    expect([share.isAlone(1_999), share.isAlone(2_000)]).toEqual([false, true])
    expect(share.enter(SPENDER, 0, 2_000)).toBe(0)
  })

  it('does not charge a company later for what it used alone', () => {
    const share = new FairShare()
    for (let i = 0; i < 5_000; i++) share.enter(SPENDER, MIB, 0)
    share.enter(NEIGHBOUR, 0, 0)
    expect(share.enter(SPENDER, 0, 0)).toBeLessThanOrEqual(12)
  })

  it('never lets a company wait that keeps to its share, whatever the others do', () => {
    const request = fc.record({ company: fc.integer({ min: 1, max: 4 }), bytes: fc.nat(MIB), after: fc.nat(200) })
    fc.assert(
      fc.property(fc.array(request, { maxLength: 200 }), (requests) => {
        const share = new FairShare()
        let now = 0
        let nextAt = 0
        for (const { company, bytes, after } of requests) {
          now += after
          for (; nextAt <= now; nextAt += 12) expect(share.enter(NEIGHBOUR, 0, nextAt)).toBe(0)
          share.enter(company, bytes, now)
        }
      }),
    )
  })
})

describe('a request', () => {
  afterEach(() => {
    vi.restoreAllMocks()
  })

  it('counts for its company with the bytes of its body', async () => {
    const { token, id } = await mintCompany({ home: 'DB' })
    const enter = vi.spyOn(fairShare, 'enter')
    const body = { company_name: 'Ink & Thread' }
    expect((await send(request(token, 'GET', '/clients'))).status).toBe(200)
    expect((await send(request(token, 'POST', '/clients', body))).status).toBe(200)
    expect(enter.mock.calls.map(([company, bytes]) => [company, bytes])).toEqual([
      [id, 0],
      [id, JSON.stringify(body).length],
    ])
  })

  it.each(['{"company_name":"Ink & Thread"}', '{"company_name":'])(
    'counts a body of unknown length by its bytes, once they are read: %s',
    async (text) => {
      const { token, id } = await mintCompany({ home: 'DB' })
      const charge = vi.spyOn(fairShare, 'charge')
      const { method, headers, url } = request(token, 'POST', '/clients', {})
      headers.delete('content-length')
      await send(new Request(url, { method, headers, body: new Blob([text]).stream() }), { env })
      expect(charge.mock.calls.map(([company, bytes]) => [company, bytes])).toEqual([
        [id, 0],
        [id, text.length],
      ])
    },
  )

  it('is 429 and changes nothing where it would wait too long', async () => {
    const { token } = await mintCompany({ home: 'DB' })
    vi.spyOn(fairShare, 'enter').mockReturnValueOnce(null)
    const refused = await send(request(token, 'POST', '/clients', { company_name: 'Crowd' }))
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5'])
    const { body } = await send(request(token, 'GET', '/clients'))
    expect(body).toMatchObject({ pagination: { total: 0 } })
  })

  it('runs after its wait', async () => {
    const { token } = await mintCompany({ home: 'DB' })
    vi.spyOn(fairShare, 'enter').mockReturnValueOnce(30)
    expect((await send(request(token, 'GET', '/clients'))).status).toBe(200)
  })
})
