import { describe, expect, it } from 'vitest'
import { createClient } from '../../src/client/index.ts'
import { headersOf, listLines, openCrm, THREAD_ID, TOKEN } from './support.ts'

const seed = {
  clients: [{ id: 1, company_name: 'Oak', email: 'Info+a/b@Oak.example' }],
  orders: [{ id: 12, title: 'Shirts' }],
  contexts: { [THREAD_ID]: { thread_id: 't', orders_data: [{ id: 12 }] } },
  threads: { [`sales@shop.example ${THREAD_ID}`]: { id: 'u', messages: [] } },
}
const account_email = 'sales@shop.example'
const presignBody = { fileName: 'ä b.png', size: 3, legacyThreadId: THREAD_ID }

describe('results', () => {
  it('are the client without its wrapper', async () => {
    const api = (await openCrm(seed)).api
    expect(await api.clients.getByEmail('INFO+a/b@oak.example')).toMatchObject({ id: 1, company_name: 'Oak' })
    expect(await api.clients.create({ company_name: 'Elm' })).toMatchObject({ id: 2, company_name: 'Elm' })
    expect(await api.clients.update(2, { website: 'x' })).toMatchObject({ id: 2, website: 'x' })
  })

  it.each([
    [0, []],
    [1, [1]],
    [4, [2, 2]],
    [5, [2, 2, 1]],
  ])('page through %i clients and stop', async (count, sizes) => {
    const clients = Array.from({ length: count }, (_, index) => ({ id: index + 1, company_name: 'x' }))
    const { api, ...crm } = await openCrm({ clients, orders: clients })
    for (const pages of [api.clients.pages({ per_page: 2 }), api.orders.pages({ per_page: 2 })]) {
      const seen: number[][] = []
      for await (const page of pages) seen.push(page.data.map(({ id }) => id))
      expect(seen.map((page) => page.length)).toEqual(sizes)
      expect(seen.flat()).toEqual(clients.map(({ id }) => id))
    }
    expect((await crm.look()).calls).toHaveLength(2 * Math.max(1, sizes.length))
    for (const all of [api.clients.all({ per_page: 2 }), api.orders.all()]) {
      const ids: number[] = []
      for await (const { id } of all) ids.push(id)
      expect(ids).toEqual(clients.map(({ id }) => id))
    }
  })

  it('page by the cursor of the page before, with the same filters and 100 a page', async () => {
    const clients = Array.from({ length: 101 }, (_, index) => ({ id: index + 1 }))
    const crm = await openCrm({ clients })
    for await (const _ of crm.api.clients.pages({ q: 'x' }));
    expect(await listLines(crm)).toEqual([
      'GET /api/v1/clients?per_page=100&q=x',
      'GET /api/v1/clients?per_page=100&q=x&cursor=100',
    ])
  })

  it('end with an error where the API has no cursors', async () => {
    const crm = await openCrm({}, { body: '{"data":[{"id":1}],"pagination":{"page":1,"per_page":100,"total":1}}' })
    const walk = crm.api.clients.all()
    await expect(walk.next()).resolves.toMatchObject({ value: { id: 1 } })
    await expect(walk.next()).rejects.toThrow('needs version 1.1.0')
    await crm.spoil({ body: '{"data":[{"id":1}],"pagination":{"page":1,"per_page":100,"total":1}}' })
    const copy = crm.api.pull({ changes: '1', list: 'clients', cursor: null })
    await expect(copy.next()).rejects.toThrow('needs version 1.1.0')
  })

  it('start at the requested page', async () => {
    const clients = Array.from({ length: 5 }, (_, index) => ({ id: index + 1 }))
    const api = (await openCrm({ clients })).api
    const ids: number[] = []
    for await (const page of api.clients.pages({ page: 2, per_page: 2 })) ids.push(...page.data.map(({ id }) => id))
    expect(ids).toEqual([3, 4, 5])
  })

  it('are a thread with its etag, or that it is not modified', async () => {
    const { api } = await openCrm(seed)
    const first = await api.mail.getEmailThread(THREAD_ID, { account_email })
    expect(first).toMatchObject({ notModified: false, emailThread: { id: 'u' } })
    const again = await api.mail.getEmailThread(THREAD_ID, { account_email, ifNoneMatch: first.etag })
    expect(again).toEqual({ notModified: true, emailThread: null, etag: first.etag })
    await api.mail.putEmailThread(THREAD_ID, { account_email, messages: [{ id: 'm' }] })
    const changed = await api.mail.getEmailThread(THREAD_ID, { account_email, ifNoneMatch: first.etag })
    expect(changed).toMatchObject({ notModified: false, emailThread: { message_count: 1 } })
  })
})

