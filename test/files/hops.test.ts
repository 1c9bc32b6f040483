import { beforeAll, describe, expect, it } from 'vitest'
import { migrate, request } from '../support/app.ts'
import { type Hop, measureHops } from '../support/hops.ts'
import { type CompanyWithOrder, giveStorage, mintCompanyWithOrder } from './support.ts'

let company: CompanyWithOrder
let own: CompanyWithOrder

beforeAll(async () => {
  await migrate()
  company = await mintCompanyWithOrder()
  own = await mintCompanyWithOrder()
  await giveStorage(own)
})

async function hopsOf(of: CompanyWithOrder, method: string, path: string, body?: unknown): Promise<Hop[]> {
  const { response, hops } = await measureHops(request(of.token, method, `/orders/${of.orderId}/files${path}`, body))
  expect(response.status).toBe(200)
  return hops.filter(({ name }) => name !== 'RATE_LIMITER.acquire')
}

const names = (hops: Hop[]) => hops.map(({ name }) => name).sort()
const depth = (hops: Hop[]) => Math.max(...hops.map((hop) => hop.depth))
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
})
