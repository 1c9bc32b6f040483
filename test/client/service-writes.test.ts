import { describe, expect, it } from 'vitest'
import type { ApiClient, PushResult } from '../../src/client/index.ts'
import { mintCompany } from '../support/app.ts'
import { fetchService, loseAllButEvery, openClient } from './service.ts'

/* Batches, external ids, invoices and payments of the service, through the client. Half of the responses are lost. */

const open = async () => openClient(await mintCompany(), loseAllButEvery(2))

describe('an upsert', () => {
  it('creates the client of an external id once, and then replaces it', async () => {
    const api = await open()
    const created = await api.clients.upsert('crm/7 é', { company_name: 'Oak', phone: '1' })
    expect(created).toMatchObject({ external_id: 'crm/7 é', company_name: 'Oak', phone: '1' })
    const replaced = await api.clients.upsert('crm/7 é', { company_name: 'Elm' })
    expect(replaced).toMatchObject({ id: created.id, company_name: 'Elm', phone: null })
    expect(await api.clients.getByExternalId('crm/7 é')).toEqual(replaced)
    expect((await api.clients.list()).pagination.total).toBe(1)
  })

  it('of another version than the current one is rejected', async () => {
    const api = openClient(await mintCompany())
    const { version } = await api.clients.upsert('a', { company_name: 'Oak' })
    await api.clients.upsert('a', { company_name: 'Elm' }, { ifMatch: version })
    const stale = api.clients.upsert('a', { company_name: 'Ash' }, { ifMatch: version })
    await expect(stale).rejects.toMatchObject({ status: 412, reason: 'version_mismatch' })
  })

  it('only creates with ifNoneMatch', async () => {
    const api = openClient(await mintCompany())
    const only = { ifNoneMatch: '*' } as const
    await api.clients.upsert('a', { company_name: 'Oak' }, only)
    const again = api.clients.upsert('a', { company_name: 'Elm' }, only)
    await expect(again).rejects.toMatchObject({ status: 412, reason: 'already_exists' })
    expect(await api.clients.getByExternalId('a')).toMatchObject({ company_name: 'Oak', version: 1 })
  })
})

describe('a PUT with a condition', () => {
  it('whose response is lost rejects with that loss, not with the 412 of a second attempt', async () => {
    const shop = await mintCompany()
    const api = openClient(shop)
    const lossy = () => openClient(shop, loseAllButEvery(2))
    const loss = { status: 0, code: 'network_error' }

    await expect(lossy().clients.upsert('a', { company_name: 'Oak' }, { ifNoneMatch: '*' })).rejects.toMatchObject(loss)
    const client = await api.clients.getByExternalId('a')
    expect(client).toMatchObject({ company_name: 'Oak', version: 1 })
    const replacing = lossy().clients.upsert('a', { company_name: 'Elm' }, { ifMatch: client.version })
    await expect(replacing).rejects.toMatchObject(loss)
    expect(await api.clients.get(client.id)).toMatchObject({ company_name: 'Elm', version: 2 })

    const order = { title: 'Caps', client_id: client.id }
    await expect(lossy().orders.upsert('o', order, { ifNoneMatch: '*' })).rejects.toMatchObject(loss)
    const { project } = await api.orders.upsert('o', order)
    const items = [{ title: 'Caps', quantity: 2, unit_price: 5 }]
    const setting = lossy().orders.putInvoiceItems(project.id, items, { ifMatch: project.version })
    await expect(setting).rejects.toMatchObject(loss)
    expect((await api.orders.get(project.id)).invoice_items).toMatchObject(items)
  })
})

describe('a batch', () => {
  it('has a result for each operation, and is carried out once', async () => {
    const api = await open()
    const { id, version } = await api.clients.create({ company_name: 'Oak' })
    const { results, transactions } = await api.batch([
      { method: 'POST', path: '/clients', body: { company_name: 'Elm' } },
      { method: 'PATCH', path: `/clients/${id}`, body: { phone: '1' }, ifMatch: version },
      { method: 'PATCH', path: `/clients/${id}`, body: { phone: '2' }, ifMatch: version },
      { method: 'PUT', path: '/clients/by-external-id/a%2F1', body: { company_name: 'Ash' } },
      { method: 'POST', path: '/orders', body: { title: 'Caps', client_id: id } },
      { method: 'PATCH', path: '/orders/999', body: { title: 'Hats' } },
    ])
    expect(results.map(({ status }) => status)).toEqual([200, 200, 412, 200, 200, 404])
    expect(results[3]?.body).toMatchObject({ client: { external_id: 'a/1' } })
    expect(transactions).toBeGreaterThan(0)
    expect((await api.clients.list()).pagination.total).toBe(3)
    expect((await api.orders.list()).pagination.total).toBe(1)
  })

  it('counts as its number of requests in the rate budget', async () => {
    const api = openClient(await mintCompany())
    await api.clients.list()
    const before = api.readRateBudget()?.requests.remaining ?? 0
    await api.batch(Array(10).fill({ method: 'POST', path: '/clients', body: { company_name: 'Oak' } }))
    expect(api.readRateBudget()?.requests.remaining).toBe(before - 10)
  })
})

