import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { expect200, issuesOf, request, send } from '../../support/app.ts'
import {
  ACTIONS,
  ask,
  callCount,
  fillBucket,
  folderOf,
  giveStorage,
  LAST_MODIFIED,
  listFiles,
  mintCompanyWithOrder,
  mintOrder,
  NAMES,
  pathsOf,
  setFaults,
  target,
  WITHOUT_STORAGE,
} from './support.ts'

const company = await mintCompanyWithOrder()
const own = await mintCompanyWithOrder()
const bucket = await giveStorage(own)

describe('a download from the deployment’s storage', () => {
  it('has a URL for ten minutes, and the file', async () => {
    const key = `${folderOf(company)}email/t/a b.png`
    await env.FILES.put(key, 'abc', { httpMetadata: { contentType: 'image/png' } })
    const body = expect200(await ask('download', company, key))
    expect(body).toEqual({
      ...{ path: key, objectName: 'a b.png', length: 3, contentType: 'image/png', source: 'email', expiresIn: 600 },
      ...{ downloadUrl: expect.any(String), lastChanged: expect.any(String) },
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
    const [method, path] = target('download', company.orderId, key)
    const { body } = await send(request(company.token, method, path), { env: bindings })
    expect(body.downloadUrl).toMatch(/^https:\/\/storage\.example\/[\w-]+\/orders\//)
    expect(body.contentType).toBe('application/octet-stream')
  })
})

describe('a download from the company’s own storage', () => {
  it.each(NAMES)('of the file %j gives its bytes under its name', async (name) => {
    const key = `${folderOf(own)}email/t+1:=/${name}`
    await fillBucket(bucket, [key])
    const { status, body } = await ask('download', own, key)
    expect(status).toBe(200)
    expect(body).toMatchObject({ path: key, objectName: name, length: 3, lastChanged: LAST_MODIFIED })
    expect(body.downloadUrl).toContain('X-Amz-Credential=simulated%2F')
    expect(decodeURIComponent(JSON.stringify(body))).not.toContain('simulated/secret')
    const file = await fetch(body.downloadUrl)
    expect([file.status, await file.text()]).toEqual([200, 'xxx'])
    expect(file.headers.get('content-type')).toBe('image/png')
    const disposition = file.headers.get('content-disposition') ?? ''
    const [, encoded] = /filename\*=UTF-8''(.*)$/.exec(disposition) ?? []
    const [, plain] = /^attachment; filename="([^"\\]*)"/.exec(disposition) ?? []
    expect(encoded === undefined ? plain : decodeURIComponent(encoded)).toBe(name)
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
    await fillBucket(bucket, [key, `${key}2`])
    const url = new URL((await ask('download', own, key)).body.downloadUrl)
    change(url)
    expect((await fetch(url)).status).toBe(403)
  })

  it.each(['DELETE', 'HEAD'])('is refused by the storage as a %s', async (method) => {
    const key = `${folderOf(own)}signed`
    await fillBucket(bucket, [key])
    const { body } = await ask('download', own, key)
    expect((await fetch(body.downloadUrl, { method })).status).toBe(403)
    expect(pathsOf(await listFiles(own))).toEqual([key])
  })
})

describe.each(ACTIONS)('a %s', (action) => {
  it('returns 404 for what is not a file of the order, without a request to the storage', async () => {
    const other = await mintCompanyWithOrder()
    const sibling = { ...own, orderId: await mintOrder(own) }
    const mail = `mail/${own.id}/hash/object`
    const foreign = [`${folderOf(other)}x`, `${folderOf(sibling)}x`, `${folderOf(own).slice(0, -1)}2/x`, 'x', mail]
    await fillBucket(bucket, foreign)
    for (const key of foreign) await env.FILES.put(key, 'abc')
    const before = await callCount(bucket)
    const folder = folderOf(own)
    const keys = [
      ...foreign,
      folder,
      folder.slice(0, -1),
      `/${folder}x`,
      `${folder}../${sibling.orderId}/x`,
      `${folder}../../${other.id}/${other.orderId}/x`,
      `${folder}../../../${mail}`,
      `${folder}./x`,
      `${folder}a/..`,
      folder.toUpperCase(),
    ]
    for (const key of keys) expect((await ask(action, own, key)).status, key).toBe(404)
    expect(await callCount(bucket)).toBe(before)
    for (const key of foreign) expect(await env.FILES.head(key)).not.toBeNull()
  })

  it('keeps keys that only look like other places apart', async () => {
    const names = ['%2e%2e/x', '..x', 'a\\..\\x', '/x', 'a//x', '...']
    const keys = names.map((name) => folderOf(own) + name)
    await fillBucket(bucket, keys)
    for (const key of keys) {
      const { status, body } = await ask(action, own, key)
      expect([status, body.path ?? body.file?.path]).toEqual([200, key])
    }
    expect(pathsOf(await listFiles(own))).toEqual(action === 'delete' ? [] : [...keys].sort())
  })

  it('returns 404 for a file that is not there, and for a deleted or unknown order', async () => {
    await fillBucket(bucket, [])
    expect((await ask(action, own, `${folderOf(own)}absent`)).status).toBe(404)
    expect((await ask(action, company, `${folderOf(company)}absent`)).status).toBe(404)
    const order = { ...company, orderId: await mintOrder(company) }
    const key = `${folderOf(order)}x`
    await env.FILES.put(key, 'abc')
    await company.call('DELETE', `/orders/${order.orderId}`)
    expect((await ask(action, order, key)).status).toBe(404)
    expect(await env.FILES.head(key)).not.toBeNull()
    for (const orderId of ['999999', '0', 'abc']) {
      const path = target(action, orderId, `orders/${company.id}/${orderId}/x`)
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
    const response = await company.call(action === 'download' ? 'GET' : 'DELETE', path)
    expect(issuesOf(response)[0]).toBe(query.includes('key') ? 'key' : 'path')
  })

  it('returns 409 where no storage is configured', async () => {
    const sent = request(company.token, ...target(action, company.orderId, `${folderOf(company)}x`))
    const { status, body } = await send(sent, { env: WITHOUT_STORAGE })
    expect([status, body.error.details]).toMatchObject([409, { reason: 'storage_not_configured' }])
  })

  it.each([
    ['an error', { status: 500 }],
    ['no response', { destroy: true }],
    ['a redirect', { status: 302, headers: { location: 'https://elsewhere.test/' } }],
  ])('returns 502 for %s of the company’s storage', async (_, fault) => {
    const key = `${folderOf(own)}x`
    await fillBucket(bucket, [key])
    await setFaults(bucket, { match: action === 'download' ? '^HEAD' : '^DELETE', ...fault })
    const { status, body } = await ask(action, own, key)
    await setFaults(bucket)
    expect(status).toBe(502)
    expect(body.error).toMatchObject({ code: 'internal_error', details: { reason: 'supplier_unavailable' } })
  })

  it.each([
    ['has no such bucket', { settings: { bucket: 'missing' } }, 'supplier_unavailable', 'NoSuchBucket'],
    ['rejects the keys', { credentials: { secret_access_key: 'wrong' } }, 'supplier_rejected_credentials', undefined],
  ])('returns 502 when the company’s storage %s', async (_, options, reason, code) => {
    const wrong = await mintCompanyWithOrder()
    await giveStorage(wrong, options)
    const { status, body } = await ask(action, wrong, `${folderOf(wrong)}x`)
    expect(status).toBe(502)
    expect(body.error.details).toMatchObject({ reason, ...(code && { storage_code: code }) })
  })
})
