import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { issuesOf, request, send, sql } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { breakCalls, wrapBindings } from '../../support/wrap-bindings.ts'
import {
  type CompanyWithOrder,
  callCount,
  fillBucket,
  folderOf,
  giveStorage,
  LAST_MODIFIED,
  listFiles,
  mintCompanyWithOrder,
  mintOrder,
  pathsOf,
  setFaults,
  WITHOUT_STORAGE,
} from './support.ts'

const NAMES = ['a b.png', 'plain.pdf', "(x)!*'", 'a+b%2B.txt', 'café 👕.png', 'quo"te\\.csv', '&?#=;.txt', '~']

const company = await mintCompanyWithOrder()
const own = await mintCompanyWithOrder()
const bucket = await giveStorage(own)

type Action = 'download' | 'delete'
const ACTIONS: Action[] = ['download', 'delete']

function target(action: Action, orderId: number | string, key: string): [method: string, path: string] {
  const query = `path=${encodeURIComponent(key)}`
  return action === 'download'
    ? ['GET', `/orders/${orderId}/files/download?${query}`]
    : ['DELETE', `/orders/${orderId}/files?${query}`]
}

const ask = (action: Action, of: CompanyWithOrder, key: string) => of.call(...target(action, of.orderId, key))

/** A file of an order of its own in the deployment's storage, and the request that deletes it. */
async function mintFile(name: string) {
  const order = { ...company, orderId: await mintOrder(company) }
  const key = folderOf(order) + name
  await env.FILES.put(key, 'abc')
  const deletion = (headers: Record<string, string> = { 'idempotency-key': key }) =>
    request(company.token, ...target('delete', order.orderId, key), undefined, headers)
  return { order, key, deletion }
}

