import { describe, expect, it } from 'vitest'
import { type ApiClient, type PullState, type PushResult, syncAttachments } from '../../src/client/index.ts'
import { mintCompany, sql, type TestCompany } from '../support/app.ts'
import { stopTime } from '../support/time.ts'
import { fetchService, loseAllButEvery, openClient } from './support.ts'

/* The client against the service itself. */

const countRows = async (table: string, { id }: TestCompany) =>
  (await sql<{ count: number }>(`SELECT count(*) AS count FROM ${table} WHERE company_id = ?`, id))[0]?.count

describe('a write whose responses are lost', () => {
  it('is carried out once, and its response is that of the first attempt', async () => {
    const shop = await mintCompany()
    const api = openClient(shop, loseAllButEvery(4))
    const client = await api.clients.create({ company_name: 'Oak' })
    expect(client).toMatchObject({ company_name: 'Oak', version: 1 })
    expect(await api.clients.update(client.id, { phone: '1' })).toMatchObject({ id: client.id, phone: '1', version: 2 })

    const order = await api.orders.create({ title: 'Caps', client_id: client.id })
    const { project } = await api.orders.update(order.project.id, { title: 'Hats' })
    expect(project).toMatchObject({ title: 'Hats', version: 2 })
    expect(await api.orders.delete(project.id)).toMatchObject({ project: { deleted: true, version: 3 } })
    await expect(api.orders.delete(project.id)).rejects.toMatchObject({ status: 404 })
    expect([await countRows('clients', shop), await countRows('orders', shop)]).toEqual([1, 1])
  })

  it('is carried out once across processes with the caller’s own key', async () => {
    const shop = await mintCompany()
    const body = { company_name: 'Oak' }
    const crashed = openClient(shop, () => true, { maxRetries: 0 }).clients.create(body, { idempotencyKey: 'job-7' })
    await expect(crashed).rejects.toMatchObject({ status: 0, code: 'network_error' })
    const { id } = await openClient(shop).clients.create(body, { idempotencyKey: 'job-7' })
    expect((await openClient(shop).clients.get(id)).company_name).toBe('Oak')
    expect(await countRows('clients', shop)).toBe(1)
    const reused = openClient(shop).clients.create({ company_name: 'Elm' }, { idempotencyKey: 'job-7' })
    await expect(reused).rejects.toMatchObject({ status: 400, reason: 'idempotency_key_reused' })
  })
})

it('the token, the statuses and the taxes can be found', async () => {
  const shop = await mintCompany()
  const api = openClient(shop)
  expect(await api.me()).toMatchObject({ company: { id: shop.id }, limits: { requests_per_minute: 300 } })
  expect(await api.orderStatuses()).toMatchObject([{ title: 'New', is_default: true }, { title: 'Printing' }])
  expect(await api.taxes()).toMatchObject([{ name: 'State', rate: 8.25 }])
})

describe('changes', () => {
  it('come with their objects in pages and while they are followed', async () => {
    const api = openClient(await mintCompany())
    const cursor = await api.changes.latestCursor({ types: ['clients'] })
    const { id } = await api.clients.create({ company_name: 'Oak' })
    const query = { cursor, types: ['clients'], expand: 'object' } as const
    const page = { clients: [{ id, company_name: 'Oak' }] }
    expect((await api.changes.pages(query).next()).value).toMatchObject(page)
    expect((await api.changes.follow(query).next()).value).toMatchObject(page)
  })

  it('are followed as they happen', async () => {
    const api = openClient(await mintCompany())
    const stop = new AbortController()
    const cursor = await api.changes.latestCursor({ types: ['clients'] })
    const follow = api.changes.follow({ cursor, types: ['clients'], signal: stop.signal })
    const first = follow.next()
    const { id } = await api.clients.create({ company_name: 'Oak' })
    expect((await first).value?.data).toMatchObject([{ type: 'clients', id, operation: 'create', version: 1 }])
    const second = follow.next()
    setTimeout(() => stop.abort(new Error('closed')), 50)
    await expect(second).rejects.toThrow('closed')
  })
})

it('the rate budget is what the service counts', async () => {
  stopTime()
  const api = openClient(await mintCompany())
  expect(api.readRateBudget()).toBeNull()
  await api.clients.list()
  await api.clients.list()
  const budget = api.readRateBudget()
  expect(budget).toMatchObject({ requests: { limit: 300, remaining: 298 }, databaseMs: { limit: 15_000 } })
  expect(budget?.requests.resetsAt).toBeGreaterThan(Date.now() + 50_000)
})

