import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { expect200, request, send, sql } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import {
  callCount,
  fillBucket,
  folderOf,
  giveStorage,
  LAST_MODIFIED,
  listFiles,
  mintCompanyWithOrder,
  pathsOf,
  setFaults,
} from './support.ts'

const company = await mintCompanyWithOrder()
const bucket = await giveStorage(company)
const prefix = folderOf(company)

const listWith = (content: string) => `<ListBucketResult>${content}</ListBucketResult>`
const OBJECT = `<Key>orders/0/0/x</Key><Size>1</Size><LastModified>${LAST_MODIFIED}</LastModified>`
const FOREIGN = `<Contents>${OBJECT}</Contents>`
const SAME_CURSOR = '<IsTruncated>true</IsTruncated><NextContinuationToken>1</NextContinuationToken>'

describe('a company’s own storage', () => {
  it('is listed in pages of 1,000 by signed requests', async () => {
    const keys = Array.from({ length: 2_500 }, (_, n) => `${prefix}email/t/${String(n).padStart(4, '0')}`)
    await fillBucket(bucket, [...keys, 'orders/0/x', `${prefix.slice(0, -1)}2/x`])
    const response = await listFiles(company)
    expect([response.status, response.body.configured]).toEqual([200, true])
    expect(pathsOf(response)).toEqual(keys)
    const [path] = keys
    const file = { path, objectName: '0000', length: 3, lastChanged: LAST_MODIFIED, source: 'email' }
    expect(response.body.files[0]).toEqual(file)
  })

  it.each([true, false])('lists keys with special characters (spaces as plus signs: %s)', async (formEncoding) => {
    const names = ['a b', 'a+b', 'a%2Bb', "(x)!*'", 'caf\u00e9', '\ud83d\udc55', '&<>"', '#?;=', '%', '~']
    const keys = names.map((name) => `${prefix}email/t+1:=/${name}`)
    await fillBucket(bucket, keys, { formEncoding })
    expect(pathsOf(await listFiles(company, '?legacyThreadId=t%2B1:=')).sort()).toEqual(keys.toSorted())
  })

  it('is used from the moment it is enabled until it is disabled', async () => {
    const own = await mintCompanyWithOrder()
    const key = `${folderOf(own)}x`
    await env.FILES.put(key, 'of the deployment')
    const lengthOf = async () => (await listFiles(own)).body.files[0].length
    expect(await lengthOf()).toBe(17)
    await fillBucket(await giveStorage(own), [key])
    expect([await lengthOf(), await lengthOf()]).toEqual([3, 3])
    await giveStorage(own, { enabled: false })
    expect(await lengthOf()).toBe(17)
  })

  it('serves a company where the deployment has no storage', async () => {
    await fillBucket(bucket, [`${prefix}x`])
    const sent = request(company.token, 'GET', `/orders/${company.orderId}/files`)
    const { body } = await send(sent, { env: { ...env, STORAGE_RELAY: '' } })
    expect(body).toMatchObject({ configured: true, files: [{ objectName: 'x' }] })
  })

  it.each([
    ['an error', { status: 500 }],
    ['an error of a proxy', { status: 502, body: '<html>' }],
    ['no response', { destroy: true }],
    ['a truncated response', { cutAfterBytes: 300 }],
    ['an HTML page', { body: '<html><body/></html>' }],
    ['a redirect', { status: 302, headers: { location: 'https://elsewhere.test/' } }],
    ['an error of the second page', { match: 'continuation-token', status: 503 }],
    ['a missing bucket', { status: 404, body: '<Error><Code>NoSuchBucket</Code></Error>' }],
    ['objects outside of the prefix', { body: listWith(`<IsTruncated>false</IsTruncated>${FOREIGN}`) }],
    ['a cursor that never changes', { times: -1, body: listWith(SAME_CURSOR) }],
  ])('returns 502 for %s', async (_, fault) => {
    await fillBucket(bucket, [`${prefix}x`, `${prefix}y`], { pageSize: 1 })
    await setFaults(bucket, { match: '^GET', ...fault })
    const { status, body } = await listFiles(company)
    await setFaults(bucket)
    expect(status).toBe(502)
    expect(body.error).toMatchObject({ code: 'internal_error', details: { reason: 'supplier_unavailable' } })
  })

  it('returns 409 with its own reason, and no part of the keys, when they cannot be decrypted or are not complete', async () => {
    const own = await mintCompanyWithOrder()
    await giveStorage(own)
    await sql('UPDATE integrations SET credentials = ? WHERE company_id = ?', 'v1.00000000.AAAA', own.id)
    const presign = { fileName: 'x', size: 1, legacyThreadId: 't' }
    const refused = [await listFiles(own), await own.call('POST', `/orders/${own.orderId}/files/presign`, presign)]
    const incomplete = await mintCompanyWithOrder()
    await giveStorage(incomplete, { credentials: { secret_access_key: '' } })
    for (const { status, body, headers } of [...refused, await listFiles(incomplete)]) {
      expect([status, body.error.details]).toMatchObject([409, { reason: 'credentials_unreadable' }])
      expect(body.error.message).not.toContain('v1')
      const logged = linesOf(headers.get('x-request-id')).map(({ event }) => event)
      expect(logged).toContain('credentials_unreadable')
    }
  })

  it('gets at most the request of the first page for an order that does not exist', async () => {
    await fillBucket(bucket, [])
    const before = await callCount(bucket)
    expect((await company.call('GET', '/orders/999999/files')).status).toBe(404)
    expect((await callCount(bucket)) - before).toBeLessThanOrEqual(1)
  })
})

