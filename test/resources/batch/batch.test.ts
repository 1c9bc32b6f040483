import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import {
  type ApiResponse,
  call,
  eachValue,
  expect200,
  mintCompany,
  mintToken,
  request,
  send,
  sql,
} from '../../support/app.ts'
import { measureHops } from '../../support/hops.ts'
import { watchCalls } from '../../support/wrap-bindings.ts'
import { enableAccounting } from '../orders/support.ts'
import { batchesOf, create, creates, fresh, newOrder, type Sent, shapeOf, statusesOf } from './support.ts'

const company = await mintCompany()
const clientId: number = (await company.call('POST', '/clients', { company_name: 'First' })).body.client.id
const { run, count } = batchesOf(company)

describe('POST /batch', () => {
  it('carries out creates and updates in their order, in one transaction', async () => {
    const order = (await company.call('POST', '/orders', { title: 'A', client_id: clientId })).body.project.id
    const response = await run([
      { method: 'POST', path: '/clients', body: { company_name: 'New', email: ' new@x.example ' } },
      { method: 'PATCH', path: `/clients/${clientId}`, body: { phone: '1' } },
      { method: 'PATCH', path: '/clients/new%40x.example', body: { phone: '2' } },
      newOrder({ title: 'New', client_id: clientId, tax_id: 0 }),
      { method: 'PATCH', path: `/orders/${order}`, body: { title: 'B', discount_amount: 5 } },
      { method: 'PATCH', path: `/orders/${order}`, body: { title: 'C' }, if_match: '"2"' },
      { method: 'PUT', path: '/clients/by-external-id/a%2Fb', body: { company_name: 'Put' } },
    ])
    expect(response.status, JSON.stringify(response.body)).toBe(200)
    expect(shapeOf(response)).toEqual(Array(7).fill([200, 1]))
    expect(response.body.transactions).toBe(1)
    const [created, , byEmail, ordered, , changed, put] = response.body.results.map((each: ApiResponse) => each.body)
    expect(byEmail.client).toMatchObject({ id: created.client.id, email: 'new@x.example', phone: '2', version: 2 })
    expect((await company.call('GET', `/clients/${created.client.id}`)).body).toEqual(byEmail)
    expect((await company.call('GET', `/orders/${ordered.project.id}`)).body).toEqual(ordered)
    expect(changed).toMatchObject({ project: { title: 'C', version: 3 }, invoice: { discount_amount: 5 } })
    expect(put.client.external_id).toBe('a/b')
  })

  it('returns for a wrong operation what its own request would, and carries out the others', async () => {
    const invoice_items = Array(45).fill({ title: 'a', description: 'x'.repeat(9_000) })
    const wrong: Sent[] = [
      newOrder({ title: 'a', client_id: clientId, invoice_items }),
      { method: 'POST', path: '/clients', body: {} },
      { method: 'POST', path: '/clients', body: { company_name: 'A', company_id: 1 } },
      { method: 'POST', path: '/clients', body: [] },
      { method: 'PATCH', path: '/clients/1', body: { phone: '1' } },
      { method: 'PATCH', path: '/clients/x', body: { phone: '1' } },
      { method: 'PATCH', path: `/clients/${clientId}`, body: {} },
      { method: 'PATCH', path: '/orders/x', body: { title: 'A' } },
      { method: 'PATCH', path: '/orders/1', body: { title: 'A' } },
      newOrder({ title: 'A', client_id: 1, status_id: 2 }),
      { method: 'PATCH', path: `/clients/${clientId}`, body: { phone: '1' }, if_match: '"99"' },
      { method: 'PUT', path: '/clients/by-external-id/%20', body: { company_name: 'A' } },
      { method: 'PUT', path: '/clients/by-external-id/z%20b%E9', body: { company_name: 'A' } },
    ]
    const operations = wrong.flatMap((each) => [create(), each])
    const before = await count('clients')
    const response = expect200(await run(operations))
    for (const [index, { method, path, body, if_match }] of wrong.entries()) {
      const alone = await company.call(method, path, body, if_match === undefined ? {} : { 'if-match': if_match })
      const result = response.results[2 * index + 1]
      expect([result.status, result.transaction], path).toEqual([alone.status, null])
      expect(result.body).toEqual(alone.body)
      expect(response.results[2 * index].status).toBe(200)
    }
    expect(await count('clients')).toBe(before + wrong.length)
  })

  it('refuses an operation whose body has too many levels', async () => {
    const client_data = JSON.parse(`${'['.repeat(600)}${']'.repeat(600)}`)
    const deep = { method: 'PUT', path: '/mail/threads/deep', body: { client_data } }
    expect(statusesOf(await run([deep, create()]))).toEqual([400, 200])
  })

  it('refuses an operation that it does not take, and carries out those beside it', async () => {
    const before = await count('clients')
    const paths = eachValue([
      ['POST', '/clients/1', '/batch', '/api/v1/clients', 'clients', ''],
      ['PATCH', '/clients', '/clients/', '/clients/1?email=a@x.example'],
      ['DELETE', '/clients'],
      ['PUT', '/orders/1/payments', '/mail/email-threads/t1'],
    ])
    const methods: unknown[] = ['HEAD', 'GET', 'post', '', 7, null, {}, { toString: 1 }]
    const ofMethod = 'must be one of POST, PATCH, DELETE, PUT'
    const refused = [
      ...paths.map(([method, path]) => [method, path, 'path', `^must be one of /.* with the method ${method}$`]),
      ...methods.map((method) => [method, `/clients/${clientId}`, 'method', `^${ofMethod}$`]),
    ]
    const { body } = await run(refused.flatMap(([method, path]) => [create(), { method, path, body: {} }]))
    for (const [index, [method, path, field, message]] of refused.entries()) {
      const issues = [{ path: field, message: expect.stringMatching(String(message)) }]
      expect(body.results.slice(2 * index, 2 * index + 2), JSON.stringify([method, path])).toMatchObject([
        { status: 200, transaction: 1 },
        { status: 400, transaction: null, body: { error: { details: { issues } } } },
      ])
    }
    expect(await count('clients')).toBe(before + refused.length)
    expect((await run([{ method: 'GET', path: '/clients' }])).body.transactions).toBe(0)
  })

  it.each<[string, unknown, string]>([
    ['no operations', undefined, 'operations'],
    ['an empty list', [], 'operations'],
    ['101 operations', creates(101), 'operations'],
    ['a text', ['a'], 'operations.0'],
    ['an unknown field', [{ ...create(), id: 1 }], 'operations.0.id'],
    ['no method', [create(), { path: '/clients', body: {} }], 'operations.1.method'],
    ['a path that is no text', [{ ...create(), path: 1 }], 'operations.0.path'],
  ])('is refused as a whole with %s', async (_, operations, path) => {
    const before = await count('clients')
    const response = await run(operations)
    expect(response.status).toBe(400)
    expect(response.body.error.details.issues[0].path).toBe(path)
    expect(await count('clients')).toBe(before)
  })

  it('checks the permission of each operation, before its form', async () => {
    const send = async (permissions: string[], operations: Sent[]) =>
      call(await mintToken(company.id, permissions), 'POST', '/batch', { operations })
    const order = newOrder({ title: 'A', client_id: clientId })
    const response = await send(['clients:write'], [create(), order])
    expect(statusesOf(response)).toEqual([200, 403])
    expect(response.body.results[1].body.error.code).toBe('forbidden')
    expect(shapeOf(await send([], [create()]))).toEqual([[403, null]])
    const malformed = [
      { method: 'PATCH', path: '/orders/1', body: { title: 'A' }, if_match: 'x' },
      { ...order, if_match: '"1"' },
      { method: 'PATCH', path: '/orders/%ff', body: { title: 'A' } },
      { method: 'PUT', path: '/clients/by-external-id/%ff', body: { company_name: 'A' } },
      { method: 'PATCH', path: '/clients/a%40b', body: { phone: '1' }, if_match: 'x' },
    ]
    expect(statusesOf(await send(['clients:read'], malformed))).toEqual(malformed.map(() => 403))
  })

  it('tells which operations were committed together where the database refuses some', async () => {
    const [taken, twice] = [fresh(), fresh()]
    await company.call('POST', '/clients', { company_name: 'A', external_id: taken })
    const before = await count('clients')
    const operations = [
      create(),
      create(twice),
      create(taken),
      create(twice),
      create(),
      { method: 'PATCH', path: `/clients/${clientId}`, body: { phone: '1' }, if_match: '"0"' },
      create(),
    ]
    const response = await run(operations)
    const results = shapeOf(response)
    expect(results.map(([status]) => status)).toEqual([200, 200, 409, 409, 200, 412, 200])
    expect(await count('clients')).toBe(before + 4)
    const transactions = results.flatMap(([, transaction]) => transaction ?? [])
    expect(transactions[0]).toBe(1)
    expect(transactions).toEqual([...transactions].sort())
    expect(response.body.transactions).toBe(Math.max(...transactions))
    expect(results.filter(([status]) => status !== 200).every(([, transaction]) => transaction === null)).toBe(true)
    expect(response.body.results[2].body.error.details).toMatchObject({ reason: 'external_id_taken' })
  })

  it('carries out 100 orders, each with its own number and invoice', async () => {
    const own = await mintCompany()
    const client = (await own.call('POST', '/clients', { company_name: 'A' })).body.client.id
    const titles = Array.from({ length: 100 }, (_, n) => `Order ${n}`)
    const order = (title: string) => newOrder({ title, client_id: client, external_id: title, tax_exempt: true })
    const response = await run(titles.map(order), {}, own)
    expect(response.body.transactions).toBe(1)
    const { results } = response.body
    expect(results.map((each: ApiResponse) => each.body.project.title)).toEqual(titles)
    expect(new Set(results.map((each: ApiResponse) => each.body.invoice.number)).size).toBe(100)
    expect((await own.call('GET', '/orders')).body.pagination.total).toBe(100)
  })

  it('delivers the accounting events of its operations', async () => {
    const own = await mintCompany()
    await enableAccounting(own, false)
    const client = (await own.call('POST', '/clients', { company_name: 'A' })).body.client.id
    const order = (title: string, accounting_sync_enabled: boolean) =>
      newOrder({ title, client_id: client, accounting_sync_enabled })
    await run([order('a', false), order('b', true), create()], {}, own)
    const events = await sql('SELECT operation FROM accounting_outbox WHERE company_id = ?', own.id)
    expect(events).toEqual([{ operation: 'create' }])
  })
})

