import { describe, expect, expectTypeOf, it } from 'vitest'
import type { ApiClient, BatchOperation, ThreadContext, ThreadContextBody } from '../../src/client/index.ts'
import { clientWith, TOKEN } from './support.ts'

const account_email = 'sales@shop.example'
const EMAIL = 'info+a/b@oak.example'
const ELM = { company_name: 'Elm' }
const CAPS = { title: 'Caps', client_id: 1 }
const thread = { account_email, messages: [] }
const file = { fileName: 'ä b.png', size: 3, legacyThreadId: 't' }
const payment = { amount: 50, method: 'card' }
const items = [{ title: 'Tee', quantity: 12, unit_price: 9.5 }]
const operations = [{ method: 'POST', path: '/clients', body: ELM } as const]
const mixed: BatchOperation[] = [
  { method: 'PATCH', path: '/clients/ada@elm.example', body: { phone: null } },
  { method: 'PUT', path: '/orders/7/invoice-items', body: { items } },
  { method: 'PUT', path: '/mail/threads/t', body: { orders_data: [{ id: { $ref: '1.invoice.project_id' } }] } },
  { method: 'DELETE', path: '/clients/ada@elm.example' },
]
const change = { method: 'PATCH', path: '/orders/7', body: { title: 'x' } } as const
const filters = { sort: '-updated_at', updated_since: '2026-01-31T00:00:00Z', deleted: 'include' } as const

/** Whatever is asked for. */
const ANSWER = {
  ...{ data: [], pagination: { next_cursor: null, has_more: false } },
  ...{ client: {}, project: {}, email_thread: {}, file: {}, results: [] },
}

/** What each method sends: method, path and query, and body. Parameters that are undefined are left out. */
const CALLS: [line: string, call: (api: ApiClient) => Promise<unknown>, body?: unknown][] = [
  ['GET /clients', (api) => api.clients.list()],
  [
    'GET /clients?per_page=100',
    (api) => api.clients.pages({ page: undefined, per_page: undefined, q: undefined }).next(),
  ],
  ['GET /clients?page=2&per_page=10&q=a%26b+c', (api) => api.clients.list({ page: 2, per_page: 10, q: 'a&b c' })],
  ['GET /clients/1', (api) => api.clients.get(1)],
  ['GET /clients/1', (api) => api.clients.getTagged(1, { ifNoneMatch: undefined })],
  ['GET /clients/by-email?email=info%2Ba%2Fb%40oak.example', (api) => api.clients.getByEmail(EMAIL)],
  ['POST /clients', (api) => api.clients.create(ELM), ELM],
  ['PATCH /clients/1', (api) => api.clients.update(1, { deleted: true }), { deleted: true }],
  [
    'PATCH /clients/info%2Ba%2Fb%40oak.example',
    (api) => api.clients.update(EMAIL, { phone: null, email: undefined }),
    { phone: null },
  ],
  ['DELETE /clients/1', (api) => api.clients.delete(1)],
  [
    'GET /orders?client_id=1&status=3&from=2026-01-01&to=2026-01-31',
    (api) => api.orders.list({ client_id: 1, status: 3, from: '2026-01-01', to: '2026-01-31' }),
  ],
  ['GET /orders', (api) => api.orders.list({ client_id: undefined, status: undefined, expand: undefined })],
  ['GET /orders/12', (api) => api.orders.get(12, { deleted: undefined })],
  ['POST /orders', (api) => api.orders.create(CAPS), CAPS],
  [
    'POST /orders',
    (api) => api.orders.create({ ...CAPS, payments: undefined, invoice_items: [{ title: 'a', quantity: undefined }] }),
    { ...CAPS, invoice_items: [{ title: 'a' }] },
  ],
  ['PATCH /orders/12', (api) => api.orders.update(12, { status_id: 2 }), { status_id: 2 }],
  ['DELETE /orders/12', (api) => api.orders.delete(12)],
  ['GET /products/search', (api) => api.products.search({ q: undefined, include: undefined })],
  [
    'GET /products/search?q=pc54&include=local%2Clines',
    (api) => api.products.search({ q: 'pc54', include: ['local', 'lines'] }),
  ],
  [
    'GET /products/supplier_a?style=PC54&color=Red',
    (api) => api.products.info('supplier_a', { style: 'PC54', color: 'Red', size: undefined }),
  ],
  ['GET /products/supplier_b?styleId=39', (api) => api.products.info('supplier_b', { styleId: '39' })],
  ['GET /products/invoice_item?id=5', (api) => api.products.info('invoice_item', { id: 5 })],
  ['GET /mail/threads/t', (api) => api.mail.getThreadContext('t')],
  ['PUT /mail/email-threads/a%3Ab%2B', (api) => api.mail.putEmailThread('a:b+', thread), thread],
  [
    'GET /mail/email-threads/t?account_email=sales%40shop.example',
    (api) => api.mail.getEmailThread('t', { account_email }),
  ],
  ['POST /orders/12/files/presign', (api) => api.files.presign(12, file), file],
  ['GET /orders/12/files?legacyThreadId=t', (api) => api.files.list(12, { legacyThreadId: 't' })],
  ['GET /orders/12/files', (api) => api.files.list(12, { legacyThreadId: undefined })],
  ['GET /me', (api) => api.me()],
  ['GET /order-statuses', (api) => api.orderStatuses()],
  ['GET /taxes', (api) => api.taxes()],
  ['POST /batch', (api) => api.batch(operations.map((each) => ({ ...each, ifMatch: undefined }))), { operations }],
  [
    'POST /batch',
    (api) => api.batch([3, '"3-ab"'].map((ifMatch) => ({ ...change, ifMatch }))),
    { operations: ['"3"', '"3-ab"'].map((if_match) => ({ ...change, if_match })) },
  ],
  ['POST /batch', (api) => api.batch(mixed), { operations: mixed }],
  [
    'GET /clients?sort=-updated_at&updated_since=2026-01-31T00%3A00%3A00Z&deleted=include&external_id=a%2F1',
    (api) => api.clients.list({ ...filters, external_id: 'a/1' }),
  ],
  ['GET /clients/by-external-id/a%2F1', (api) => api.clients.getByExternalId('a/1')],
  [
    'PUT /clients/by-external-id/a%2F1',
    (api) => api.clients.upsert('a/1', ELM, { ifMatch: undefined, ifNoneMatch: undefined }),
    ELM,
  ],
  [
    'GET /orders?status=1%2C2&q=regatta&expand=totals%2Cclient',
    (api) => api.orders.list({ status: [1, 2], q: 'regatta', expand: ['totals', 'client'] }),
  ],
  ['PUT /orders/by-external-id/a%2F1', (api) => api.orders.upsert('a/1', CAPS, { ifNoneMatch: undefined }), CAPS],
  ['PUT /orders/12/invoice-items', (api) => api.orders.putInvoiceItems(12, items), { items }],
  ['POST /orders/12/payments', (api) => api.orders.addPayment(12, payment), payment],
  ['PATCH /orders/12/payments/3', (api) => api.orders.updatePayment(12, 3, { note: null }), { note: null }],
  ['DELETE /orders/12/payments/3', (api) => api.orders.deletePayment(12, 3)],
  [
    'PUT /mail/threads/t%3A1',
    (api) => api.mail.putThreadContext('t:1', { client_id: 1, orders_data: [{ id: 12 }] }),
    { client_id: 1, orders_data: [{ id: 12 }] },
  ],
  ['DELETE /mail/threads/t', (api) => api.mail.deleteThreadContext('t')],
  ['GET /mail/threads?order_id=12', (api) => api.mail.threadContexts.list({ order_id: 12 })],
  [
    'GET /mail/email-threads?account_email=sales%40shop.example',
    (api) => api.mail.emailThreads.list({ account_email }),
  ],
  [
    'DELETE /mail/email-threads/t?account_email=sales%40shop.example',
    (api) => api.mail.deleteEmailThread('t', { account_email }),
  ],
  ['GET /orders/12/files/download?path=orders%2F1%2F12%2Fa+b', (api) => api.files.download(12, 'orders/1/12/a b')],
  ['DELETE /orders/12/files?path=orders%2F1%2F12%2Fa', (api) => api.files.delete(12, 'orders/1/12/a')],
  [
    'GET /changes?cursor=c&types=clients%2Corders',
    (api) => api.changes.list({ cursor: 'c', types: ['clients', 'orders'] }),
  ],
  [
    'GET /changes',
    (api) => api.changes.list({ cursor: undefined, types: undefined, wait: undefined, expand: undefined }),
  ],
  [
    'GET /changes?per_page=1000',
    (api) => api.changes.pages({ types: undefined, per_page: undefined, expand: undefined }).next(),
  ],
  ['GET /changes?types=orders&start=latest', (api) => api.changes.latestCursor({ types: ['orders'] })],
]