describe('baseUrl', () => {
  it.each(['', '/', '//', '/api/v1', '/api/v1/', '/api//v1'])('with %j at its end is the same address', async (end) => {
    const crm = await openCrm(seed)
    await crm.client({ baseUrl: `${crm.base}${end}` }).clients.list()
    expect(await listLines(crm)).toEqual(['GET /api/v1/clients'])
  })

  it.each([
    '',
    'shop.example',
    '/api/v1',
    'ftp://shop.example',
    'https://shop.example?x=1',
    'https://a:b@shop.example',
  ])('rejects %j', (baseUrl) => {
    expect(() => createClient({ baseUrl, token: TOKEN })).toThrow('baseUrl must be an http or https URL')
  })
})

describe('a key and a version', () => {
  it('of the caller are sent', async () => {
    const { api, ...crm } = await openCrm(seed)
    await api.clients.update(1, { phone: '1' }, { idempotencyKey: 'row-7', ifMatch: 12 })
    await api.orders.delete(12, { ifMatch: '"13-ab"' })
    const sent = (await crm.look()).calls.map(({ headers }) => [headers['idempotency-key'], headers['if-match']])
    expect(sent).toEqual([
      ['row-7', '"12"'],
      [expect.stringMatching(/^[0-9a-f]{32}$/), '"13-ab"'],
    ])
  })

  it.each(['', 'a b', 'é', 'a\n', 'x'.repeat(256)])('key %j is rejected before it is sent', async (idempotencyKey) => {
    const crm = await openCrm(seed)
    const call = crm.api.clients.create({ company_name: 'Elm' }, { idempotencyKey })
    await expect(call).rejects.toThrow('idempotencyKey must be')
    expect(await listLines(crm)).toEqual([])
  })

  it('for a PUT, which takes no key, is rejected before it is sent', async () => {
    const crm = await openCrm(seed)
    // @ts-expect-error a PUT takes no key
    const call = crm.api.clients.upsert('a', { company_name: 'Elm' }, { idempotencyKey: 'k' })
    await expect(call).rejects.toThrow('idempotencyKey')
    expect(await listLines(crm)).toEqual([])
  })

  it('is ignored by a read, also by one that is a POST', async () => {
    const { api, ...crm } = await openCrm(seed)
    const options = { idempotencyKey: 'k', signal: new AbortController().signal }
    await api.clients.get(1, options)
    await api.files.presign(12, presignBody, options)
    expect(await headersOf(crm, 'idempotency-key')).toEqual([undefined, undefined])
  })
})

describe('paths', () => {
  it.each(['', '.', '..'])('reject %j, which a URL would drop', async (id) => {
    const crm = await openCrm(seed)
    await expect(crm.api.orders.get(id)).rejects.toThrow(TypeError)
    expect(await listLines(crm)).toEqual([])
  })

  it('encode every segment', async () => {
    const crm = await openCrm(seed)
    await expect(crm.api.mail.getThreadContext('../../clients?x#y')).rejects.toMatchObject({ status: 404 })
    expect(await listLines(crm)).toEqual(['GET /api/v1/mail/threads/..%2F..%2Fclients%3Fx%23y'])
  })
})

describe('upload', () => {
  it.each([
    ['bytes', new TextEncoder().encode('abc'), 3],
    ['part of a larger buffer', new TextEncoder().encode('xxabcxx').subarray(2, 5), 3],
    ['a blob with a type of its own', new Blob(['abc'], { type: 'text/html' }), 3],
    ['nothing', new Uint8Array(), 0],
  ])('puts %s with the signed type and length, without the token', async (_name, data, size) => {
    const { api, ...crm } = await openCrm(seed)
    const presigned = await api.files.presign(12, { ...presignBody, size, contentType: 'image/png' })
    const progress: [number, number][] = []
    await api.files.upload(presigned, data, { onProgress: (sent, total) => progress.push([sent, total]) })
    const { calls, state } = await crm.look()
    const body = 'abc'.slice(0, size)
    expect(state.files[presigned.key]).toEqual({ body, contentType: 'image/png', length: size })
    expect(calls[1]?.headers.authorization).toBeUndefined()
    expect(calls[1]?.headers['x-bookmark']).toBeUndefined()
    expect(progress).toEqual([0, size].map((sent) => [sent, size]))
  })

  it('reports why the storage rejected it, without the signed URL', async () => {
    const { api, ...crm } = await openCrm(seed)
    const presigned = await api.files.presign(12, presignBody)
    const error = await api.files.upload(presigned, new Uint8Array(4)).catch((thrown) => thrown)
    expect(error).toMatchObject({
      name: 'ApiError',
      status: 403,
      code: 'upload_failed',
      details: { storage_code: 'SignatureDoesNotMatch' },
    })
    expect(`${error.message} ${error.stack}`).not.toContain('signature=')
    expect((await crm.look()).calls).toHaveLength(2)
  })
})
