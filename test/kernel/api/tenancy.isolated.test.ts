import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { fold } from '../../../src/kernel/db/search.ts'
import { EXPANSIONS } from '../../../src/resources/orders/shapes.ts'
import { migrate, mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { contracts, nameOf } from '../../support/endpoints.ts'
import { insertion } from '../../support/rows.ts'

/*
 * Two companies whose rows all have the same ids. What one company stores holds its own word in every text, so that
 * whatever crosses over is seen, in an response or in a row.
 */
const THREAD = 'thread-1'
/** `BRAVO` stands for the company's id. */
const BRAVOS_FILE = `orders/BRAVO/1/email/${THREAD}/BRAVO.txt`
const MAILBOX = 'box@x.example'

let alpha: TestCompany
let bravo: TestCompany

beforeAll(migrate)

beforeEach(async () => {
  alpha = await mintCompany({ home: 'DB' })
  bravo = await mintCompany({ home: 'DB' })
  await seed(alpha, 'ALPHA')
  await seed(bravo, 'BRAVO')
})

async function seed({ id: company, call }: TestCompany, word: string) {
  const rows: [string, Record<string, unknown>][] = [
    ['order_statuses', { id: 1, title: word, color: word, workflow_key: word, is_default: 1 }],
    ['taxes', { id: 1, name: word, rate: 5 }],
    // The last has an email that the other company's client of another id has too.
    ...[1, 2, word === 'ALPHA' ? 7 : 8].map((id): [string, Record<string, unknown>] => [
      'clients',
      {
        id,
        external_id: `shop-${id}`,
        company_name: `${word} tee ${id}`,
        company_name_key: fold(`${word} tee ${id}`),
        email: `${Math.min(id, 7)}@x.example`,
        email_key: fold(`${Math.min(id, 7)}@x.example`),
        phone: '5550100',
        phone_key: '5550100',
        phone_digits: '5550100',
        tax_exempt_reason: word,
        created_at: 0,
        updated_at: 0,
      },
    ]),
    [
      'orders',
      {
        id: 1,
        title: word,
        client_id: 1,
        description: word,
        order_status_id: 1,
        created_date: '2026-01-01',
        created_at: 0,
        updated_at: 0,
      },
    ],
    [
      'invoices',
      { id: 1, project_id: 1, number: `${word}-1`, tax_id: 1, tax_exempt_reason: word, created_at: 0, updated_at: 0 },
    ],
    [
      'invoice_items',
      {
        id: 1,
        invoice_id: 1,
        title: `${word} tee`,
        description: word,
        quantity: 1,
        unit_price_cents: 100,
        search_text: fold(`${word} tee`),
      },
    ],
    ['payments', { id: 1, invoice_id: 1, amount_cents: 1, method: word, note: word }],
    ['artworks', { id: 1, project_id: 1, name: word, placements: JSON.stringify([word]), colors: '[]' }],
    [
      'catalog_items',
      { id: 1, title: `${word} tee`, description: word, price_cents: 100, search_text: fold(`${word} tee`) },
    ],
    [
      'thread_contexts',
      {
        thread_id: THREAD,
        legacy_thread_id: THREAD,
        client_id: '1',
        client_data: JSON.stringify({ id: 1, name: word }),
        orders_data: JSON.stringify([{ id: 1, title: word }]),
        fetched_at: 0,
        updated_at: 0,
      },
    ],
  ]
  await env.DB.batch(rows.map(([table, row]) => insertion(table, { company_id: company, ...row })))
  await env.FILES.put(`orders/${company}/1/email/${THREAD}/${word}.txt`, word)
  const body = { account_email: MAILBOX, subject: word, messages: [{ id: word }] }
  expect((await call('PUT', `/mail/email-threads/${THREAD}`, body)).status).toBe(200)
}

async function rowsOf(company: number): Promise<Record<string, unknown[]>> {
  const tables = await sql<{ name: string }>(
    `SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%company_id%' AND sql NOT LIKE 'CREATE VIRTUAL%'`,
  )
  expect(tables.length).toBeGreaterThan(10)
  const all: [string, unknown[]][] = []
  for (const { name } of tables) {
    if (name === 'api_tokens') continue
    all.push([name, await sql(`SELECT * FROM ${name} WHERE company_id = ?`, company)])
  }
  all.push(['companies', await sql('SELECT * FROM companies WHERE id = ?', company)])
  return Object.fromEntries(all)
}

/** A request of each endpoint for data that both companies have. */
const requests: Record<string, { path: string; body?: unknown }[]> = {
  'GET /clients': [
    { path: '/clients' },
    { path: '/clients?q=tee' },
    { path: '/clients?q=te' },
    { path: '/clients?q=5550100' },
    { path: '/clients?q=alpha' },
    { path: '/clients?sort=updated_at&deleted=include&updated_since=1970-01-01T00:00:00Z' },
    { path: '/clients?q=a&sort=-created_at&deleted=include' },
  ],
  'GET /clients/{id}': [
    { path: '/clients/1' },
    { path: '/clients/1%40x.example' },
    { path: '/clients/-?email=2@x.example' },
    { path: '/clients/7%40x.example' },
  ],
  'GET /orders': [
    { path: '/orders' },
    { path: '/orders?client_id=1' },
    { path: '/orders?status=1' },
    { path: '/orders?from=2026-01-01' },
    { path: '/orders?q=a&sort=id&deleted=include&expand=totals,client' },
    { path: '/orders?status=1,2&expand=totals,client' },
    { path: `/orders?deleted=include&expand=${EXPANSIONS}` },
    { path: '/orders?sort=-updated_at&updated_since=1970-01-01T00:00:00Z' },
  ],
  'GET /orders/{id}': [{ path: '/orders/1' }, { path: '/orders/1?deleted=include' }],
  'GET /orders/{id}/payments': [{ path: '/orders/1/payments' }],
  'GET /products/search': [
    { path: '/products/search' },
    { path: '/products/search?q=tee' },
    { path: '/products/search?q=te' },
  ],
  'GET /products/{source}': [{ path: '/products/invoice_item?id=1' }],
  'GET /mail/threads/{legacyThreadId}': [{ path: `/mail/threads/${THREAD}` }],
  'GET /mail/email-threads/{legacyThreadId}': [{ path: `/mail/email-threads/${THREAD}?account_email=${MAILBOX}` }],
  'GET /mail/threads': [{ path: '/mail/threads?order_id=1' }, { path: '/mail/threads?client_id=1' }],
  'GET /mail/email-threads': [{ path: `/mail/email-threads?account_email=${MAILBOX}` }],
  'GET /orders/{orderId}/files/download': [{ path: `/orders/1/files/download?path=${BRAVOS_FILE}` }],
  'GET /orders/{orderId}/files': [{ path: '/orders/1/files' }, { path: `/orders/1/files?legacyThreadId=${THREAD}` }],
  'POST /orders/{orderId}/files/presign': [
    { path: '/orders/1/files/presign', body: { fileName: 'a.txt', size: 1, legacyThreadId: THREAD } },
  ],
  'GET /me': [{ path: '/me' }],
  'GET /order-statuses': [{ path: '/order-statuses' }],
  'GET /taxes': [{ path: '/taxes' }],
  'GET /changes': [{ path: '/changes' }, { path: '/changes?start=latest' }, { path: '/changes?expand=object' }],
  'POST /clients': [{ path: '/clients', body: { company_name: 'BRAVO', email: '1@x.example' } }],
  'PATCH /clients/{id}': [
    { path: '/clients/1', body: { first_name: 'BRAVO' } },
    { path: '/clients/2%40x.example', body: { deleted: true } },
  ],
  'POST /orders': [{ path: '/orders', body: { title: 'BRAVO', client_id: 1, status_id: 1, tax_id: 1 } }],
  'PATCH /orders/{id}': [
    { path: '/orders/1', body: { title: 'BRAVO', tax_exempt: true, client_id: 1, status_id: 1, tax_id: 1 } },
    { path: '/orders/1', body: { deleted: false, invoice_items: [{ id: 1, title: 'BRAVO' }] } },
  ],
  'GET /clients/by-external-id/{external_id}': [{ path: '/clients/by-external-id/shop-1' }],
  'PUT /clients/by-external-id/{external_id}': [
    { path: '/clients/by-external-id/shop-2', body: { company_name: 'BRAVO' } },
    { path: '/clients/by-external-id/shop-3', body: { company_name: 'BRAVO' } },
  ],
  'PUT /orders/{id}/invoice-items': [
    { path: '/orders/1/invoice-items', body: { items: [{ title: 'BRAVO' }, { id: 1, title: 'BRAVO' }] } },
  ],
  'PUT /orders/by-external-id/{external_id}': [
    {
      path: '/orders/by-external-id/shop-1',
      body: { title: 'BRAVO', client_id: 1, invoice_items: [{ title: 'BRAVO' }], payments: [{ amount: 1 }] },
    },
    { path: '/orders/by-external-id/shop-9', body: { title: 'BRAVO', client_id: 1, tax_id: 1, status_id: 1 } },
  ],
  'PATCH /orders/{id}/payments/{payment_id}': [{ path: '/orders/1/payments/1', body: { note: 'BRAVO' } }],
  'DELETE /clients/{id}': [{ path: '/clients/2%40x.example' }],
  'POST /orders/{id}/payments': [{ path: '/orders/1/payments', body: { amount: 1 } }],
  'DELETE /orders/{id}/payments/{payment_id}': [{ path: '/orders/1/payments/1' }],
  'POST /batch': [
    {
      path: '/batch',
      body: {
        operations: [
          { method: 'PATCH', path: '/clients/1', body: { last_name: 'BRAVO' } },
          { method: 'PATCH', path: '/orders/1', body: { description: 'BRAVO' } },
          { method: 'POST', path: '/orders', body: { title: 'BRAVO', client_id: { $ref: '0.client.id' } } },
        ],
      },
    },
  ],
  'PUT /mail/email-threads/{legacyThreadId}': [
    {
      path: `/mail/email-threads/${THREAD}`,
      body: { account_email: MAILBOX, subject: 'BRAVO', messages: [{ id: 'BRAVO' }] },
    },
  ],
  'PUT /mail/threads/{legacyThreadId}': [
    { path: `/mail/threads/${THREAD}`, body: { client_id: 1, orders_data: [{ id: 1 }] } },
  ],
  'DELETE /mail/threads/{legacyThreadId}': [{ path: `/mail/threads/${THREAD}` }],
  'DELETE /mail/email-threads/{legacyThreadId}': [{ path: `/mail/email-threads/${THREAD}?account_email=${MAILBOX}` }],
  'DELETE /orders/{orderId}/files': [{ path: `/orders/1/files?path=${BRAVOS_FILE}` }],
  'DELETE /orders/{id}': [{ path: '/orders/1' }],
}

describe('two companies with the same ids', () => {
  it('are requested from every endpoint', () => {
    expect(Object.keys(requests).sort()).toEqual(contracts.map(nameOf).sort())
  })

  it.each(Object.entries(requests))('%s reads and writes the token’s company only', async (name, sent) => {
    const method = name.split(' ')[0] ?? ''
    const before = await rowsOf(alpha.id)
    for (const { path, body } of sent) {
      const response = await bravo.call(method, path.replace('/BRAVO/', `/${bravo.id}/`), body)
      expect(response.status, `${path}: ${JSON.stringify(response.body)}`).toBeOneOf(
        name.includes('presign') ? [200, 409] : [200],
      )
      const text = JSON.stringify([response.body, ...response.headers])
      expect(text).not.toContain('ALPHA')
      const holdsNames = method === 'GET' && !/alpha|^\/(me|changes)/.test(path)
      if (holdsNames) expect(text, path).toContain('BRAVO')
      expect(response.body.pagination?.total ?? 0).toBeLessThanOrEqual(3)
    }
    expect(await rowsOf(alpha.id)).toEqual(before)
  })

  it('leave what the other has as it was', async () => {
    expect((await bravo.call('PATCH', '/clients/1', { first_name: 'BRAVO' })).status).toBe(200)
    expect((await bravo.call('DELETE', '/orders/1')).status).toBe(200)
    expect((await alpha.call('GET', '/orders/1')).body).toMatchObject({
      project: { title: 'ALPHA', deleted: false },
      invoice: { number: 'ALPHA-1', tax_exempt: false },
      client: { company_name: 'ALPHA tee 1', first_name: null },
      artworks: [{ name: 'ALPHA' }],
    })
    expect((await bravo.call('GET', '/orders/1')).status).toBe(404)
  })
})
