import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { eachValue, expect200, issuesOf, request, send, sql } from '../../support/app.ts'
import { moveTime } from '../../support/time.ts'
import {
  folderOf,
  giveStorage,
  listFiles,
  mintCompanyWithOrder,
  mintOrder,
  pathsOf,
  WITHOUT_STORAGE,
} from './support.ts'

const valid = { fileName: 'logo.png', contentType: 'image/png', size: 3, legacyThreadId: '18c2f0a9' }

const company = await mintCompanyWithOrder()
const path = `/orders/${company.orderId}/files`

const presign = (body: object, headers = {}) => company.call('POST', `${path}/presign`, body, headers)
const FOLDER = `${folderOf(company)}email/18c2f0a9/`

describe('POST /orders/{orderId}/files/presign', () => {
  it('returns URL, key, type and seconds', async () => {
    const body = expect200(await presign(valid))
    const key = `${FOLDER}logo.png`
    expect(body).toEqual({ uploadUrl: expect.any(String), key, contentType: 'image/png', expiresIn: 600 })
    const url = new URL(body.uploadUrl)
    expect(url.pathname).toBe(`/uploads/${env.STORAGE_BUCKET}/${key}`)
    expect(url.searchParams.get('X-Amz-Expires')).toBe('600')
    expect(url.searchParams.get('X-Amz-SignedHeaders')).toBe('content-length;content-type;host')
  })

  it('takes a file without a mail thread and a type', async () => {
    const { body } = await presign({ fileName: 'logo.png', size: 3 })
    const key = `${folderOf(company)}files/logo.png`
    expect(body).toMatchObject({ key, contentType: 'application/octet-stream' })
  })

  it('returns a URL of the deployment’s storage outside of development', async () => {
    const bindings = { ...env, STORAGE_RELAY: '', STORAGE_ENDPOINT: 'https://storage.example/' }
    const { body } = await send(request(company.token, 'POST', `${path}/presign`, valid), { env: bindings })
    expect(body.uploadUrl).toMatch(/^https:\/\/storage\.example\/[\w-]+\/orders\//)
    expect(body.uploadUrl).toContain('%2Fauto%2Fs3%2F')
  })

  it('signs a new URL for each request, with the same Idempotency-Key too', async () => {
    const key = { 'idempotency-key': 'presign' }
    const first = await presign(valid, key)
    // After the first URL has expired.
    moveTime(601_000)
    for (const again of [await presign(valid, key), await presign({ ...valid, size: 4 }, key)]) {
      expect([again.status, again.headers.has('idempotency-replayed')]).toEqual([200, false])
      expect(again.body.uploadUrl).not.toBe(first.body.uploadUrl)
    }
    expect(await sql('SELECT key FROM idempotency_keys WHERE company_id = ?', company.id)).toEqual([])
  })

  it.each([
    ['../../../2/3/email/x/a.png', 'a.png'],
    ['C:\\Users\\a b.png', 'a b.png'],
    ['/etc/%2e%2e', '%2e%2e'],
    ['cafe\u0301\u0000.png', 'caf\u00e9.png'],
  ])('stores the file %j as %j below the thread', async (fileName, name) => {
    const { body } = await presign({ ...valid, fileName })
    expect(body.key).toBe(FOLDER + name)
    const address = new URL(body.uploadUrl)
    expect(decodeURIComponent(address.pathname)).toBe(`/uploads/${env.STORAGE_BUCKET}/${FOLDER}${name}`)
  })

  it.each([0, 1, 157_286_400])('accepts a size of %d', async (size) => {
    expect((await presign({ ...valid, size })).status).toBe(200)
  })

  const TYPES = ['text/plain; charset=utf-8', 'image/svg+xml', 'application/vnd.x-y.z_1; name="a b.png"', 'x/y;']
  it.each([...TYPES, 'Image/PNG'])('accepts the type %j', async (contentType) => {
    expect((await presign({ ...valid, contentType })).body.contentType).toBe(contentType)
  })

  const INVALID: [field: string, ...values: unknown[]][] = [
    ['fileName', undefined, null, 7, '', 'folder/', '\ud800.png', `${'x/'.repeat(3000)}a`],
    ['size', undefined, null, '3', -1, 0.5, 157_286_401, 1e300],
    ['contentType', null, '', 'image', 'image/', '*/*', ' image/png', 'image/png\n', 'image/png\r\nX-Evil: 1'],
    ['contentType', 'text/plain; a=\u0000', 'text/plain; name=\u00e9'],
    ['contentType', `image/${'x'.repeat(300)}`, `text/plain; ${'x'.repeat(300)}`],
    ['legacyThreadId', null, '', '..', 'a/b', 'a\\b', 'a%2Fb', 'a\n', 'x'.repeat(256)],
    ['company_id', 2],
    ['contenttype', 'image/png'],
  ]
  it.each(eachValue(INVALID))('refuses %s %j and names the field', async (field, value) => {
    expect(new Set(issuesOf(await presign({ ...valid, [field]: value })))).toEqual(new Set([field]))
  })

  it('names all invalid fields at once', async () => {
    const wrong = { fileName: '..', size: -1, contentType: '\n', legacyThreadId: '/' }
    expect(new Set(issuesOf(await presign(wrong)))).toEqual(new Set(Object.keys(wrong)))
  })

  it('returns 409 where no storage is configured', async () => {
    const sent = request(company.token, 'POST', `${path}/presign`, valid)
    const { status, body } = await send(sent, { env: WITHOUT_STORAGE })
    expect([status, body.error.details]).toMatchObject([409, { reason: 'storage_not_configured' }])
  })

  it('signs for the company’s own storage without disclosing its secret', async () => {
    const own = await mintCompanyWithOrder()
    const bucket = await giveStorage(own)
    const { body } = await own.call('POST', `/orders/${own.orderId}/files/presign`, valid)
    expect(body.uploadUrl).toContain(`/t/${bucket}/${bucket}/${folderOf(own)}email/18c2f0a9/logo.png?`)
    expect(body.uploadUrl).toContain('X-Amz-Credential=simulated%2F')
    expect(decodeURIComponent(JSON.stringify(body))).not.toContain('simulated/secret')
  })
})

describe.each(['POST', 'GET'])('%s files', (method) => {
  const target = (order: unknown) => (method === 'POST' ? `/orders/${order}/files/presign` : `/orders/${order}/files`)
  const body = method === 'POST' ? valid : undefined

  it.each('0 -1 1.5 abc 01 9007199254740993 999999'.split(' '))('returns 404 for the order id %s', async (order) => {
    expect((await company.call(method, target(order), body)).status).toBe(404)
  })

  it('returns 404 for a deleted order', async () => {
    const id = await mintOrder(company)
    await company.call('DELETE', `/orders/${id}`)
    expect((await company.call(method, target(id), body)).status).toBe(404)
  })
})

describe('GET /orders/{orderId}/files', () => {
  it('lists files of several storage pages, and those of one thread', async () => {
    const own = await mintCompanyWithOrder()
    const keys = Array.from({ length: 5 }, (_, n) => `${folderOf(own)}email/${n % 2 ? 'tt' : 't'}/${n}`)
    for (const key of keys) await env.FILES.put(key, 'abc')
    // R2 lists 1,000 objects at a time, here 2.
    const list: R2Bucket['list'] = (options) => env.FILES.list({ ...options, limit: 2 })
    const bindings = { ...env, FILES: { list } as R2Bucket }
    const read = (query: string) =>
      send(request(own.token, 'GET', `/orders/${own.orderId}/files${query}`), { env: bindings })
    const all = await read('')
    expect(all.body.configured).toBe(true)
    expect(pathsOf(all)).toEqual(keys.toSorted())
    expect((await read('?legacyThreadId=t')).body.files).toHaveLength(3)
  })

  it('returns path, name, length, time and source of a file', async () => {
    const own = await mintCompanyWithOrder()
    const before = Date.now() - 1_000
    const [mailed, uploaded] = [`${folderOf(own)}email/t/a b.png`, `${folderOf(own)}files/proof.pdf`]
    await env.FILES.put(mailed, 'abc')
    await env.FILES.put(uploaded, '')
    const { body } = await listFiles(own)
    const lastChanged = expect.any(String)
    expect(body.files).toEqual([
      { path: mailed, objectName: 'a b.png', length: 3, lastChanged, source: 'email' },
      { path: uploaded, objectName: 'proof.pdf', length: 0, lastChanged, source: 'manual' },
    ])
    expect(Date.parse(body.files[0].lastChanged)).toBeGreaterThan(before)
  })

  it('is empty with `configured` false where no storage is configured', async () => {
    const body = expect200(await send(request(company.token, 'GET', path), { env: WITHOUT_STORAGE }))
    expect(body).toEqual({ files: [], configured: false, truncated: false })
  })

  it.each(['', '..', 'a/b', '%0A', 'x'.repeat(256)])('refuses the thread id %j', async (id) => {
    expect(issuesOf(await listFiles(company, `?legacyThreadId=${id}`))[0]).toBe('legacyThreadId')
  })
})

describe('the development relay', () => {
  it('does not exist without its variable', async () => {
    for (const value of ['', 'true', undefined]) {
      const { STORAGE_RELAY, ...bindings } = env
      const sent = new Request('https://api.test/uploads/b/k?X-Amz-Signature=0', { method: 'PUT', body: 'x' })
      const { status, body } = await send(sent, {
        env: value === undefined ? bindings : { ...bindings, STORAGE_RELAY: value },
      })
      expect(status).toBe(404)
      expect(body.error.code).toBe('not_found')
    }
  })

  it('refuses unsigned headers of S3, by which an upload could copy another company’s file', async () => {
    const url = 'https://api.test/uploads/b/k?X-Amz-Signature=0'
    const headers = { 'X-Amz-Copy-Source': '/b/orders/2/1/files/logo.png' }
    const sent = new Request(url, { method: 'PUT', headers, body: 'x' })
    expect((await send(sent, { env: { ...env, STORAGE_RELAY: 'development' } })).status).toBe(403)
  })

  it.each(['POST', 'DELETE', 'PATCH'])('does not accept %s', async (method) => {
    const sent = new Request('https://api.test/uploads/b/k', { method })
    expect((await send(sent, { env })).status).toBe(404)
  })
})
