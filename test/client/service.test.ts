import { describe, expect, it } from 'vitest'
import type { PullState } from '../../src/client/index.ts'
import { mintCompany, sql, type TestCompany } from '../support/app.ts'
import { stopTime } from '../support/time.ts'
import { loseAllButEvery, openClient } from './service.ts'

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
