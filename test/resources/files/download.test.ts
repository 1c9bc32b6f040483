import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { look, spoil } from '../../../src/simulators/steer.ts'
import { request, send, sql } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { type Around, wrapBindings } from '../../support/wrap-bindings.ts'
import { type CompanyWithOrder, fillBucket, giveStorage, mintCompanyWithOrder, mintOrder, scopeUrl } from './support.ts'

const LAST_MODIFIED = '2026-03-02T09:30:00.000Z'
const NAMES = ['a b.png', 'plain.pdf', "(x)!*'", 'a+b%2B.txt', 'café 👕.png', 'quo"te\\.csv', '&?#=;.txt', '~']

const company = await mintCompanyWithOrder()
const own = await mintCompanyWithOrder()
const bucket = await giveStorage(own)

const folderOf = ({ id, orderId }: CompanyWithOrder) => `orders/${id}/${orderId}/`
const withoutStorage = { ...env, STORAGE_RELAY: '', STORAGE_ENDPOINT: '' }

function target(
  action: Action,
  { orderId }: { orderId: number | string },
  key: string,
): [method: string, path: string] {
  const query = `path=${encodeURIComponent(key)}`
  return action === 'download'
    ? ['GET', `/orders/${orderId}/files/download?${query}`]
    : ['DELETE', `/orders/${orderId}/files?${query}`]
}

type Action = 'download' | 'delete'
const ACTIONS: Action[] = ['download', 'delete']

const ask = (action: Action, of: CompanyWithOrder, key: string) => of.call(...target(action, of, key))

async function fill(...keys: string[]): Promise<void> {
  const objects = keys.map((key) => ({ key, size: 3, lastModified: LAST_MODIFIED, contentType: 'image/png' }))
  await fillBucket(bucket, objects)
}

async function pathsOf(of: CompanyWithOrder): Promise<string[]> {
  const { body } = await of.call('GET', `/orders/${of.orderId}/files`)
  return body.files.map(({ path }: { path: string }) => path)
}

/** How many deletions of the file the audit has. */
async function recordsOf(of: CompanyWithOrder, key: string): Promise<number> {
  const isDeletion = "company_id = ? AND action = 'file.delete' AND entity_id = ?"
  return (await sql(`SELECT id FROM audit_log WHERE ${isDeletion}`, of.id, key)).length
}

