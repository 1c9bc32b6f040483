import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { look, spoil } from '../../../src/simulators/steer.ts'
import { request, send } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { fillBucket, giveStorage, mintCompanyWithOrder, scopeUrl } from './support.ts'

const company = await mintCompanyWithOrder()
const bucket = await giveStorage(company)

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
    [10_000, false],
    [10_001, true],
  ])('of %i files has `truncated` %s', async (count, truncated) => {
    await fill(count)
    const { status, body } = await list()
    expect(status).toBe(200)
    expect(body.files).toHaveLength(Math.min(count, 10_000))
    expect(body.files.at(-1).objectName).toBe(String(Math.min(count, 10_000) - 1).padStart(5, '0'))
    expect(body).toMatchObject({ configured: true, truncated })
  })

  it('has only what can be downloaded and deleted: no marker of the folder, no key with dots as a segment', async () => {
    const prefix = `orders/${company.id}/${company.orderId}/`
    const keys = [prefix, `${prefix}a/../b`, `${prefix}email/`, `${prefix}x`]
    await fillBucket(
      bucket,
      keys.map((key) => ({ key, size: 0, lastModified: '2026-03-02T09:30:00.000Z' })),
    )
    const { body } = await list()
    expect(body.files.map(({ path }: { path: string }) => path)).toEqual([`${prefix}email/`, `${prefix}x`])
  })

  it('returns 502 after a first page of over 1,000 keys', async () => {
    await fill(2_500, { pageSize: 1_001 })
    const before = await callCount()
    const { status, body } = await list()
    expect(status).toBe(502)
    expect(body.error.details).toMatchObject({ reason: 'supplier_unavailable' })
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
    expect(body.error.details).toMatchObject({ reason, storage_code: code })
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
    const { details } = (await list()).body.error
    expect(details).toEqual({ reason: 'supplier_unavailable', documentation_url: expect.any(String) })
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
    expect(JSON.stringify(body)).not.toContain('wrong')
  })
})
