import { env } from 'cloudflare:workers'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { RequestContext } from '../../src/context.ts'
import { listOrderFiles } from '../../src/files/listing.ts'
import type { FilePage } from '../../src/files/s3.ts'
import type { FileStorage } from '../../src/files/storage.ts'
import { BUDGET_MS } from '../../src/http/deadline.ts'
import { look, spoil } from '../../src/simulators/steer.ts'
import { drive } from '../faults/run.ts'
import { migrate, request, send } from '../support/app.ts'
import { linesOf } from '../support/log.ts'
import { type CompanyWithOrder, fillBucket, giveStorage, mintCompanyWithOrder, scopeUrl } from './support.ts'

let company: CompanyWithOrder
let bucket: string

beforeAll(async () => {
  await migrate()
  company = await mintCompanyWithOrder()
  bucket = await giveStorage(company)
})
afterEach(() => {
  vi.useRealTimers()
})

const list = (of = company) => of.call('GET', `/orders/${of.orderId}/files`)

async function fill(count: number, settings = {}): Promise<void> {
  const prefix = `orders/${company.id}/${company.orderId}/`
  const objects = Array.from({ length: count }, (_, n) => ({
    key: prefix + String(n).padStart(5, '0'),
    size: 1,
    lastModified: '2026-03-02T09:30:00.000Z',
  }))
  await fillBucket(bucket, objects, settings)
}

const callCount = async () => (await look(scopeUrl(bucket))).calls.length

describe('a listing', () => {
  it.each([
    [9_999, false],
    [10_000, false],
    [10_001, true],
    [12_345, true],
  ])('of %i files has `truncated` %s', async (count, truncated) => {
    await fill(count)
    const { status, body } = await list()
    expect(status).toBe(200)
    expect(body.files).toHaveLength(Math.min(count, 10_000))
    expect(body.files.at(-1).objectName).toBe(String(Math.min(count, 10_000) - 1).padStart(5, '0'))
    expect(body).toMatchObject({ configured: true, truncated })
  })

  it('returns 502 after a first page of over 1,000 keys', async () => {
    await fill(2_500, { pageSize: 1_001 })
    const before = await callCount()
    const { status, body } = await list()
    expect(status).toBe(502)
    expect(body.error.details).toEqual({ reason: 'supplier_unavailable' })
    expect((await callCount()) - before).toBe(1)
  })

  it('returns 502 for a page of 20,000 keys', async () => {
    await fill(40_000, { pageSize: 20_000 })
    expect((await list()).status).toBe(502)
  })

  it('ends after 40 small pages and is truncated', async () => {
    await fill(500, { pageSize: 10 })
    const before = await callCount()
    const { body } = await list()
    expect(body.files).toHaveLength(400)
    expect(body.truncated).toBe(true)
    expect((await callCount()) - before).toBe(40)
  })

  it('of the deployment’s storage ends at 10,000 files as well', async () => {
    const own = await mintCompanyWithOrder()
    const key = `orders/${own.id}/${own.orderId}/x`
    const objects = Array.from({ length: 1_000 }, () => ({ key, size: 1, uploaded: new Date(0) }))
    let pages = 0
    const FILES = { list: async () => ({ objects, truncated: true, cursor: String(++pages) }) }
    const sent = request(own.token, 'GET', `/orders/${own.orderId}/files`)
    const { body } = await send(sent, { env: { ...env, FILES: FILES as unknown as R2Bucket } })
    expect(body.files).toHaveLength(10_000)
    expect(body.truncated).toBe(true)
    expect(pages).toBe(10)
  })
})