describe('a download from the deployment’s storage', () => {
  it('has a URL for ten minutes, and the file', async () => {
    const key = `${folderOf(company)}email/t/a b.png`
    await env.FILES.put(key, 'abc', { httpMetadata: { contentType: 'image/png' } })
    const { status, body } = await ask('download', company, key)
    expect(status).toBe(200)
    expect(body).toEqual({
      downloadUrl: expect.any(String),
      expiresIn: 600,
      contentType: 'image/png',
      path: key,
      objectName: 'a b.png',
      length: 3,
      lastChanged: expect.any(String),
      source: 'email',
    })
    const url = new URL(body.downloadUrl)
    expect(decodeURIComponent(url.pathname)).toBe(`/uploads/${env.STORAGE_BUCKET}/${key}`)
    expect(url.searchParams.get('X-Amz-Expires')).toBe('600')
    expect(url.searchParams.get('response-content-disposition')).toBe('attachment; filename="a b.png"')
    // Not every storage decodes a plus sign.
    expect(url.search).not.toContain('+')
  })

  it('goes to the storage itself outside of development', async () => {
    const key = `${folderOf(company)}x`
    await env.FILES.put(key, 'abc')
    const bindings = { ...env, STORAGE_RELAY: '', STORAGE_ENDPOINT: 'https://storage.example/' }
    const [method, path] = target('download', company, key)
    const { body } = await send(request(company.token, method, path), { env: bindings })
    expect(body.downloadUrl).toMatch(/^https:\/\/storage\.example\/[\w-]+\/orders\//)
    expect(body.contentType).toBe('application/octet-stream')
  })
})

describe('a download from the company’s own storage', () => {
  it.each(NAMES)('of the file %j gives its bytes under its name', async (name) => {
    const key = `${folderOf(own)}email/t+1:=/${name}`
    await fill(key)
    const { status, body } = await ask('download', own, key)
    expect(status).toBe(200)
    expect(body).toMatchObject({ path: key, objectName: name, length: 3, lastChanged: LAST_MODIFIED })
    const file = await fetch(body.downloadUrl)
    expect([file.status, await file.text()]).toEqual([200, 'xxx'])
    expect(file.headers.get('content-type')).toBe('image/png')
    const disposition = file.headers.get('content-disposition') ?? ''
    const [, encoded] = /filename\*=UTF-8''(.*)$/.exec(disposition) ?? []
    const [, plain] = /^attachment; filename="([^"\\]*)"/.exec(disposition) ?? []
    expect(encoded === undefined ? plain : decodeURIComponent(encoded)).toBe(name)
  })

  it('does not disclose the storage’s secret', async () => {
    const key = `${folderOf(own)}x`
    await fill(key)
    const { body } = await ask('download', own, key)
    expect(body.downloadUrl).toContain('X-Amz-Credential=simulated%2F')
    expect(decodeURIComponent(JSON.stringify(body))).not.toContain('simulated/secret')
  })

  const changes: [string, (url: URL) => unknown][] = [
    ['another signature', (url) => url.searchParams.set('X-Amz-Signature', '0'.repeat(64))],
    ['no signature', (url) => url.searchParams.delete('X-Amz-Signature')],
    ['another key', (url) => Object.assign(url, { pathname: `${url.pathname}2` })],
    ['a longer time', (url) => url.searchParams.set('X-Amz-Expires', '86400')],
    ['another name', (url) => url.searchParams.set('response-content-disposition', 'inline')],
    ['no name', (url) => url.searchParams.delete('response-content-disposition')],
  ]
  it.each(changes)('is refused by the storage with %s', async (_, change) => {
    const key = `${folderOf(own)}signed`
    await fill(key, `${key}2`)
    const url = new URL((await ask('download', own, key)).body.downloadUrl)
    change(url)
    expect((await fetch(url)).status).toBe(403)
  })

  it.each(['DELETE', 'HEAD'])('is refused by the storage as a %s', async (method) => {
    const key = `${folderOf(own)}signed`
    await fill(key)
    const { body } = await ask('download', own, key)
    expect((await fetch(body.downloadUrl, { method })).status).toBe(403)
    expect(await pathsOf(own)).toEqual([key])
  })
})

