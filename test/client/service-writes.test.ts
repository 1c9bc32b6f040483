import { describe, expect, it } from 'vitest'
import type { ApiClient, PushResult } from '../../src/client/index.ts'
import { mintCompany } from '../support/app.ts'
import { fetchService, loseAllButEvery, openClient } from './service.ts'

/* External ids and pushes to the service, through the client. */

describe('an upsert', () => {
  it('is rejected where its condition fails', async () => {
    const api = openClient(await mintCompany())
    const { version } = await api.clients.upsert('a', { company_name: 'Oak' }, { ifNoneMatch: '*' })
    await api.clients.upsert('a', { company_name: 'Elm' }, { ifMatch: version })
    const stale = api.clients.upsert('a', { company_name: 'Ash' }, { ifMatch: version })
    await expect(stale).rejects.toMatchObject({ status: 412, reason: 'version_mismatch' })
    const again = api.clients.upsert('a', { company_name: 'Ash' }, { ifNoneMatch: '*' })
    await expect(again).rejects.toMatchObject({ status: 412, reason: 'already_exists' })
    expect(await api.clients.getByExternalId('a')).toMatchObject({ company_name: 'Elm', version: 2 })
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