describe('the deadline of a listing', () => {
  const waitFor = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

  /** A listing whose pages take as long as given, one file each. */
  async function listSlowly(pageMs: number[], wait: (ms: number) => Promise<void> = waitFor) {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
    const startedAt = Date.now()
    const pages = pageMs.map((ms, n): [number, FilePage] => [
      ms,
      { files: [{ key: `orders/1/1/${n}`, sizeBytes: 1, changedAt: 0 }], cursor: String(n) },
    ])
    const storage: Pick<FileStorage, 'list'> = {
      list: async () => {
        const [ms, page] = pages.shift() ?? [0, { files: [], cursor: null }]
        await wait(ms)
        return page
      },
    }
    const db = { read: async () => [[{ id: 1 }], []] }
    const context = {
      requestId: 'r',
      companyId: 900_001,
      db,
      deploymentStorage: () => storage,
    } as unknown as RequestContext
    const listing = await drive(listOrderFiles(context, 1, undefined))
    return { names: listing?.files.map(({ key }) => key), truncated: listing?.truncated, ms: Date.now() - startedAt }
  }

  it('returns the complete pages when it passes during a page', async () => {
    const outcome = await listSlowly([9_000, 9_000, 9_000, 9_000])
    expect(outcome).toEqual({ names: ['orders/1/1/0', 'orders/1/1/1'], truncated: true, ms: BUDGET_MS.listing })
  })

  it('returns the complete pages when it passes between two pages', async () => {
    const outcome = await listSlowly([9_000, 9_000, 9_000, 9_000], async (ms) => {
      vi.setSystemTime(Date.now() + ms)
    })
    expect(outcome.names).toHaveLength(3)
    expect(outcome.truncated).toBe(true)
  })
})

describe('the error code of a storage', () => {
  it.each([
    [404, 'NoSuchBucket', 'supplier_unavailable'],
    [400, 'AuthorizationQueryParametersError', 'supplier_unavailable'],
    [403, 'InvalidAccessKeyId', 'supplier_rejected_credentials'],
    [403, 'SignatureDoesNotMatch', 'supplier_rejected_credentials'],
    [503, 'SlowDown', 'supplier_unavailable'],
  ])('with status %i, %s, is in the details and in the log', async (status, code, reason) => {
    await spoil(scopeUrl(bucket), {
      status,
      body: `<?xml version="1.0"?><Error><Code>${code}</Code><Key>k</Key></Error>`,
    })
    const { status: sent, body, headers } = await list()
    expect(sent).toBe(502)
    expect(body.error.details).toEqual({ reason, storage_code: code })
    expect(linesOf(headers.get('x-request-id')).filter(({ event }) => event === 'storage_failed')).toEqual([
      {
        event: 'storage_failed',
        request_id: headers.get('x-request-id'),
        company_id: company.id,
        problem: 'refused',
        status,
        code,
      },
    ])
  })

  it.each([
    ['markup', '<Error><Code><b>NoSuchBucket</b></Code></Error>'],
    ['a sentence', '<Error><Code>the secret is s3cret</Code></Error>'],
    ['too long', `<Error><Code>${'A'.repeat(65)}</Code></Error>`],
    ['empty', '<Error><Code/></Error>'],
    ['in the HTML page of a proxy', '<html><Code>NoSuchBucket</Code></html>'],
    ['plain text', 'NoSuchBucket'],
    ['in a body that is too large', `<Error>${' '.repeat(70_000)}<Code>NoSuchBucket</Code></Error>`],
  ])('is omitted when it is %s', async (_, body) => {
    await spoil(scopeUrl(bucket), { status: 404, body })
    expect((await list()).body.error.details).toEqual({ reason: 'supplier_unavailable' })
  })

  it.each([
    ['the region auto', { settings: { region: 'auto' } }, 'AuthorizationHeaderMalformed'],
    ['another region', { settings: { region: 'test-2' } }, 'AuthorizationHeaderMalformed'],
    ['another bucket', { settings: { bucket: 'missing' } }, 'NoSuchBucket'],
    ['an unknown key', { credentials: { access_key_id: 'nobody' } }, 'InvalidAccessKeyId'],
    ['a wrong secret', { credentials: { secret_access_key: 'wrong' } }, 'SignatureDoesNotMatch'],
  ])('is returned for %s', async (_, options, code) => {
    const own = await mintCompanyWithOrder()
    await giveStorage(own, options)
    const { status, body } = await list(own)
    expect(status).toBe(502)
    expect(body.error.details.storage_code).toBe(code)
  })
})