describe('a deletion', () => {
  it('removes the file from the deployment’s storage, once', async () => {
    const order = { ...company, orderId: await mintOrder(company) }
    const [key, other] = [`${folderOf(order)}email/t/a`, `${folderOf(order)}email/t/a2`]
    await env.FILES.put(key, 'abc')
    await env.FILES.put(other, 'abc')
    const { status, body } = await ask('delete', order, key)
    expect(status).toBe(200)
    expect(body.file).toEqual({
      path: key,
      objectName: 'a',
      length: 3,
      lastChanged: expect.any(String),
      source: 'email',
    })
    expect(await pathsOf(order)).toEqual([other])
    expect((await ask('delete', order, key)).status).toBe(404)
    expect((await ask('download', order, key)).status).toBe(404)
  })

  it.each(NAMES)('removes the file %j from the company’s own storage, and no other', async (name) => {
    const [key, other] = [`${folderOf(own)}${name}`, `${folderOf(own)}other`]
    await fill(key, other)
    expect((await ask('delete', own, key)).body.file).toMatchObject({ path: key, length: 3, source: 'manual' })
    expect(await pathsOf(own)).toEqual([other])
    expect((await ask('delete', own, key)).status).toBe(404)
  })

  it('with an Idempotency-Key gives its first response again, whatever has become of the file', async () => {
    const order = { ...company, orderId: await mintOrder(company) }
    const key = `${folderOf(order)}keyed`
    const path = target('delete', order, key)
    const headers = { 'idempotency-key': `delete-${key}` }
    await env.FILES.put(key, 'abc')
    const first = await company.call(...path, undefined, headers)
    expect([first.status, first.headers.get('idempotency-replayed')]).toEqual([200, null])
    const expectReplay = async () => {
      const again = await company.call(...path, undefined, headers)
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true'])
      expect(again.body).toEqual(first.body)
    }
    await expectReplay()
    await env.FILES.put(key, 'another file')
    await expectReplay()
    expect(await env.FILES.head(key)).not.toBeNull()
    const reused = await company.call(...target('delete', order, `${key}2`), undefined, headers)
    expect([reused.status, reused.body.error.details.reason]).toEqual([400, 'idempotency_key_reused'])
    await company.call('DELETE', `/orders/${order.orderId}`)
    await expectReplay()
  })

  it.each([true, false])('whose record the database refuses deletes nothing, with a key: %s', async (isKeyed) => {
    const order = { ...company, orderId: await mintOrder(company) }
    const key = `${folderOf(order)}refused`
    await env.FILES.put(key, 'abc')
    const headers = isKeyed ? { 'idempotency-key': key } : {}
    const sent = () => request(company.token, ...target('delete', order, key), undefined, headers)
    let isFound = false
    const overloaded = wrapBindings(env, async (name, work) => {
      if (isFound && /^DB.*batch$/.test(name)) {
        throw new Error('D1_ERROR: D1 DB is overloaded. Requests queued for too long.')
      }
      const result = await work()
      isFound ||= name === 'FILES.head'
      return result
    })
    const refused = await send(sent(), { env: overloaded })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '2'])
    expect(await env.FILES.head(key)).not.toBeNull()
    expect(await recordsOf(company, key)).toBe(0)
    expect((await send(sent())).status).toBe(200)
    expect(await env.FILES.head(key)).toBeNull()
    expect(await recordsOf(company, key)).toBe(1)
  })

  it('that the deployment’s storage fails is recorded, and finished by the same request', async () => {
    const order = { ...company, orderId: await mintOrder(company) }
    const key = `${folderOf(order)}failed`
    await env.FILES.put(key, 'abc')
    const sent = () => request(company.token, ...target('delete', order, key), undefined, { 'idempotency-key': key })
    const failing = wrapBindings(env, async (name, work) => {
      if (name === 'FILES.delete') throw new Error('internal error')
      return work()
    })
    const failed = await send(sent(), { env: failing })
    expect([failed.status, failed.headers.get('retry-after')]).toEqual([503, null])
    expect(await env.FILES.head(key)).not.toBeNull()
    expect(await recordsOf(company, key)).toBe(1)
    for (let again = 0; again < 2; again++) {
      const { status, body } = await send(sent())
      expect([status, body.file?.path]).toEqual([200, key])
      expect(await env.FILES.head(key)).toBeNull()
    }
  })

  it('that the company’s storage fails is finished by the same request', async () => {
    const key = `${folderOf(own)}failed`
    await fill(key)
    const ask = () => own.call(...target('delete', own, key), undefined, { 'idempotency-key': key })
    await spoil(scopeUrl(bucket), { match: '^DELETE', status: 500 })
    expect((await ask()).status).toBe(502)
    expect(await pathsOf(own)).toEqual([key])
    await spoil(scopeUrl(bucket))
    expect((await ask()).status).toBe(200)
    expect(await pathsOf(own)).toEqual([])
  })

  it.each([
    ['NoSuchKey', 200],
    ['NoSuchBucket', 502],
  ])('whose storage answers 404 with %s gives %i', async (code, status) => {
    const key = `${folderOf(own)}${code}`
    await fill(key)
    await spoil(scopeUrl(bucket), { match: '^DELETE', status: 404, body: `<Error><Code>${code}</Code></Error>` })
    expect((await own.call(...target('delete', own, key))).status).toBe(status)
    await spoil(scopeUrl(bucket))
  })

  it('that two isolates begin with one key gives both the same response', async () => {
    const order = { ...company, orderId: await mintOrder(company) }
    const key = `${folderOf(order)}twice`
    await env.FILES.put(key, 'abc')
    const sent = () => request(company.token, ...target('delete', order, key), undefined, { 'idempotency-key': key })
    // Another request is done before this one looks for the file.
    let other: Awaited<ReturnType<typeof send>> | undefined
    const slow = wrapBindings(env, async (name, work) => {
      if (name === 'FILES.head' && !other) {
        other = await send(
          request(company.token, ...target('delete', order, key), undefined, { 'idempotency-key': `${key}x` }),
        )
        await sql('UPDATE idempotency_keys SET key = ? WHERE company_id = ? AND key = ?', key, company.id, `${key}x`)
      }
      return work()
    })
    const { status, body } = await send(sent(), { env: slow })
    expect(other?.status).toBe(200)
    expect([status, body]).toEqual([200, other?.body])
    expect(await recordsOf(company, key)).toBe(1)
  })
})