describe('a push', () => {
  const push = async (items: Parameters<ApiClient['push']>[0]) => {
    const sent: string[] = []
    const api = openClient(await mintCompany(), undefined, {
      fetch: async (url, init) => {
        const { operations }: { operations: { path: string }[] } = JSON.parse(String(init.body))
        sent.push(...operations.map(({ path }) => path.replace(/\/by-external-id\//, ' ')))
        return fetchService(url, init)
      },
    })
    const results: PushResult[] = []
    for await (const some of api.push(items)) results.push(...some)
    return { sent, results }
  }
  const order = (external_id: string, client: string) => ({ external_id, client, title: 'Caps' })

  it('sends no order of a client that failed: it gets the result of its client', async () => {
    const { sent, results } = await push({
      clients: [
        { external_id: 'bad', company_name: '' },
        { external_id: 'good', company_name: 'Oak' },
      ],
      orders: [order('o1', 'bad'), order('o2', 'good'), order('o3', 'bad')],
    })
    expect(sent).toEqual(['/clients bad', '/clients good', '/orders o2'])
    const [failed] = results
    expect(failed).toMatchObject({ status: 400, body: { error: { details: { issues: [{ path: 'company_name' }] } } } })
    expect(results.slice(2)).toMatchObject([
      { ...failed, type: 'orders', external_id: 'o1' },
      { type: 'orders', external_id: 'o2', status: 200 },
      { ...failed, type: 'orders', external_id: 'o3' },
    ])
  })

  it('sends no order of a client that is not pushed: its result names both', async () => {
    const clients = [{ external_id: 'good', company_name: 'Oak' }]
    const { sent, results } = await push({ clients, orders: [order('o1', 'nope'), order('o2', 'good')] })
    expect(sent).toEqual(['/clients good', '/orders o2'])
    const message = 'order o1 names the client nope, which is not pushed'
    expect(results.slice(1)).toMatchObject([
      { type: 'orders', external_id: 'o1', status: 400, transaction: null, body: { error: { message } } },
      { type: 'orders', external_id: 'o2', status: 200 },
    ])
  })

  it('sends the others beside an element with which the API refuses every batch', async () => {
    const [half, long, good] = ['\ud800', '漢'.repeat(500), 'good']
    const { sent, results } = await push({
      clients: [half, long, good].map((external_id) => ({ external_id, company_name: 'Oak' })),
      orders: [{ ...order('large', good), client_notes: 'x'.repeat(1_100_000) }, order('small', good)],
    })
    expect(sent).toEqual(['/clients good', '/orders small'])
    expect(results.map((each) => [each.external_id, each.status])).toEqual([
      [half, 400],
      [long, 400],
      [good, 200],
      ['large', 413],
      ['small', 200],
    ])
  })

  it('sends an order whose client failed at first, and no batch without an operation', async () => {
    const clients = ['', 'Oak'].map((company_name) => ({ external_id: 'a', company_name }))
    const again = await push({ clients, orders: [order('o1', 'a')] })
    expect(again.results.map(({ status }) => status)).toEqual([400, 200, 200])
    const none = await push({ clients: clients.slice(0, 1), orders: [order('o1', 'a')] })
    expect(none.sent).toEqual(['/clients a'])
    expect(none.results.map(({ type, status }) => [type, status])).toEqual([
      ['clients', 400],
      ['orders', 400],
    ])
  })
})

describe('an order', () => {
  it('gets lines and payments once each, and its totals follow', async () => {
    const api = await open()
    const { id: client_id } = await api.clients.create({ company_name: 'Oak' })
    const { project } = await api.orders.create({ title: 'Caps', client_id })
    const { invoice, invoice_items } = await api.orders.putInvoiceItems(project.id, [
      { title: 'Caps', quantity: 10, unit_price: 9.5 },
      { title: 'Shipping', unit_price: 5 },
    ])
    expect(invoice).toMatchObject({ subtotal: 100, balance_due: 100 })
    expect(invoice_items).toMatchObject([{ title: 'Caps', quantity: 10 }, { title: 'Shipping' }])

    const paid = await api.orders.addPayment(project.id, { amount: 40, method: 'card' })
    expect(paid).toMatchObject({ payment: { amount: 40 }, invoice: { amount_paid: 40, balance_due: 60 } })
    const full = await api.orders.get(project.id)
    expect(full.payments).toHaveLength(1)
    const removed = await api.orders.deletePayment(project.id, paid.payment.id)
    expect(removed.invoice).toMatchObject({ amount_paid: 0, balance_due: 100 })

    const [first] = invoice_items
    const kept = await api.orders.putInvoiceItems(project.id, [{ id: first?.id ?? 0, title: 'Caps', quantity: 5 }])
    expect(kept.invoice_items).toMatchObject([{ id: first?.id, quantity: 5 }])
  })
})
