import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { migrate, request } from '../../support/app.ts'
import { type Hop, measureHops } from '../../support/hops.ts'
import { type CompanyWithOrder, fillBucket, giveStorage, mintCompanyWithOrder } from './support.ts'

let company: CompanyWithOrder
let own: CompanyWithOrder
let bucket: string

beforeAll(migrate)

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

  it('a listing waits for the database, then for the storage', async () => {
    for (const [of, call] of [
      [company, 'FILES.list'],
      [own, 'fetch'],
    ] as const) {
      const hops = await hopsOf(of, 'GET', '')
      expect(names(hops)).toEqual(['DB.batch', call])
      expect(depth(hops)).toBe(2)
    }
  })

  describe('for one file', () => {
    const keyOf = ({ id, orderId }: CompanyWithOrder) => `orders/${id}/${orderId}/x`
    const queryOf = (of: CompanyWithOrder) => `?path=${encodeURIComponent(keyOf(of))}`

    it('a presigned download looks for it after the check of the order', async () => {
      await env.FILES.put(keyOf(company), 'x')
      const hops = await hopsOf(company, 'GET', `/download${queryOf(company)}`)
      expect(names(hops)).toEqual(['DB.batch', 'FILES.head'])
      expect(depth(hops)).toBe(2)
      await fillBucket(bucket, [{ key: keyOf(own), size: 1, lastModified: '2026-03-02T09:30:00.000Z' }])
      const ofOwn = await hopsOf(own, 'GET', `/download${queryOf(own)}`)
      expect(names(ofOwn)).toEqual(['DB.batch', 'fetch'])
      expect(depth(ofOwn)).toBe(2)
    })

    it('a deletion does so, records it and then deletes the file', async () => {
      await env.FILES.put(keyOf(company), 'x')
      await fillBucket(bucket, [{ key: keyOf(own), size: 1, lastModified: '2026-03-02T09:30:00.000Z' }])
      const hops = await hopsOf(company, 'DELETE', queryOf(company))
      expect(hops.map(({ name, depth }) => `${depth} ${name}`).sort()).toEqual([
        '2 DB.batch',
        '3 FILES.head',
        '4 DB.batch',
        '5 FILES.delete',
      ])
      const ofOwn = await hopsOf(own, 'DELETE', queryOf(own))
      expect(ofOwn.map(({ name, depth }) => `${depth} ${name}`).sort()).toEqual([
        '2 DB.batch',
        '3 fetch',
        '4 DB.batch',
        '5 fetch',
      ])
    })
  })
})
