import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { request } from '../../support/app.ts'
import { type Hop, measureHops } from '../../support/hops.ts'
import { type CompanyWithOrder, fillBucket, giveStorage, mintCompanyWithOrder } from './support.ts'

let company: CompanyWithOrder
let own: CompanyWithOrder
let bucket: string

beforeEach(async () => {
  company = await mintCompanyWithOrder({ home: 'DB' })
  // Waits are named by the binding.
  own = await mintCompanyWithOrder({ home: 'DB' })
  bucket = await giveStorage(own)
})

async function hopsOf(of: CompanyWithOrder, method: string, path: string, body?: unknown): Promise<Hop[]> {
  const { response, hops } = await measureHops(request(of.token, method, `/orders/${of.orderId}/files${path}`, body))
  expect(response.status).toBe(200)
  return hops.filter(({ name }) => !name.startsWith('RATE_LIMITER.'))
}

const names = (hops: Hop[]) => hops.map(({ name }) => name).sort()
/** Behind the call of the token's object. */
const depth = (hops: Hop[]) => Math.max(...hops.map((hop) => hop.depth)) - 1
const upload = { fileName: 'x', size: 1, legacyThreadId: 't' }

describe('network waits', () => {
  it('a presigned upload waits for the database only, with either storage', async () => {
    expect(names(await hopsOf(company, 'POST', '/presign', upload))).toEqual(['DB.batch'])
    expect(names(await hopsOf(own, 'POST', '/presign', upload))).toEqual(['DB.batch'])
  })

  it('a listing calls the storage in parallel with the check of the order', async () => {
    const hops = await hopsOf(company, 'GET', '')
    expect(names(hops)).toEqual(['DB.batch', 'FILES.list'])
    expect(depth(hops)).toBe(1)
  })

  it('a listing of a company’s own storage does so from the second one on', async () => {
    const first = await hopsOf(own, 'GET', '')
    expect(names(first)).toEqual(['DB.batch', 'FILES.list', 'fetch'])
    expect(depth(first)).toBe(2)
    const second = await hopsOf(own, 'GET', '')
    expect(names(second)).toEqual(['DB.batch', 'fetch'])
    expect(depth(second)).toBe(1)
  })

  describe('for one file', () => {
    const keyOf = ({ id, orderId }: CompanyWithOrder) => `orders/${id}/${orderId}/x`
    const queryOf = (of: CompanyWithOrder) => `?path=${encodeURIComponent(keyOf(of))}`

    // Once listed, its own storage is known to the isolate.
    beforeEach(async () => {
      await hopsOf(own, 'GET', '')
    })

    it('a presigned download looks for it in parallel with the check of the order', async () => {
      await env.FILES.put(keyOf(company), 'x')
      const hops = await hopsOf(company, 'GET', `/download${queryOf(company)}`)
      expect(names(hops)).toEqual(['DB.batch', 'FILES.head'])
      expect(depth(hops)).toBe(1)
      await fillBucket(bucket, [{ key: keyOf(own), size: 1, lastModified: '2026-03-02T09:30:00.000Z' }])
      const ofOwn = await hopsOf(own, 'GET', `/download${queryOf(own)}`)
      expect(names(ofOwn)).toEqual(['DB.batch', 'fetch'])
      expect(depth(ofOwn)).toBe(1)
    })

    it('a deletion does so, records it and then deletes it', async () => {
      await env.FILES.put(keyOf(company), 'x')
      await fillBucket(bucket, [{ key: keyOf(own), size: 1, lastModified: '2026-03-02T09:30:00.000Z' }])
      const hops = await hopsOf(company, 'DELETE', queryOf(company))
      expect(hops.map(({ name, depth }) => `${depth} ${name}`).sort()).toEqual([
        '2 DB.batch',
        '2 FILES.head',
        '3 DB.batch',
        '4 FILES.delete',
      ])
      const ofOwn = await hopsOf(own, 'DELETE', queryOf(own))
      expect(ofOwn.map(({ name, depth }) => `${depth} ${name}`).sort()).toEqual([
        '2 DB.batch',
        '2 fetch',
        '3 DB.batch',
        '4 fetch',
      ])
    })
  })
})
