import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { mintCompany, mintToken, request, send, type TestCompany } from '../../support/app.ts'
import { contracts, endpoints, exampleOf, nameOf } from '../../support/endpoints.ts'
import { measureHops } from '../../support/hops.ts'
import { addItem, insert } from '../../support/rows.ts'
import { defaultDepth } from '../db/budgets.ts'
import { refuse, withLimiter } from '../gate/support.ts'

/*
 * How many waits for the network stand one behind the other, per endpoint: the budget of the architecture, counted at
 * the bindings and not by the clock.
 */
const MAILBOX = 'box@x.example'

let company: TestCompany
let token: string
let clientId: number
let orderId: number
let paymentId: number

await open()

async function open(): Promise<void> {
  company = await mintCompany({ home: 'DB' })
  clientId = (await company.call('POST', '/clients', { company_name: 'a tee', email: 'a@x.example' })).body.client.id
  const order = (await company.call('POST', '/orders', { title: 'a', client_id: clientId })).body
  orderId = order.project.id
  await addItem(company, order.invoice.id, { id: 1 })
  paymentId = (await company.call('POST', `/orders/${orderId}/payments`, { amount: 1 })).body.payment.id
  await company.call('PUT', '/clients/by-external-id/shop-1', { company_name: 'a' })
  await insert('thread_contexts', {
    company_id: company.id,
    thread_id: 't',
    legacy_thread_id: 't',
    client_id: String(clientId),
    fetched_at: 0,
    updated_at: 0,
  })
  await company.call('PUT', '/mail/email-threads/t', { account_email: MAILBOX, messages: [{ id: '1' }] })
  await env.FILES.put(`orders/${company.id}/${orderId}/a`, 'a')
  token = await mintToken(company.id)
}

const budget: Record<string, [depth: number, path: () => string, body?: () => unknown][]> = {
  'GET /me': [[2, () => '/me']],
  'GET /order-statuses': [[2, () => '/order-statuses']],
  'GET /taxes': [[2, () => '/taxes']],
  'GET /changes': [
    [3, () => '/changes'],
    [3, () => '/changes?start=latest'],
  ],
  'GET /clients': [
    [2, () => '/clients'],
    [2, () => '/clients?q=a%20tee'],
    [2, () => '/clients?q=a'],
    [2, () => '/clients?q=a&sort=-updated_at&deleted=include&updated_since=2026-01-01T00:00:00Z'],
  ],
  'GET /clients/{id}': [
    [2, () => `/clients/${clientId}`],
    [2, () => '/clients/a%40x.example'],
  ],
  'POST /clients': [[2, () => '/clients', () => ({ company_name: 'b' })]],
  'PATCH /clients/{id}': [
    [2, () => `/clients/${clientId}`, () => ({ phone: '1' })],
    [2, () => '/clients/a%40x.example', () => ({ phone: '2' })],
  ],
  'GET /clients/by-external-id/{external_id}': [[2, () => '/clients/by-external-id/shop-1']],
  'PUT /clients/by-external-id/{external_id}': [
    [2, () => '/clients/by-external-id/shop-1', () => ({ company_name: 'a' })],
  ],
  'GET /orders': [
    [2, () => '/orders'],
    [2, () => `/orders?client_id=${clientId}&from=2026-01-01`],
    [2, () => '/orders?q=a&sort=updated_at&deleted=include&expand=totals,client'],
  ],
  'GET /orders/{id}': [[2, () => `/orders/${orderId}`]],
  'POST /orders': [[2, () => '/orders', () => ({ title: 'a', client_id: clientId })]],
  'PATCH /orders/{id}': [
    [2, () => `/orders/${orderId}`, () => ({ title: 'b', client_id: clientId, discount_amount: 5 })],
  ],
  'DELETE /orders/{id}': [[2, () => `/orders/${orderId}`]],
  'PUT /orders/{id}/invoice-items': [
    [2, () => `/orders/${orderId}/invoice-items`, () => ({ items: [{ id: 1, title: 'a' }, { title: 'b' }] })],
  ],
  'POST /orders/{id}/payments': [[2, () => `/orders/${orderId}/payments`, () => ({ amount: 1 })]],
  'DELETE /orders/{id}/payments/{payment_id}': [[2, () => `/orders/${orderId}/payments/${paymentId}`]],
  'POST /batch': [
    [2, () => '/batch', () => ({ operations: [{ method: 'POST', path: '/clients', body: { company_name: 'c' } }] })],
  ],
  'GET /products/search': [[2, () => '/products/search?q=tee&include=local,lines']],
  'GET /products/{source}': [[2, () => '/products/invoice_item?id=1']],
  'GET /mail/threads/{legacyThreadId}': [[2, () => '/mail/threads/t']],
  'GET /mail/threads': [
    [2, () => `/mail/threads?client_id=${clientId}`],
    [2, () => `/mail/threads?order_id=${orderId}`],
  ],
  'GET /mail/email-threads': [[2, () => `/mail/email-threads?account_email=${MAILBOX}`]],
  'DELETE /mail/email-threads/{legacyThreadId}': [[2, () => `/mail/email-threads/t?account_email=${MAILBOX}`]],
  'PUT /mail/threads/{legacyThreadId}': [[2, () => '/mail/threads/t', () => ({ client_id: clientId })]],
  'DELETE /mail/threads/{legacyThreadId}': [[2, () => '/mail/threads/t']],
  'GET /mail/email-threads/{legacyThreadId}': [[2, () => `/mail/email-threads/t?account_email=${MAILBOX}`]],
  'PUT /mail/email-threads/{legacyThreadId}': [
    [2, () => '/mail/email-threads/t', () => ({ account_email: MAILBOX, messages: [{ id: '2' }] })],
  ],
  'POST /orders/{orderId}/files/presign': [
    [2, () => `/orders/${orderId}/files/presign`, () => ({ fileName: 'a', size: 1, legacyThreadId: 't' })],
  ],
  'GET /orders/{orderId}/files': [[2, () => `/orders/${orderId}/files`]],
  'GET /orders/{orderId}/files/download': [
    [2, () => `/orders/${orderId}/files/download?path=orders/${company.id}/${orderId}/a`],
  ],
}