describe('a listing', () => {
  /** Puts so many files into the bucket. */
  async function fill(count: number, settings = {}): Promise<void> {
    const keys = Array.from({ length: count }, (_, n) => prefix + String(n).padStart(5, '0'))
    await fillBucket(bucket, keys, settings)
  }

  it.each([
    [10_000, false],
    [10_001, true],
  ])('of %i files has `truncated` %s', async (count, truncated) => {
    await fill(count)
    const body = expect200(await listFiles(company))
    expect(body.files).toHaveLength(Math.min(count, 10_000))
    expect(body.files.at(-1).objectName).toBe(String(Math.min(count, 10_000) - 1).padStart(5, '0'))
    expect(body).toMatchObject({ configured: true, truncated })
  })

  it('has only what can be downloaded and deleted: no marker of the folder, no key with dots as a segment', async () => {
    const keys = [prefix, `${prefix}a/../b`, `${prefix}email/`, `${prefix}x`]
    // Markers of folders are empty, and so may files be.
    await fillBucket(bucket, [], { objects: keys.map((key) => ({ key, size: 0, lastModified: LAST_MODIFIED })) })
    expect(pathsOf(await listFiles(company))).toEqual([`${prefix}email/`, `${prefix}x`])
  })

  it.each([1_001, 20_000])('returns 502 after a first page of %i keys', async (pageSize) => {
    await fill(2 * pageSize, { pageSize })
    const before = await callCount(bucket)
    const { status, body } = await listFiles(company)
    expect(status).toBe(502)
    expect(body.error.details).toMatchObject({ reason: 'supplier_unavailable' })
    expect((await callCount(bucket)) - before).toBe(1)
  })

  it('ends after 40 small pages and is truncated', async () => {
    await fill(500, { pageSize: 10 })
    const before = await callCount(bucket)
    const { body } = await listFiles(company)
    expect(body.files).toHaveLength(400)
    expect(body.truncated).toBe(true)
    expect((await callCount(bucket)) - before).toBe(40)
  })

  it('of the deployment’s storage ends at 10,000 files as well', async () => {
    const own = await mintCompanyWithOrder()
    const objects = Array.from({ length: 1_000 }, () => ({ key: `${folderOf(own)}x`, size: 1, uploaded: new Date(0) }))
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
    await setFaults(bucket, { status, body: `<?xml version="1.0"?><Error><Code>${code}</Code><Key>k</Key></Error>` })
    const { status: sent, body, headers } = await listFiles(company)
    expect(sent).toBe(502)
    expect(body.error.details).toMatchObject({ reason, storage_code: code })
    const request_id = headers.get('x-request-id')
    const line = { event: 'storage_failed', request_id, company_id: company.id, problem: 'refused', status, code }
    expect(linesOf(request_id).filter(({ event }) => event === 'storage_failed')).toEqual([line])
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
    await setFaults(bucket, { status: 404, body })
    const { details } = (await listFiles(company)).body.error
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
    const { status, body } = await listFiles(own)
    expect(status).toBe(502)
    expect(body.error.details.storage_code).toBe(code)
    expect(JSON.stringify(body)).not.toContain('wrong')
  })
})
