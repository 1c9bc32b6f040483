import { expect, it } from 'vitest'
import { type ApiResponse, mintCompany, sql } from '../../support/app.ts'
import { batchesOf, create, fresh, newOrder, type Sent, statusesOf } from './support.ts'

const company = await mintCompany()
const clientId: number = (await company.call('POST', '/clients', { company_name: 'First' })).body.client.id
const { run, count } = batchesOf(company)

const ref = ($ref: string) => ({ $ref })

it('a batch whose operations name earlier results creates clients with their orders, contexts and payments in few transactions', async () => {
  const pairs = Array.from({ length: 20 }, (_, index): Sent[] => [
    create(),
    newOrder({ title: 'A', client_id: ref(`${2 * index}.client.id`) }),
  ])
  const context = {
    client_id: ref('0.client.id'),
    clients_data: [{ id: ref('0.client.id'), name: ref('0.client.company_name') }],
    orders_data: [{ id: ref('1.project.id') }],
    selected_order_id: ref('1.project.id'),
  }
  const operations = [...pairs.flat(), { method: 'PUT', path: '/mail/threads/batch-thread', body: context }]
  const response = await run(operations)
  expect(statusesOf(response)).toEqual(Array(41).fill(200))
  const { body } = response
  expect(body.transactions).toBe(3)
  for (let index = 0; index < 40; index += 2) {
    expect(body.results[index + 1].body.project.client_id).toBe(body.results[index].body.client.id)
  }
  const [client, order] = body.results
  const read = await company.call('GET', '/mail/threads/batch-thread')
  expect(read.body).toMatchObject({
    client_id: String(client.body.client.id),
    clients_data: [{ id: client.body.client.id, name: 'Created' }],
    selected_order_id: String(order.body.project.id),
  })
  expect(body.results[40].body).toEqual(read.body)
})

it('a batch whose operations name earlier results fails as the first that names one', async () => {
  const { body } = await run([{ method: 'POST', path: '/clients', body: { company_name: ref('0.client.id') } }])
  const issue = { path: 'company_name.$ref', message: 'must name an earlier operation, and this is the first' }
  expect(body.results[0].body.error.details.issues).toEqual([issue])
})

it('a batch whose operations name earlier results is refused with 413 before it is built where the references of one operation name too much', async () => {
  const x = ref('0.client_data.x')
  const put = (name: string, client_data: object): Sent => {
    return { method: 'PUT', path: `/mail/threads/${name}`, body: { client_id: String(clientId), client_data } }
  }
  const wide = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`k${index}`, x]))
  const response = await run([put('long', { x: 'a'.repeat(250_000) }), put('wide', wide), put('one', { x })])
  expect(statusesOf(response)).toEqual([200, 413, 200])
  expect(response.body.results[1].body.error.message).toBe(
    'The references of a batch must name at most 1048576 characters',
  )
})

it('a batch whose operations name earlier results takes no references of all operations together over the limit, and gives the same again for its key', async () => {
  const description = ref('0.project.description')
  const items = Array.from({ length: 9 }, () => ({ title: 'x', description }))
  const order = (body: object) => newOrder({ title: 'A', client_id: clientId, ...body })
  const operations = [order({ description: '😀'.repeat(10_000) }), ...Array(8).fill(order({ invoice_items: items }))]
  const send = () => company.call('POST', '/batch', { operations }, { 'idempotency-key': 'references' })
  const response = await send()
  expect(statusesOf(response)).toEqual([...Array(6).fill(200), ...Array(3).fill(413)])
  expect((await send()).body).toEqual(response.body)
})

it('a batch whose operations name earlier results names an element of a list, which has no length', async () => {
  const { body } = await run([
    newOrder({ title: 'A', client_id: clientId, invoice_items: [{ title: 'First' }] }),
    newOrder({ title: ref('0.invoice_items.0.title'), client_id: clientId }),
    newOrder({ title: 'B', client_id: ref('0.invoice_items.length') }),
  ])
  expect(body.results[1].body.project.title).toBe('First')
  expect(body.results[2].body.error.message).toBe('`client_id.$ref` names nothing in the result of operation 0')
})

