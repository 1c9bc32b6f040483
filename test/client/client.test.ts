import { describe, expect, it } from 'vitest'
import { type ApiClient, createClient } from '../../src/client/index.ts'
import { listLines, openCrm, THREAD_ID, TOKEN } from './support.ts'

const seed = {
  clients: [{ id: 1, company_name: 'Oak', email: 'Info+a/b@Oak.example' }],
  orders: [{ id: 12, title: 'Shirts' }],
  contexts: { [THREAD_ID]: { thread_id: 't', orders_data: [{ id: 12 }] } },
  threads: { [`sales@shop.example ${THREAD_ID}`]: { id: 'u', messages: [] } },
}
const account_email = 'sales@shop.example'
const presignBody = { fileName: 'ä b.png', size: 3, legacyThreadId: THREAD_ID }

const calls: [name: string, line: string, body: unknown, call: (api: ApiClient) => Promise<unknown>][] = [
  ['clients.list', 'GET /api/v1/clients', '', (api) => api.clients.list()],
  [
    'clients.list with a query',
    'GET /api/v1/clients?page=2&per_page=10&q=a%26b+c',
    '',
    (api) => api.clients.list({ page: 2, per_page: 10, q: 'a&b c' }),
  ],
  ['clients.get', 'GET /api/v1/clients/1', '', (api) => api.clients.get(1)],
  [
    'clients.getByEmail',
    'GET /api/v1/clients/by-email?email=info%2Ba%2Fb%40oak.example',
    '',
    (api) => api.clients.getByEmail('info+a/b@oak.example'),
  ],
  [
    'clients.create',
    'POST /api/v1/clients',
    { company_name: 'Elm' },
    (api) => api.clients.create({ company_name: 'Elm' }),
  ],
  ['clients.update', 'PATCH /api/v1/clients/1', { deleted: true }, (api) => api.clients.update(1, { deleted: true })],
  [
    'clients.update by email',
    'PATCH /api/v1/clients/info%2Ba%2Fb%40oak.example',
    { phone: null },
    (api) => api.clients.update('info+a/b@oak.example', { phone: null }),
  ],
  [
    'orders.list',
    'GET /api/v1/orders?client_id=1&status=3&from=2026-01-01&to=2026-01-31',
    '',
    (api) => api.orders.list({ client_id: 1, status: 3, from: '2026-01-01', to: '2026-01-31' }),
  ],
  ['orders.get', 'GET /api/v1/orders/12', '', (api) => api.orders.get(12)],
  [
    'orders.create',
    'POST /api/v1/orders',
    { title: 'Caps', client_id: 1 },
    (api) => api.orders.create({ title: 'Caps', client_id: 1 }),
  ],
  ['orders.update', 'PATCH /api/v1/orders/12', { status_id: 2 }, (api) => api.orders.update(12, { status_id: 2 })],
  ['orders.delete', 'DELETE /api/v1/orders/12', '', (api) => api.orders.delete(12)],
  ['products.search', 'GET /api/v1/products/search', '', (api) => api.products.search()],
  [
    'products.search with sources',
    'GET /api/v1/products/search?q=pc54&include=local%2Clines',
    '',
    (api) => api.products.search({ q: 'pc54', include: ['local', 'lines'] }),
  ],
  [
    'products.info supplier_a',
    'GET /api/v1/products/supplier_a?style=PC54&color=Red',
    '',
    (api) => api.products.info('supplier_a', { style: 'PC54', color: 'Red' }),
  ],
  [
    'products.info supplier_b',
    'GET /api/v1/products/supplier_b?styleId=39',
    '',
    (api) => api.products.info('supplier_b', { styleId: '39' }),
  ],
  [
    'products.info invoice_item',
    'GET /api/v1/products/invoice_item?id=5',
    '',
    (api) => api.products.info('invoice_item', { id: 5 }),
  ],
  ['mail.getThreadContext', `GET /api/v1/mail/threads/${THREAD_ID}`, '', (api) => api.mail.getThreadContext(THREAD_ID)],
  [
    'mail.putEmailThread',
    'PUT /api/v1/mail/email-threads/a%3Ab%2B',
    { account_email, messages: [] },
    (api) => api.mail.putEmailThread('a:b+', { account_email, messages: [] }),
  ],
  [
    'mail.getEmailThread',
    `GET /api/v1/mail/email-threads/${THREAD_ID}?account_email=sales%40shop.example`,
    '',
    (api) => api.mail.getEmailThread(THREAD_ID, { account_email }),
  ],
  ['files.presign', 'POST /api/v1/orders/12/files/presign', presignBody, (api) => api.files.presign(12, presignBody)],
  [
    'files.list',
    `GET /api/v1/orders/12/files?legacyThreadId=${THREAD_ID}`,
    '',
    (api) => api.files.list(12, { legacyThreadId: THREAD_ID }),
  ],
  ['files.list of the whole order', 'GET /api/v1/orders/12/files', '', (api) => api.files.list(12)],
]

describe('every method sends one request', () => {
  it.each(calls)('%s', async (_name, line, body, call) => {
    const crm = await openCrm(seed)
    await call(crm.client())
    const [made, ...others] = (await crm.look()).calls
    expect(others).toEqual([])
    expect(`${made?.method} ${made?.path}`).toBe(line)
    expect(made?.headers.authorization).toBe(`Bearer ${TOKEN}`)
    expect(made?.body === '' ? '' : JSON.parse(made?.body ?? '')).toEqual(body)
    expect(made?.headers['content-type']).toBe(body === '' ? undefined : 'application/json')
  })
})