it('a walk continues from a stored cursor, in another process', async () => {
  const shop = await mintCompany()
  const api = openClient(shop)
  const ids: number[] = []
  for (let index = 0; index < 5; index += 1) ids.push((await api.clients.create({ company_name: 'Oak' })).id)
  const { value: first } = await api.clients.pages({ sort: 'id', per_page: 2 }).next()
  const cursor = first?.pagination.next_cursor ?? undefined
  const rest: number[] = []
  for await (const { id } of openClient(shop).clients.all({ sort: 'id', per_page: 2, cursor })) rest.push(id)
  expect(rest).toEqual(ids.slice(2))
})

describe('a pull', () => {
  it('has every part of its orders, from the lists and from the changes', async () => {
    const api = openClient(await mintCompany(), loseAllButEvery(2))
    const { id: client_id } = await api.clients.create({ company_name: 'Oak' })
    const { project } = await api.orders.create({ title: 'Caps', client_id })
    let state: PullState | undefined
    for (const title of ['Caps', 'Hats']) {
      await api.orders.update(project.id, { title })
      const seen: [title: string, company: string, lines: number, balance: number | undefined][] = []
      for await (const { orders, state: next } of api.pull(state)) {
        for (const { title, client, invoice_items, totals } of orders) {
          seen.push([title, client.company_name, invoice_items.length, totals?.balance_due])
        }
        state = next
      }
      expect(seen.at(-1)).toEqual([title, 'Oak', 0, 0])
    }
  })
})

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

/* Mail and files of the service, through the client. */

const account_email = 'orders@shop.example'

describe('a mail thread', () => {
  it('is linked, stored with its attachment, read back and deleted', async () => {
    const api = openClient(await mintCompany())
    const { id: client_id } = await api.clients.create({ company_name: 'Harbor Rowing Club' })
    const { project } = await api.orders.create({ title: 'Jerseys', client_id })
    const messages = [{ id: 'm1', attachments: [{ filename: 'crest (1).txt', mime_type: 'text/plain' }] }]
    const sync = () =>
      syncAttachments(api, {
        legacyThreadId: 't1',
        accountEmail: account_email,
        thread: { subject: 'Jerseys', messages },
        loadAttachment: () => new TextEncoder().encode('bytes ✓'),
        storeThread: 'always',
      })

    // A new mail is stored before anyone knows its order.
    expect(await sync()).toMatchObject({ status: 'skipped', reason: 'no_context', emailThread: { message_count: 1 } })
    const context = await api.mail.putThreadContext('t1', { client_id, orders_data: [{ id: project.id }] })
    expect(context).toMatchObject({ legacy_thread_id: 't1', client_id: String(client_id) })
    for (const query of [{ order_id: project.id }, { client_id }]) {
      expect((await api.mail.threadContexts.list(query)).data).toEqual([context])
    }

    const result = await sync()
    if (result.status !== 'stored') throw new Error(`The thread was skipped: ${result.reason}`)
    const [{ path } = { path: '' }] = (await api.files.list(project.id)).files
    expect(result.attachments).toMatchObject([{ status: 'uploaded', storageKey: path }])
    const download = await api.files.download(project.id, path)
    expect(download).toMatchObject({ path, objectName: 'crest (1).txt', contentType: 'text/plain', expiresIn: 600 })
    const response = await fetchService(download.downloadUrl)
    expect(await response.text()).toBe('bytes ✓')

    expect(await api.files.delete(project.id, path)).toMatchObject({ path })
    expect((await api.files.list(project.id)).files).toEqual([])
    await api.orders.delete(project.id)
    const skipped = { status: 'skipped', reason: 'order_not_found', emailThread: { message_count: 1 } }
    expect(await sync()).toMatchObject(skipped)
    await expect(api.files.download(project.id, path)).rejects.toMatchObject({ status: 404 })
    const { data } = await api.mail.emailThreads.list({ account_email })
    expect(await api.mail.deleteEmailThread('t1', { account_email })).toMatchObject({ id: data[0]?.id, deleted: true })
    await api.mail.deleteThreadContext('t1')
    await expect(api.mail.getThreadContext('t1')).rejects.toMatchObject({ status: 404 })
  })
})