const UNDEFINED = { maxRetries: undefined, timeoutMs: undefined, pace: undefined, sleep: undefined, onRetry: undefined }

it.each(CALLS)('%s', async (line, call, body = null) => {
  const sent: unknown[] = []
  const api = clientWith(async (url, init) => {
    const sentLine = `${init.method} ${url.replace('http://127.0.0.1/api/v1', '')}`
    sent.push([sentLine, JSON.parse(String(init.body ?? 'null')), Object.fromEntries(new Headers(init.headers))])
    return Response.json(ANSWER)
  }, UNDEFINED)
  await call(api)
  // A read, which presigning is too, and a PUT have no key.
  const hasKey = /^(POST|PATCH|DELETE)/.test(line) && !line.endsWith('/presign')
  const headers = {
    accept: 'application/json',
    authorization: `Bearer ${TOKEN}`,
    ...(hasKey && { 'idempotency-key': expect.stringMatching(/^[0-9a-f]{32}$/) }),
    ...(body !== null && { 'content-type': 'application/json' }),
  }
  expect(sent).toEqual([[line, body, headers]])
})

it('a context is put as it was read', () => {
  expectTypeOf<ThreadContext>().toExtend<ThreadContextBody>()
})

describe('a tagged read', () => {
  it.each([
    ['clients', { client: { id: 1 } }, { id: 1 }],
    ['orders', { project: { id: 1 } }, { project: { id: 1 } }],
  ] as const)('of %s returns it with its etag, or that it is not modified', async (list, body, value) => {
    const responses = [Response.json(body, { headers: { etag: '"3"' } }), new Response(null, { status: 304 })]
    const sent: (string | null)[] = []
    const api = clientWith(async (_url, init) => {
      sent.push(new Headers(init.headers).get('if-none-match'))
      return responses.shift() ?? Response.error()
    })
    const read = () => api[list].getTagged(1, { ifNoneMatch: '"2"' })
    expect(await read()).toEqual({ notModified: false, value, etag: '"3"' })
    expect(await read()).toEqual({ notModified: true, value: null, etag: '"2"' })
    expect(sent).toEqual(['"2"', '"2"'])
  })
})
