import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { ADMIT, hopsOf } from '../../support/hops.ts'
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

const waitsOf = (of: CompanyWithOrder, method: string, path: string, body?: unknown) =>
  hopsOf(of.token, method, `/orders/${of.orderId}/files${path}`, body)

const READ = [200, ADMIT, '2 DB.batch']
const upload = { fileName: 'x', size: 1, legacyThreadId: 't' }

it('network waits a presigned upload waits for the database only, with either storage', async () => {
  expect(await waitsOf(company, 'POST', '/presign', upload)).toEqual(READ)
  expect(await waitsOf(own, 'POST', '/presign', upload)).toEqual(READ)
})

it('network waits a listing of a company’s own storage does so from the second one on', async () => {
  expect(await waitsOf(own, 'GET', '')).toEqual([...READ, '2 FILES.list', '3 fetch'])
  expect(await waitsOf(own, 'GET', '')).toEqual([...READ, '2 fetch'])
})

describe('for one file', () => {
  const keyOf = (of: CompanyWithOrder) => `${folderOf(of)}x`
  const queryOf = (of: CompanyWithOrder) => `?path=${encodeURIComponent(keyOf(of))}`

  // Once listed, its own storage is known to the isolate; a file is in each.
  beforeEach(async () => {
    await waitsOf(own, 'GET', '')
    await env.FILES.put(keyOf(company), 'x')
    await fillBucket(bucket, [keyOf(own)])
  })

  it('a presigned download looks for it in parallel with the check of the order', async () => {
    expect(await waitsOf(company, 'GET', `/download${queryOf(company)}`)).toEqual([...READ, '2 FILES.head'])
    expect(await waitsOf(own, 'GET', `/download${queryOf(own)}`)).toEqual([...READ, '2 fetch'])
  })

  it('a deletion does so, records it and then deletes it', async () => {
    const deletion = [...READ, '2 FILES.head', '3 DB.batch', '4 FILES.delete']
    expect(await waitsOf(company, 'DELETE', queryOf(company))).toEqual(deletion)
    expect(await waitsOf(own, 'DELETE', queryOf(own))).toEqual([...READ, '2 fetch', '3 DB.batch', '4 fetch'])
  })
})