it('a batch whose operations name earlier results fails alone where the other failed, or where the reference is wrong', async () => {
  const order = (client_id: unknown) => newOrder({ title: 'A', client_id })
  const { body } = await run([
    { method: 'POST', path: '/clients', body: {} },
    order(ref('0.client.id')),
    create(),
    order(ref('2.client.id')),
    order(ref('2.client.name')),
    order(ref('2.client.nothing')),
    order(ref('7.client.id')),
    order(ref('7.project.id')),
    order(ref('9.client.id')),
    order(ref('client.id')),
    order({ $ref: 2 }),
    order({ $ref: '2.client.id', id: 1 }),
    order(ref('2.client.company_name')),
    order(ref('2.client.id')),
  ])
  const shape = body.results.map(({ status, body: { error } }: ApiResponse) => {
    const [issue] = error?.details.issues ?? []
    return [status, issue?.path, issue?.message]
  })
  const path = 'client_id.$ref'
  expect(shape).toEqual([
    [400, 'company_name', 'is required'],
    [400, path, 'names operation 0, which failed'],
    [200, undefined, undefined],
    [200, undefined, undefined],
    [400, path, 'names nothing in the result of operation 2'],
    [400, path, 'names nothing in the result of operation 2'],
    [400, path, 'must name an earlier operation: this one is 6, the first is 0'],
    [400, path, 'must name an earlier operation: this one is 7, the first is 0'],
    [400, path, 'must name an earlier operation: this one is 8, the first is 0'],
    [400, path, 'must be the position of an earlier operation and a path in its result, such as 0.client.id'],
    [400, path, 'must be the position of an earlier operation and a path in its result, such as 0.client.id'],
    [400, 'client_id', 'must be a number, not an object'],
    [400, 'client_id', 'must be a number, not a string'],
    [200, undefined, undefined],
  ])
})

it('a batch whose operations name earlier results may be to what is null, and not to an object', async () => {
  const { body } = await run([
    create(),
    { method: 'POST', path: '/clients', body: { company_name: fresh(), phone: ref('0.client.phone') } },
    { method: 'POST', path: '/clients', body: { company_name: ref('0.client') } },
  ])
  const [, second, third] = body.results
  expect([second.status, second.body.client.phone]).toEqual([200, null])
  expect(third.body.error.details.issues).toEqual([
    { path: 'company_name.$ref', message: 'must name a single value, not an object' },
  ])
})

it('a batch whose operations name earlier results is not repeated with the same key, wherever it was interrupted', async () => {
  const key = { 'Idempotency-Key': fresh() }
  const operations = [create(), newOrder({ title: 'A', client_id: ref('0.client.id') })]
  const first = await run(operations, key)
  const [clients, orders] = [await count('clients'), await count('orders')]
  const again = await run(operations, key)
  expect(again.body).toEqual(first.body)
  expect(again.headers.get('Idempotency-Replayed')).toBe('true')
  const second = 'DELETE FROM idempotency_keys WHERE company_id = ? AND key = ? AND position = 1'
  await sql(second, company.id, key['Idempotency-Key'])
  const rest = await run(operations, key)
  expect(rest.body.results[0]).toEqual(first.body.results[0])
  expect(rest.body.results[1].body.project.client_id).toBe(first.body.results[0].body.client.id)
  expect([await count('clients'), await count('orders')]).toEqual([clients, orders + 1])
})

it('a batch whose operations name earlier results takes every operation that a batch may contain', async () => {
  const order = { title: 'A', client_id: clientId, payments: [{ amount: 3 }] }
  const { body } = await run([{ method: 'PUT', path: '/orders/by-external-id/b-1', body: order }])
  const { project, payments } = body.results[0].body
  const path = `/orders/${project.id}`
  const more = await run([
    { method: 'PUT', path: `${path}/invoice-items`, body: { items: [{ title: 'Tee' }] } },
    { method: 'POST', path: `${path}/payments`, body: { amount: 2 } },
    { method: 'PATCH', path: `${path}/payments/${payments[0].id}`, body: { amount: 4 } },
    { method: 'DELETE', path: `${path}/payments/${payments[0].id}` },
    { method: 'DELETE', path },
    { method: 'DELETE', path: `/clients/${clientId}` },
    { method: 'PATCH', path: `/clients/${clientId}`, body: { deleted: false } },
    { method: 'PUT', path: '/mail/threads/b-1', body: { client_id: clientId } },
  ])
  expect(statusesOf(more)).toEqual(Array(8).fill(200))
  expect(more.body.results[1].body.invoice.amount_paid).toBe(5)
  expect(more.body.results[3].body.invoice.amount_paid).toBe(2)
})
