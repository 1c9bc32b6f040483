import { beforeAll, describe, expect, it } from 'vitest'
import { CursorExpiredError } from '../../src/client/index.ts'
import { mintCompany, sql, type TestCompany } from '../support/app.ts'
import { stopTime } from '../support/time.ts'
import { loseAllButEvery, openClient } from './service.ts'

/* The client against the service itself. */

let company: TestCompany

beforeAll(async () => {
  company = await mintCompany()
})

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

  it('creates exactly as many as were asked for, whatever is lost', async () => {
    const shop = await mintCompany()
    const api = openClient(shop, () => Math.random() < 0.4, { maxRetries: 50 })
    const names = Array.from({ length: 15 }, (_, index) => `Client ${index}`)
    const created = await Promise.all(names.map((company_name) => api.clients.create({ company_name })))
    expect(new Set(created.map(({ id }) => id)).size).toBe(15)
    const stored = await sql<{ company_name: string }>('SELECT company_name FROM clients WHERE company_id = ?', shop.id)
    expect(stored.map(({ company_name }) => company_name).sort()).toEqual(names.sort())
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

describe('a version', () => {
  it('protects a change of another one, and survives a lost response', async () => {
    const api = openClient(company, loseAllButEvery(2))
    const client = await api.clients.create({ company_name: 'Oak' })
    const changed = await api.clients.update(client.id, { phone: '1' }, { ifMatch: client.version })
    expect(changed.version).toBe(client.version + 1)
    const stale = api.clients.update(client.id, { phone: '2' }, { ifMatch: client.version })
    await expect(stale).rejects.toMatchObject({ status: 412, reason: 'version_mismatch' })

    const { project } = await api.orders.create({ title: 'Caps', client_id: client.id })
    await api.orders.update(project.id, { title: 'Hats' }, { ifMatch: project.version })
    const remove = api.orders.delete(project.id, { ifMatch: project.version })
    await expect(remove).rejects.toMatchObject({ status: 412, reason: 'version_mismatch' })
  })

  it('lets an unchanged client and order be skipped, by tags that ifMatch takes as well', async () => {
    const api = openClient(company)
    const { id } = await api.clients.create({ company_name: 'Oak' })
    const client = await api.clients.getTagged(id)
    expect(client).toMatchObject({ notModified: false, value: { id } })
    expect(await api.clients.getTagged(id, { ifNoneMatch: client.etag })).toMatchObject({ notModified: true })
    await api.clients.update(id, { phone: '1' }, { ifMatch: client.etag ?? '' })
    expect(await api.clients.getTagged(id, { ifNoneMatch: client.etag })).toMatchObject({ notModified: false })

    const { project } = await api.orders.create({ title: 'Caps', client_id: id })
    const order = await api.orders.getTagged(project.id)
    expect(await api.orders.getTagged(project.id, { ifNoneMatch: order.etag })).toMatchObject({ notModified: true })
    await api.orders.update(project.id, { title: 'Hats' }, { ifMatch: order.etag ?? '' })
    expect(await api.orders.getTagged(project.id, { ifNoneMatch: order.etag })).toMatchObject({ notModified: false })
  })
})

describe('an error', () => {
  it('lists everything wrong with the request', async () => {
    const call = openClient(company).clients.create({ company_name: '', email: 'x' })
    await expect(call).rejects.toMatchObject({
      status: 400,
      issues: [
        { path: 'company_name', message: expect.any(String) },
        { path: 'email', message: expect.any(String) },
      ],
    })
  })

  it('of an external id that is taken has its reason', async () => {
    const api = openClient(company)
    await api.clients.create({ company_name: 'Oak', external_id: 'taken' })
    const call = api.clients.create({ company_name: 'Elm', external_id: 'taken' })
    await expect(call).rejects.toMatchObject({ status: 409, reason: 'external_id_taken' })
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
  it('are walked from a cursor on, in the order of their commits', async () => {
    const api = openClient(await mintCompany())
    const { id } = await api.clients.create({ company_name: 'Before' })
    const cursor = await api.changes.latestCursor()
    await api.clients.update(id, { deleted: true })
    const { project } = await api.orders.create({ title: 'Caps', client_id: id }).catch(async () => {
      await api.clients.update(id, { deleted: false })
      return api.orders.create({ title: 'Caps', client_id: id })
    })
    await api.orders.delete(project.id)
    const seen: string[] = []
    let last = cursor
    for await (const { data, pagination } of api.changes.pages({ cursor, per_page: 1 })) {
      seen.push(...data.map((change) => `${change.operation} ${change.type} ${change.id} ${change.version}`))
      last = pagination.next_cursor
    }
    expect(seen).toEqual([
      `delete clients ${id} 2`,
      `update clients ${id} 3`,
      `create orders ${project.id} 1`,
      `delete orders ${project.id} 2`,
    ])
    const rest: unknown[] = []
    for await (const { data } of api.changes.pages({ cursor: last })) rest.push(...data)
    expect(rest).toEqual([])
    const clients: unknown[] = []
    for await (const { data } of api.changes.pages({ types: ['clients'] })) clients.push(...data)
    expect(clients).toHaveLength(3)
  })

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

  it('that are no longer kept reject with a CursorExpiredError', async () => {
    const shop = await mintCompany()
    const api = openClient(shop)
    const cursor = await api.changes.latestCursor()
    await api.clients.create({ company_name: 'Oak' })
    await api.clients.create({ company_name: 'Elm' })
    await sql('DELETE FROM changes WHERE company_id = ?', shop.id)
    await expect(api.changes.pages({ cursor }).next()).rejects.toBeInstanceOf(CursorExpiredError)
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