describe('an outage of the deployment’s storage', () => {
  const outage: Around = (name, work) => (/^FILES\./.test(name) ? Promise.reject(new Error('internal')) : work())
  const sendThrough = (around: Around, method: string, path: string) =>
    send(request(company.token, method, path), { env: wrapBindings(env, around) })

  it.each<[string, () => [string, string]]>([
    ['a listing', () => ['GET', `/orders/${company.orderId}/files`]],
    ['a download', () => target('download', company, `${folderOf(company)}out`)],
    ['a deletion', () => target('delete', company, `${folderOf(company)}out`)],
  ])('gives 503 with Retry-After to %s, which has changed nothing', async (_, of) => {
    await env.FILES.put(`${folderOf(company)}out`, 'abc')
    const refused = await sendThrough(outage, ...of())
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '10'])
    const [logged] = linesOf(refused.headers.get('x-request-id')).filter(({ event }) => event === 'unavailable')
    expect(logged).toMatchObject({ error: expect.stringContaining('R2') })
    expect(await env.FILES.head(`${folderOf(company)}out`)).not.toBeNull()
  })

  it('gives 503 without Retry-After to a deletion that may have been carried out', async () => {
    const key = `${folderOf(company)}lost`
    await env.FILES.put(key, 'abc')
    const lost: Around = async (name, work) => {
      const result = await work()
      return name === 'FILES.delete' ? Promise.reject(new Error('internal')) : result
    }
    const refused = await sendThrough(lost, ...target('delete', company, key))
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, null])
    expect(refused.body.error.message).toMatch(/may have been deleted/)
  })
})

