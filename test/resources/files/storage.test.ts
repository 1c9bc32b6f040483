import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { look, spoil } from '../../../src/simulators/steer.ts'
import { request, send, sql } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { fillBucket, giveStorage, mintCompanyWithOrder, scopeUrl } from './support.ts'

const LAST_MODIFIED = '2026-03-02T09:30:00.000Z'

const company = await mintCompanyWithOrder()
const bucket = await giveStorage(company)
const prefix = `orders/${company.id}/${company.orderId}/`

function list(of = company, query = '') {
  return of.call('GET', `/orders/${of.orderId}/files${query}`)
}

const object = (key: string) => ({ key, size: 3, lastModified: LAST_MODIFIED })

describe('a company’s own storage', () => {
  it('is listed in pages of 1,000 by signed requests', async () => {
    const keys = Array.from({ length: 2_500 }, (_, n) => `${prefix}email/t/${String(n).padStart(4, '0')}`)
    await fillBucket(bucket, [...keys.map(object), object('orders/0/x'), object(`${prefix.slice(0, -1)}2/x`)])
    const { status, body } = await list()
    expect(status).toBe(200)
    expect(body.configured).toBe(true)
    expect(body.files.map((file: { path: string }) => file.path)).toEqual(keys)
    expect(body.files[0]).toEqual({
      path: keys[0],
      objectName: '0000',
      length: 3,
      lastChanged: LAST_MODIFIED,
      source: 'email',
    })
  })

  it.each([true, false])('lists keys with special characters (spaces as plus signs: %s)', async (formEncoding) => {
    const names = ['a b', 'a+b', 'a%2Bb', "(x)!*'", 'caf\u00e9', '\ud83d\udc55', '&<>"', '#?;=', '%', '~']
    const keys = names.map((name) => `${prefix}email/t+1:=/${name}`)
    await fillBucket(bucket, keys.map(object), { formEncoding })
    const { body } = await list(company, '?legacyThreadId=t%2B1:=')
    expect(body.files.map((file: { path: string }) => file.path).sort()).toEqual(keys.toSorted())
  })

  it('is used from the moment it is enabled until it is disabled', async () => {
    const own = await mintCompanyWithOrder()
    const key = `orders/${own.id}/${own.orderId}/x`
    await env.FILES.put(key, 'of the deployment')
    expect((await list(own)).body.files[0].length).toBe(17)
    const itsBucket = await giveStorage(own)
    await fillBucket(itsBucket, [object(key)])
    expect((await list(own)).body.files[0].length).toBe(3)
    expect((await list(own)).body.files[0].length).toBe(3)
    await giveStorage(own, { enabled: false })
    expect((await list(own)).body.files[0].length).toBe(17)
  })

  it('serves a company where the deployment has no storage', async () => {
    await fillBucket(bucket, [object(`${prefix}x`)])
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
    ['a missing bucket', { status: 404, body: '<Error><Code>NoSuchBucket</Code></Error>' }],
    [
      'objects outside of the prefix',
      {
        body: `<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>orders/0/0/x</Key><Size>1</Size><LastModified>${LAST_MODIFIED}</LastModified></Contents></ListBucketResult>`,
      },
    ],
    [
      'a cursor that never changes',
      {
        times: -1,
        body: '<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>1</NextContinuationToken></ListBucketResult>',
      },
    ],
  ])('returns 502 for %s', async (_, fault) => {
    await fillBucket(bucket, [object(`${prefix}x`)])
    await spoil(scopeUrl(bucket), { match: '^GET', ...fault })
    const { status, body } = await list()
    await spoil(scopeUrl(bucket))
    expect(status).toBe(502)
    expect(body.error).toMatchObject({ code: 'internal_error', details: { reason: 'supplier_unavailable' } })
  })

  it('returns 502 when the second page fails', async () => {
    await fillBucket(
      bucket,
      Array.from({ length: 1_500 }, (_, n) => object(`${prefix}${n}`)),
    )
    await spoil(scopeUrl(bucket), { match: 'continuation-token', status: 503 })
    expect((await list()).status).toBe(502)
  })

  it('returns 409 with its own reason, and no part of the keys, when they cannot be decrypted or are not complete', async () => {
    const own = await mintCompanyWithOrder()
    await giveStorage(own)
    await sql('UPDATE integrations SET credentials = ? WHERE company_id = ?', 'v1.00000000.AAAA', own.id)
    const presign = { fileName: 'x', size: 1, legacyThreadId: 't' }
    const refused = [await list(own), await own.call('POST', `/orders/${own.orderId}/files/presign`, presign)]
    const incomplete = await mintCompanyWithOrder()
    await giveStorage(incomplete, { credentials: { secret_access_key: '' } })
    for (const { status, body, headers } of [...refused, await list(incomplete)]) {
      expect([status, body.error.details]).toMatchObject([409, { reason: 'credentials_unreadable' }])
      expect(body.error.message).not.toContain('v1')
      const logged = linesOf(headers.get('x-request-id')).map(({ event }) => event)
      expect(logged).toContain('credentials_unreadable')
    }
  })

  it('gets at most the request of the first page for an order that does not exist', async () => {
    await fillBucket(bucket, [])
    const before = await callCount()
    expect((await company.call('GET', '/orders/999999/files')).status).toBe(404)
    expect((await callCount()) - before).toBeLessThanOrEqual(1)
  })
})

async function callCount(): Promise<number> {
  return (await look(scopeUrl(bucket))).calls.length
}
