import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { request } from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { type CompanyWithOrder, fillBucket, folderOf, giveStorage, mintCompanyWithOrder } from './support.ts'

let company: CompanyWithOrder
let own: CompanyWithOrder
let bucket: string

beforeEach(async () => {
  company = await mintCompanyWithOrder({ home: 'DB' })
  // Waits are named by the binding.
  own = await mintCompanyWithOrder({ home: 'DB' })
  bucket = await giveStorage(own)
})

/** Those behind the call of the token's object, each with its depth. */
async function hopsOf(of: CompanyWithOrder, method: string, path: string, body?: unknown): Promise<string[]> {
  const { response, hops } = await measureHops(request(of.token, method, `/orders/${of.orderId}/files${path}`, body))
  expect(response.status).toBe(200)
  const behind = hops.filter(({ name }) => !name.startsWith('RATE_LIMITER.'))
  return behind.map(({ name, depth }) => `${depth} ${name}`).sort()
}

const upload = { fileName: 'x', size: 1, legacyThreadId: 't' }

describe('network waits', () => {
  it('a presigned upload waits for the database only, with either storage', async () => {
    expect(await hopsOf(company, 'POST', '/presign', upload)).toEqual(['2 DB.batch'])
    expect(await hopsOf(own, 'POST', '/presign', upload)).toEqual(['2 DB.batch'])
  })

  it('a listing calls the storage in parallel with the check of the order', async () => {
    expect(await hopsOf(company, 'GET', '')).toEqual(['2 DB.batch', '2 FILES.list'])
  })

  it('a listing of a company’s own storage does so from the second one on', async () => {
    expect(await hopsOf(own, 'GET', '')).toEqual(['2 DB.batch', '2 FILES.list', '3 fetch'])
    expect(await hopsOf(own, 'GET', '')).toEqual(['2 DB.batch', '2 fetch'])
  })

  describe('for one file', () => {
    const keyOf = (of: CompanyWithOrder) => `${folderOf(of)}x`
    const queryOf = (of: CompanyWithOrder) => `?path=${encodeURIComponent(keyOf(of))}`

    // Once listed, its own storage is known to the isolate; a file is in each.
    beforeEach(async () => {
      await hopsOf(own, 'GET', '')
      await env.FILES.put(keyOf(company), 'x')
      await fillBucket(bucket, [keyOf(own)])
    })

    it('a presigned download looks for it in parallel with the check of the order', async () => {
      expect(await hopsOf(company, 'GET', `/download${queryOf(company)}`)).toEqual(['2 DB.batch', '2 FILES.head'])
      expect(await hopsOf(own, 'GET', `/download${queryOf(own)}`)).toEqual(['2 DB.batch', '2 fetch'])
    })

    it('a deletion does so, records it and then deletes it', async () => {
      const deletion = ['2 DB.batch', '2 FILES.head', '3 DB.batch', '4 FILES.delete']
      expect(await hopsOf(company, 'DELETE', queryOf(company))).toEqual(deletion)
      expect(await hopsOf(own, 'DELETE', queryOf(own))).toEqual(['2 DB.batch', '2 fetch', '3 DB.batch', '4 fetch'])
    })
  })
})