describe.each(ACTIONS)('a %s', (action) => {
  it('returns 404 for what is not a file of the order, without a request to the storage', async () => {
    const other = await mintCompanyWithOrder()
    const sibling = { ...own, orderId: await mintOrder(own) }
    const foreign = [`${folderOf(other)}x`, `${folderOf(sibling)}x`, `${folderOf(own).slice(0, -1)}2/x`, 'x']
    await fill(...foreign)
    for (const key of foreign) await env.FILES.put(key, 'abc')
    const before = (await look(scopeUrl(bucket))).calls.length
    const folder = folderOf(own)
    const keys = [
      ...foreign,
      folder,
      folder.slice(0, -1),
      `/${folder}x`,
      `${folder}../${sibling.orderId}/x`,
      `${folder}../../${other.id}/${other.orderId}/x`,
      `${folder}./x`,
      `${folder}a/..`,
      folder.toUpperCase(),
    ]
    for (const key of keys) expect((await ask(action, own, key)).status, key).toBe(404)
    expect((await look(scopeUrl(bucket))).calls.length).toBe(before)
    for (const key of foreign) expect(await env.FILES.head(key)).not.toBeNull()
  })

  it('keeps keys that only look like other places apart', async () => {
    const names = ['%2e%2e/x', '..x', 'a\\..\\x', '/x', 'a//x', '...']
    const keys = names.map((name) => folderOf(own) + name)
    await fill(...keys)
    for (const key of keys) {
      const { status, body } = await ask(action, own, key)
      expect([status, body.path ?? body.file?.path]).toEqual([200, key])
    }
    expect(await pathsOf(own)).toEqual(action === 'delete' ? [] : [...keys].sort())
  })

  it('returns 404 for a file that is not there, and for a deleted or unknown order', async () => {
    await fill()
    expect((await ask(action, own, `${folderOf(own)}absent`)).status).toBe(404)
    expect((await ask(action, company, `${folderOf(company)}absent`)).status).toBe(404)
    const order = { ...company, orderId: await mintOrder(company) }
    const key = `${folderOf(order)}x`
    await env.FILES.put(key, 'abc')
    await company.call('DELETE', `/orders/${order.orderId}`)
    expect((await ask(action, order, key)).status).toBe(404)
    expect(await env.FILES.head(key)).not.toBeNull()
    for (const orderId of ['999999', '0', 'abc']) {
      const path = target(action, { orderId }, `orders/${company.id}/${orderId}/x`)
      expect((await company.call(...path)).status).toBe(404)
    }
  })

  it.each([
    ['no path', ''],
    ['an empty path', '?path='],
    ['a path of over 1,024 characters', `?path=${'x'.repeat(1_025)}`],
    ['a path of over 1,024 bytes', `?path=${encodeURIComponent('ß'.repeat(513))}`],
    ['an unknown parameter', '?path=x&key=x'],
  ])('returns 400 for %s', async (_, query) => {
    const path = `/orders/${company.orderId}/files${action === 'download' ? '/download' : ''}${query}`
    const { status, body } = await company.call(action === 'download' ? 'GET' : 'DELETE', path)
    expect(status).toBe(400)
    expect(body.error.details.issues[0].path).toBe(query.includes('key') ? 'key' : 'path')
  })

  it('returns 409 where no storage is configured', async () => {
    const sent = request(company.token, ...target(action, company, `${folderOf(company)}x`))
    const { status, body } = await send(sent, { env: withoutStorage })
    expect([status, body.error.details]).toMatchObject([409, { reason: 'storage_not_configured' }])
  })

  it.each([
    ['an error', { status: 500 }],
    ['no response', { destroy: true }],
    ['a redirect', { status: 302, headers: { location: 'https://elsewhere.test/' } }],
  ])('returns 502 for %s of the company’s storage', async (_, fault) => {
    const key = `${folderOf(own)}x`
    await fill(key)
    await spoil(scopeUrl(bucket), { match: action === 'download' ? '^HEAD' : '^DELETE', ...fault })
    const { status, body } = await ask(action, own, key)
    await spoil(scopeUrl(bucket))
    expect(status).toBe(502)
    expect(body.error).toMatchObject({ code: 'internal_error', details: { reason: 'supplier_unavailable' } })
  })

  it('returns 502 when the company’s bucket does not exist', async () => {
    const wrong = await mintCompanyWithOrder()
    await giveStorage(wrong, { settings: { bucket: 'missing' } })
    const { status, body } = await ask(action, wrong, `${folderOf(wrong)}x`)
    expect(status).toBe(502)
    expect(body.error.details).toMatchObject({ reason: 'supplier_unavailable', storage_code: 'NoSuchBucket' })
  })

  it('returns 502 when the storage rejects the company’s keys', async () => {
    const wrong = await mintCompanyWithOrder()
    await giveStorage(wrong, { credentials: { secret_access_key: 'wrong' } })
    const { status, body } = await ask(action, wrong, `${folderOf(wrong)}x`)
    expect([status, body.error.details.reason]).toEqual([502, 'supplier_rejected_credentials'])
  })
})