describe('results', () => {
  it('are the client without its wrapper', async () => {
    const api = (await openCrm(seed)).client()
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
    const crm = await openCrm({ clients, orders: clients })
    const api = crm.client()
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
    for await (const _ of crm.client().clients.pages({ q: 'x' }));
    expect(await listLines(crm)).toEqual([
      'GET /api/v1/clients?per_page=100&q=x',
      'GET /api/v1/clients?per_page=100&q=x&cursor=100',
    ])
  })

  it('end with an error where the API has no cursors', async () => {
    const crm = await openCrm()
    await crm.spoil({ body: '{"data":[{"id":1}],"pagination":{"page":1,"per_page":100,"total":1}}' })
    const walk = crm.client().clients.all()
    await expect(walk.next()).resolves.toMatchObject({ value: { id: 1 } })
    await expect(walk.next()).rejects.toThrow('needs version 1.1.0')
  })

  it('start at the requested page', async () => {
    const clients = Array.from({ length: 5 }, (_, index) => ({ id: index + 1 }))
    const api = (await openCrm({ clients })).client()
    const ids: number[] = []
    for await (const page of api.clients.pages({ page: 2, per_page: 2 })) ids.push(...page.data.map(({ id }) => id))
    expect(ids).toEqual([3, 4, 5])
  })

  it('are a thread with its etag, or that it is not modified', async () => {
    const crm = await openCrm(seed)
    const api = crm.client()
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
    const crm = await openCrm(seed)
    const api = crm.client()
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
    const call = crm.client().clients.create({ company_name: 'Elm' }, { idempotencyKey })
    await expect(call).rejects.toThrow('idempotencyKey must be')
    expect(await listLines(crm)).toEqual([])
  })

  it('for a PUT, which takes no key, is rejected before it is sent', async () => {
    const crm = await openCrm(seed)
    // @ts-expect-error a PUT takes no key
    const call = crm.client().clients.upsert('a', { company_name: 'Elm' }, { idempotencyKey: 'k' })
    await expect(call).rejects.toThrow('idempotencyKey')
    expect(await listLines(crm)).toEqual([])
  })

  it('is ignored by a read, also by one that is a POST', async () => {
    const crm = await openCrm(seed)
    const api = crm.client()
    const options = { idempotencyKey: 'k', signal: new AbortController().signal }
    await api.clients.get(1, options)
    await api.files.presign(12, presignBody, options)
    const { calls } = await crm.look()
    expect(calls.map(({ headers }) => headers['idempotency-key'])).toEqual([undefined, undefined])
  })

  it('of another request rejects with its reason', async () => {
    const api = (await openCrm(seed)).client()
    await api.clients.create({ company_name: 'Elm' }, { idempotencyKey: 'k' })
    const call = api.clients.create({ company_name: 'Oak' }, { idempotencyKey: 'k' })
    await expect(call).rejects.toMatchObject({ status: 400, reason: 'idempotency_key_reused' })
  })
})

describe('paths', () => {
  it.each(['', '.', '..'])('reject %j, which a URL would drop', async (id) => {
    const crm = await openCrm(seed)
    await expect(crm.client().orders.get(id)).rejects.toThrow(TypeError)
    expect(await listLines(crm)).toEqual([])
  })

  it('encode every segment', async () => {
    const crm = await openCrm(seed)
    await expect(crm.client().mail.getThreadContext('../../clients?x#y')).rejects.toMatchObject({ status: 404 })
    expect(await listLines(crm)).toEqual(['GET /api/v1/mail/threads/..%2F..%2Fclients%3Fx%23y'])
  })
})

describe('upload', () => {
  it.each([
    ['bytes', new TextEncoder().encode('abc')],
    ['part of a larger buffer', new TextEncoder().encode('xxabcxx').subarray(2, 5)],
    ['a blob with a type of its own', new Blob(['abc'], { type: 'text/html' })],
  ])('puts %s with the signed type and length, without the token', async (_name, data) => {
    const crm = await openCrm(seed)
    const api = crm.client()
    const presigned = await api.files.presign(12, { ...presignBody, contentType: 'image/png' })
    const progress: [number, number][] = []
    await api.files.upload(presigned, data, { onProgress: (sent, total) => progress.push([sent, total]) })
    const { calls, state } = await crm.look()
    expect(state.files[presigned.key]).toEqual({ body: 'abc', contentType: 'image/png', length: 3 })
    expect(calls[1]?.headers.authorization).toBeUndefined()
    expect(calls[1]?.headers['x-bookmark']).toBeUndefined()
    expect(progress).toEqual([
      [0, 3],
      [3, 3],
    ])
  })

  it('stores an empty file', async () => {
    const crm = await openCrm(seed)
    const api = crm.client()
    const presigned = await api.files.presign(12, { ...presignBody, size: 0 })
    await api.files.upload(presigned, new Uint8Array())
    expect((await crm.look()).state.files[presigned.key]).toMatchObject({ length: 0 })
  })

  it('reports why the storage rejected it, without the signed URL', async () => {
    const crm = await openCrm(seed)
    const api = crm.client()
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