describe('serial waits for the network', () => {
  it('have a budget for endpoints of the API only', () => {
    const names = contracts.map(nameOf)
    expect(Object.keys(budget).filter((name) => !names.includes(name))).toEqual([])
  })

  const others = endpoints.filter(([name]) => !(name in budget))
  it.each(others)('of the published example of %s stay within its default budget', async (_, contract) => {
    const { path, body } = exampleOf(contract)
    const { depth } = await measureHops(request(token, contract.method, path, body))
    expect(depth).toBeLessThanOrEqual(defaultDepth(contract))
  })

  it.each(Object.entries(budget))('of %s stay within it', async (name, requests) => {
    await open()
    const method = name.split(' ')[0] ?? ''
    for (const [depth, path, body] of requests) {
      const { response, hops, depth: measured } = await measureHops(request(token, method, path(), body?.()))
      expect(response.status, await response.clone().text()).toBeOneOf(name.includes('presign') ? [200, 409] : [200])
      expect(measured, `${path()}: ${JSON.stringify(hops)}`).toBe(depth)
      expect(hops.filter(({ name }) => name === 'RATE_LIMITER.admit')).toHaveLength(1)
      expect(hops.filter(({ name }) => name.startsWith('DB.')).length, JSON.stringify(hops)).toBe(1)
    }
  })

  it.each([
    ['GET', '/clients', undefined],
    ['POST', '/clients', { company_name: 'a' }],
  ])('are the same for the first %s of a token in an isolate and for later ones', async (method, path, body) => {
    const own = await mintToken(company.id)
    for (let i = 0; i < 3; i++) {
      const { hops } = await measureHops(request(own, method, path, body))
      expect(hops).toEqual([
        { name: 'RATE_LIMITER.admit', depth: 1 },
        { name: 'DB.batch', depth: 2 },
      ])
    }
  })

  it('are none for a request without a token, and none for a refused token until its reset', async () => {
    expect((await measureHops(request(null, 'GET', '/clients'))).depth).toBe(0)
    const token = await mintToken(company.id)
    const { bindings } = withLimiter(refuse)
    expect((await send(request(token, 'GET', '/clients'), { env: bindings })).status).toBe(429)
    const { response, depth } = await measureHops(request(token, 'GET', '/clients'))
    expect({ status: response.status, depth }).toEqual({ status: 429, depth: 0 })
  })
})
