import { describe, expect, it } from 'vitest'
import { mintCompany, mintToken, request, send } from '../../support/app.ts'
import { contracts, endpoints, exampleOf, nameOf } from '../../support/endpoints.ts'
import { measureHops } from '../../support/hops.ts'
import { addItem, insert } from '../../support/rows.ts'
import { defaultDepth } from '../db/budgets.ts'
import { refuse, withLimiter } from '../gate/support.ts'

/*
 * How many waits for the network stand one behind the other, per endpoint: the budget of the architecture, counted at
 * the bindings and not by the clock. Those of files are in `test/resources/files/hops.test.ts`.
 */
const MAILBOX = 'box@x.example'

/** A company with one of everything that the requests below name. */
async function openShop() {
  const company = await mintCompany({ home: 'DB' })
  const client = await company.call('POST', '/clients', { company_name: 'a tee', email: 'a@x.example' })
  const clientId: number = client.body.client.id
  const order = (await company.call('POST', '/orders', { title: 'a', client_id: clientId })).body
  const orderId: number = order.project.id
  await addItem(company, order.invoice.id, { id: 1 })
  const { payment } = (await company.call('POST', `/orders/${orderId}/payments`, { amount: 1 })).body
  await company.call('PUT', '/clients/by-external-id/shop-1', { company_name: 'a' })
  await insert('thread_contexts', {
    ...{ company_id: company.id, thread_id: 't', legacy_thread_id: 't', client_id: String(clientId) },
    ...{ fetched_at: 0, updated_at: 0 },
  })
  await company.call('PUT', '/mail/email-threads/t', { account_email: MAILBOX, messages: [{ id: '1' }] })
  return { company, token: await mintToken(company.id), clientId, orderId, paymentId: payment.id as number }
}

type Shop = Awaited<ReturnType<typeof openShop>>

const shop = await openShop()
const { company, token } = shop

/** The serial waits of the others are two. */
const DEPTHS: Record<string, number> = { 'GET /changes': 3 }

const requestsOf = ({ clientId, orderId, paymentId }: Shop): Record<string, [path: string, body?: object][]> => ({
  'GET /me': [['/me']],
  'GET /order-statuses': [['/order-statuses']],
  'GET /taxes': [['/taxes']],
  'GET /changes': [['/changes'], ['/changes?start=latest']],
  'GET /clients': [
    ['/clients'],
    ['/clients?q=a%20tee'],
    ['/clients?q=a'],
    ['/clients?q=a&sort=-updated_at&deleted=include&updated_since=2026-01-01T00:00:00Z'],
  ],
  'GET /clients/{id}': [[`/clients/${clientId}`], ['/clients/a%40x.example']],
  'POST /clients': [['/clients', { company_name: 'b' }]],
  'PATCH /clients/{id}': [
    [`/clients/${clientId}`, { phone: '1' }],
    ['/clients/a%40x.example', { phone: '2' }],
  ],
  'GET /clients/by-external-id/{external_id}': [['/clients/by-external-id/shop-1']],
  'PUT /clients/by-external-id/{external_id}': [['/clients/by-external-id/shop-1', { company_name: 'a' }]],
  'GET /orders': [
    ['/orders'],
    [`/orders?client_id=${clientId}&from=2026-01-01`],
    ['/orders?q=a&sort=updated_at&deleted=include&expand=totals,client'],
  ],
  'GET /orders/{id}': [[`/orders/${orderId}`]],
  'POST /orders': [['/orders', { title: 'a', client_id: clientId }]],
  'PATCH /orders/{id}': [[`/orders/${orderId}`, { title: 'b', client_id: clientId, discount_amount: 5 }]],
  'DELETE /orders/{id}': [[`/orders/${orderId}`]],
  'PUT /orders/{id}/invoice-items': [
    [`/orders/${orderId}/invoice-items`, { items: [{ id: 1, title: 'a' }, { title: 'b' }] }],
  ],
  'POST /orders/{id}/payments': [[`/orders/${orderId}/payments`, { amount: 1 }]],
  'DELETE /orders/{id}/payments/{payment_id}': [[`/orders/${orderId}/payments/${paymentId}`]],
  'POST /batch': [['/batch', { operations: [{ method: 'POST', path: '/clients', body: { company_name: 'c' } }] }]],
  'GET /products/search': [['/products/search?q=tee&include=local,lines']],
  'GET /products/{source}': [['/products/invoice_item?id=1']],
  'GET /mail/threads/{legacyThreadId}': [['/mail/threads/t']],
  'GET /mail/threads': [[`/mail/threads?client_id=${clientId}`], [`/mail/threads?order_id=${orderId}`]],
  'GET /mail/email-threads': [[`/mail/email-threads?account_email=${MAILBOX}`]],
  'DELETE /mail/email-threads/{legacyThreadId}': [[`/mail/email-threads/t?account_email=${MAILBOX}`]],
  'PUT /mail/threads/{legacyThreadId}': [['/mail/threads/t', { client_id: clientId }]],
  'DELETE /mail/threads/{legacyThreadId}': [['/mail/threads/t']],
  'GET /mail/email-threads/{legacyThreadId}': [[`/mail/email-threads/t?account_email=${MAILBOX}`]],
  'PUT /mail/email-threads/{legacyThreadId}': [
    ['/mail/email-threads/t', { account_email: MAILBOX, messages: [{ id: '2' }] }],
  ],
})
const measuredNames = Object.keys(requestsOf(shop))

describe('serial waits for the network', () => {
  it('have a budget for endpoints of the API only', () => {
    const names = contracts.map(nameOf)
    expect(measuredNames.filter((name) => !names.includes(name))).toEqual([])
  })

  const others = endpoints.filter(([name]) => !measuredNames.includes(name))
  it.each(others)('of the published example of %s stay within its default budget', async (_, contract) => {
    const { path, body } = exampleOf(contract)
    const { depth } = await measureHops(request(token, contract.method, path, body))
    expect(depth).toBeLessThanOrEqual(defaultDepth(contract))
  })

  it.each(measuredNames)('of %s stay within it', async (name) => {
    const method = name.split(' ')[0] ?? ''
    // What it deletes, no other test needs.
    const own = method === 'DELETE' ? await openShop() : shop
    for (const [path, body] of requestsOf(own)[name] ?? []) {
      const { response, hops, depth } = await measureHops(request(own.token, method, path, body))
      expect(response.status, await response.clone().text()).toBe(200)
      expect(depth, `${path}: ${JSON.stringify(hops)}`).toBe(DEPTHS[name] ?? 2)
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