describe('the limits of a batch', () => {
  const limitOf = (response: { headers: Headers }) =>
    Number(/r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1])

  it('count each operation as a request, and a malformed batch as one', async () => {
    const own = await mintCompany()
    const first = limitOf(await own.call('GET', '/clients'))
    expect(limitOf(await run(creates(40), {}, own))).toBe(first - 40)
    expect(limitOf(await run([], {}, own))).toBe(first - 41)
    expect(limitOf(await own.call('GET', '/batch'))).toBe(first - 42)
    expect(limitOf(await own.call('GET', '/clients'))).toBe(first - 43)
  })

  it('refuse it as a whole where less is left, and leave that for smaller ones', async () => {
    const own = await mintCompany()
    const sent = (n: number) => run(creates(n), {}, own)
    for (let i = 0; i < 2; i++) expect((await sent(100)).status).toBe(200)
    expect((await sent(60)).status).toBe(200)
    const refused = await sent(50)
    expect([refused.status, refused.body.error.code]).toEqual([429, 'rate_limited'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await own.call('GET', '/clients')).body.pagination.total).toBe(260)
    expect((await sent(30)).status).toBe(200)
    // The refused batch and the list count as one each.
    expect(limitOf(await sent(8))).toBe(0)
    expect((await own.call('GET', '/clients')).status).toBe(429)
  })

  it('are three serial waits while it is one transaction: the second is for its further requests', async () => {
    const token = await mintToken(company.id)
    await measureHops(request(token, 'GET', '/clients'))
    const sent = (key: Record<string, string>) =>
      request(token, 'POST', '/batch', { operations: [create(), create()] }, key)
    const { hops, response } = await measureHops(sent({ 'idempotency-key': fresh() }))
    expect(response.status).toBe(200)
    expect(hops.filter(({ name }) => name.startsWith('DB.'))).toHaveLength(1)
    const other = await mintToken(company.id)
    const { calls, env: watched } = watchCalls(env)
    await send(request(other, 'GET', '/clients'), { env: watched })
    calls.length = 0
    await send(request(other, 'POST', '/batch', { operations: creates(50) }), { env: watched })
    const remote = calls.filter((name) => name !== 'FAILED_LOOKUPS.limit')
    expect(remote.slice(0, 3)).toEqual(['RATE_LIMITER.admit', 'RATE_LIMITER.report', 'DB.batch'])
    expect(remote.filter((name) => name === 'DB.batch')).toHaveLength(1)
  })
})

it('takes the path of every external id that a request of its own takes', async () => {
  const external_id = '語'.repeat(255)
  const path = `/clients/by-external-id/${encodeURIComponent(external_id)}`
  const { body } = await run([{ method: 'PUT', path, body: { company_name: 'A' } }], {}, await mintCompany())
  expect(body.results[0].body.client).toMatchObject({ external_id })
})