/** How many deletions of the company's file the audit has. */
async function recordsOf(key: string): Promise<number> {
  const isDeletion = "company_id = ? AND action = 'file.delete' AND entity_id = ?"
  return (await sql(`SELECT id FROM audit_log WHERE ${isDeletion}`, company.id, key)).length
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
    await fillBucket(bucket, [key])
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

describe('a deletion', () => {
  it('removes the file from the deployment’s storage, once', async () => {
    const { order, key } = await mintFile('email/t/a')
    await env.FILES.put(`${key}2`, 'abc')
    const { status, body } = await ask('delete', order, key)
    expect(status).toBe(200)
    expect(body.file).toEqual({
      path: key,
      objectName: 'a',
      length: 3,
      lastChanged: expect.any(String),
      source: 'email',
    })
    expect(pathsOf(await listFiles(order))).toEqual([`${key}2`])
    expect((await ask('delete', order, key)).status).toBe(404)
    expect((await ask('download', order, key)).status).toBe(404)
  })

  it.each(NAMES)('removes the file %j from the company’s own storage, and no other', async (name) => {
    const [key, other] = [`${folderOf(own)}${name}`, `${folderOf(own)}other`]
    await fillBucket(bucket, [key, other])
    expect((await ask('delete', own, key)).body.file).toMatchObject({ path: key, length: 3, source: 'manual' })
    expect(pathsOf(await listFiles(own))).toEqual([other])
    expect((await ask('delete', own, key)).status).toBe(404)
  })

  it('with an Idempotency-Key gives its first response again, whatever has become of the file', async () => {
    const { order, key, deletion } = await mintFile('keyed')
    const first = await send(deletion())
    expect([first.status, first.headers.get('idempotency-replayed')]).toEqual([200, null])
    const expectReplay = async () => {
      const again = await send(deletion())
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true'])
      expect(again.body).toEqual(first.body)
    }
    await expectReplay()
    await env.FILES.put(key, 'another file')
    await expectReplay()
    expect(await env.FILES.head(key)).not.toBeNull()
    const other = target('delete', order.orderId, `${key}2`)
    const reused = await company.call(...other, undefined, { 'idempotency-key': key })
    expect([reused.status, reused.body.error.details.reason]).toEqual([400, 'idempotency_key_reused'])
    await company.call('DELETE', `/orders/${order.orderId}`)
    await expectReplay()
  })

  it.each([true, false])('whose record the database refuses deletes nothing, with a key: %s', async (isKeyed) => {
    const { key, deletion } = await mintFile('refused')
    const sent = () => (isKeyed ? deletion() : deletion({}))
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
    expect(await recordsOf(key)).toBe(0)
    expect((await send(sent())).status).toBe(200)
    expect(await env.FILES.head(key)).toBeNull()
    expect(await recordsOf(key)).toBe(1)
  })

  it.each([
    ['and is not carried out', false],
    ['although it is carried out', true],
  ])('that fails in the deployment’s storage %s is recorded, and finished by the same request', async (_, isDone) => {
    const { key, deletion } = await mintFile('failed')
    const failing = wrapBindings(env, async (name, work) => {
      if (name !== 'FILES.delete') return work()
      if (isDone) await work()
      throw new Error('internal error')
    })
    const failed = await send(deletion(), { env: failing })
    expect([failed.status, failed.headers.get('retry-after')]).toEqual([503, null])
    expect(failed.body.error.message).toMatch(/may have been deleted/)
    expect((await env.FILES.head(key)) === null).toBe(isDone)
    expect(await recordsOf(key)).toBe(1)
    for (let again = 0; again < 2; again++) {
      const { status, body } = await send(deletion())
      expect([status, body.file?.path]).toEqual([200, key])
      expect(await env.FILES.head(key)).toBeNull()
    }
  })

  it('that the company’s storage fails is finished by the same request', async () => {
    const key = `${folderOf(own)}failed`
    await fillBucket(bucket, [key])
    const ask = () => own.call(...target('delete', own.orderId, key), undefined, { 'idempotency-key': key })
    await setFaults(bucket, { match: '^DELETE', status: 500 })
    expect((await ask()).status).toBe(502)
    expect(pathsOf(await listFiles(own))).toEqual([key])
    await setFaults(bucket)
    expect((await ask()).status).toBe(200)
    expect(pathsOf(await listFiles(own))).toEqual([])
  })

  it.each([
    ['NoSuchKey', 200],
    ['NoSuchBucket', 502],
  ])('whose storage answers 404 with %s gives %i', async (code, status) => {
    const key = `${folderOf(own)}${code}`
    await fillBucket(bucket, [key])
    await setFaults(bucket, { match: '^DELETE', status: 404, body: `<Error><Code>${code}</Code></Error>` })
    expect((await own.call(...target('delete', own.orderId, key))).status).toBe(status)
    await setFaults(bucket)
  })

  it('that two isolates begin with one key gives both the same response', async () => {
    const { key, deletion } = await mintFile('twice')
    // Another request is done before this one looks for the file.
    let other: Awaited<ReturnType<typeof send>> | undefined
    const slow = wrapBindings(env, async (name, work) => {
      if (name === 'FILES.head' && !other) {
        other = await send(deletion({ 'idempotency-key': `${key}x` }))
        await sql('UPDATE idempotency_keys SET key = ? WHERE company_id = ? AND key = ?', key, company.id, `${key}x`)
      }
      return work()
    })
    const { status, body } = await send(deletion(), { env: slow })
    expect(other?.status).toBe(200)
    expect([status, body]).toEqual([200, other?.body])
    expect(await recordsOf(key)).toBe(1)
  })
})

describe('an outage of the deployment’s storage', () => {
  const key = `${folderOf(company)}out`

  it.each<[string, [method: string, path: string]]>([
    ['a listing', ['GET', `/orders/${company.orderId}/files`]],
    ['a download', target('download', company.orderId, key)],
    ['a deletion', target('delete', company.orderId, key)],
  ])('gives 503 with Retry-After to %s, which has changed nothing', async (_, of) => {
    await env.FILES.put(key, 'abc')
    const outage = breakCalls(env, /^FILES\./, new Error('internal'))
    const refused = await send(request(company.token, ...of), { env: outage })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '10'])
    const [logged] = linesOf(refused.headers.get('x-request-id')).filter(({ event }) => event === 'unavailable')
    expect(logged).toMatchObject({ error: expect.stringContaining('R2') })
    expect(await env.FILES.head(key)).not.toBeNull()
  })
})

describe.each(ACTIONS)('a %s', (action) => {
  it('returns 404 for what is not a file of the order, without a request to the storage', async () => {
    const other = await mintCompanyWithOrder()
    const sibling = { ...own, orderId: await mintOrder(own) }
    const foreign = [`${folderOf(other)}x`, `${folderOf(sibling)}x`, `${folderOf(own).slice(0, -1)}2/x`, 'x']
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
    const { order, key } = await mintFile('x')
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
