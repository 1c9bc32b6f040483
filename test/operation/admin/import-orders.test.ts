import { describe, expect, it } from 'vitest'
import type { SeedInput } from '../../../src/operation/copies/seed/file.ts'
import { splitSeedFile } from '../../../src/operation/copies/seed/split.ts'
import { ADMIN_TOKEN, adminCall, adminSend } from '../../support/admin.ts'
import { call, freshId, mintCompany, mintToken, sql } from '../../support/app.ts'
import { moveTime, stopTime } from '../../support/time.ts'
import { loadSeed } from './import-support.ts'

type Order = NonNullable<SeedInput['orders']>[number]

/** A company with one order, which has one line, one payment and no artwork. */
function shopWith(id: number, order: Partial<Order> = {}): SeedInput {
  const [items, payments] = [[{ id: 1, title: 'Tee', quantity: 1, unit_price: 9.5 }], [{ id: 1, amount: 3 }]]
  return {
    company: { id, name: `Shop ${id}` },
    clients: [{ id: 1, company_name: 'Harbor Club' }],
    orders: [{ id: 1, title: 'Shirts', client_id: 1, invoice: { id: 1, items, payments }, ...order }],
  }
}

/** What integrators see of the order, and what a copy of the company has. */
async function readAll(companyId: number, token: string) {
  const [order, feed] = [await call(token, 'GET', '/orders/1'), await call(token, 'GET', '/changes')]
  const tables = ['orders', 'invoices', 'invoice_items', 'payments', 'artworks']
  const rows = tables.map((table) => sql(`SELECT * FROM ${table} WHERE company_id = ?`, companyId))
  return { order: order.body, changes: feed.body.data, rows: await Promise.all(rows) }
}

describe('an order that exists', () => {
  it('does not get a deleted payment back when its file is loaded again', async () => {
    const id = 1_000 + freshId()
    const file = shopWith(id)
    await loadSeed(file)
    const token = await mintToken(id)
    expect((await call(token, 'DELETE', '/orders/1/payments/1')).status).toBe(200)
    const before = await readAll(id, token)
    expect(before.order).toMatchObject({ project: { version: 2 }, invoice: { amount_paid: 0 } })
    const differences = await loadSeed(file)
    expect(await readAll(id, token)).toEqual(before)
    expect(differences).toEqual([{ type: 'order', id: 1, fields: ['payments'] }])
  })

  it('gets nothing of a later file, which names what it lacks', async () => {
    const id = 1_000 + freshId()
    const [items, payments] = [[{ id: 1, title: 'Tee', quantity: 1, unit_price: 9.5 }], [{ id: 1, amount: 3 }]]
    await loadSeed(shopWith(id, { invoice: null }))
    const token = await mintToken(id)
    const bare = await readAll(id, token)
    const artworks = [{ id: 1, name: 'Crest' }]
    expect(await loadSeed(shopWith(id, { artworks }))).toEqual([
      { type: 'order', id: 1, fields: ['invoice', 'items', 'payments', 'artworks'] },
    ])
    expect(await readAll(id, token)).toEqual(bare)
    const orders = [
      { id: 1, title: 'Blouses', client_id: 1, artworks },
      { id: 2, title: 'Caps', client_id: 1, invoice: { id: 2, items, payments }, artworks: [] },
    ]
    expect(await loadSeed({ ...shopWith(id), orders })).toEqual([
      { type: 'order', id: 1, fields: ['title'] },
      { type: 'order', id: 1, fields: ['artworks'] },
    ])
    expect((await call(token, 'GET', '/orders/2')).body.invoice).toMatchObject({ subtotal: 9.5, amount_paid: 3 })
  })
})

it('a deleted line is not loaded: another is found behind many, and a second time changes nothing', async () => {
  const id = 1_000 + freshId()
  const deleted = Array.from({ length: 300 }, (_, index) => {
    return { id: index + 1, title: 'x'.repeat(200), quantity: 1, unit_price: 1, deleted: true }
  })
  const items = [...deleted, { id: 999, title: 'Quarter zip', quantity: 1, unit_price: 1 }]
  const file = shopWith(id, { invoice: { id: 1, items } })
  expect(await loadSeed(file)).toEqual([])
  const token = await mintToken(id)
  const { body } = await call(token, 'GET', '/products/search?q=quarter&include=lines')
  expect(body.invoice_lines.map((line: { id: number }) => line.id)).toEqual([999])
  expect((await call(token, 'GET', '/products/invoice_item?id=1')).status).toBe(404)
  const loaded = await readAll(id, token)
  expect(loaded.order.invoice_items).toHaveLength(1)
  expect(await loadSeed(file)).toEqual([])
  expect(await readAll(id, token)).toEqual(loaded)
})

it('an order with more rows than a part is loaded whole, as one change', async () => {
  const id = 1_000 + freshId()
  const numbers = Array.from({ length: 1_400 }, (_, index) => index + 1)
  const items = numbers.map((item) => ({ id: item, title: `Tee ${item}`, quantity: 1, unit_price: 1 }))
  const payments = numbers.map((payment) => ({ id: payment, amount: 0.5 }))
  const file = shopWith(id, { invoice: { id: 1, items, payments } })
  file.orders?.push({ id: 2, title: 'Caps', client_id: 1 })
  const parts = splitSeedFile(file).parts.map(({ file }) => file.orders?.map((order) => order.id))
  expect(parts).toEqual([[2], [1]])
  expect(await loadSeed(file)).toEqual([])
  const token = await mintToken(id)
  const loaded = await readAll(id, token)
  expect(loaded.order.invoice).toMatchObject({ subtotal: 1_400, amount_paid: 700 })
  expect(loaded.changes.filter(({ type }: { type: string }) => type === 'orders')).toMatchObject([
    { id: 2, operation: 'create', version: 1 },
    { id: 1, operation: 'create', version: 1 },
  ])
  expect(await loadSeed(file)).toEqual([])
  expect(await readAll(id, token)).toEqual(loaded)
})

it('an import is dated when its body has arrived, behind changes made meanwhile', async () => {
  await mintCompany()
  const { id, call } = await mintCompany()
  const fast = (await call('POST', '/clients', { company_name: 'Fast' })).body.client.id
  const file = { company: { id, name: 'Slow' }, clients: [{ id: fast + 1, company_name: 'Imported' }] }
  const { readable, writable } = new IdentityTransformStream()
  stopTime()
  const startedAt = Date.now()
  const imported = adminSend(
    new Request(`https://api.test/admin/v1/companies/${id}/imports`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
      body: readable,
    }),
  )
  moveTime(2_000)
  await call('PATCH', `/clients/${fast}`, { phone: '1' })
  moveTime(1_000)
  const writer = writable.getWriter()
  await writer.write(new TextEncoder().encode(JSON.stringify({ hash: 'a'.repeat(64), part: 1, parts: 1, file })))
  await writer.close()
  expect((await imported).status).toBe(200)
  const { data } = (await call('GET', `/clients?updated_since=${new Date(startedAt + 2_001).toISOString()}`)).body
  expect(data).toMatchObject([{ id: fast + 1, updated_at: new Date(startedAt + 3_000).toISOString() }])
})

it('an import takes parts of up to 1,000 rows', async () => {
  const send = (rows: number, orders: object[] = []) => {
    const clients = Array.from({ length: rows }, (_, at) => ({ id: at + 1, company_name: `Client ${at}` }))
    return sendPart({ clients, orders }, { check: true })
  }
  expect((await send(1_000)).body.counts).toEqual({ clients: 1_000 })
  for (const orders of [[], [{ id: 1, client_id: 1, title: 'One' }]]) {
    const { status, body } = await send(1_001, orders)
    expect([status, body.error.details.issues]).toEqual([
      400,
      [expect.objectContaining({ path: 'file', message: 'must have at most 1000 rows, not 1001' })],
    ])
  }
})

/** Sends one part of a file that was not split. */
function sendPart(lists: object, options: object = {}) {
  const id = 2_000 + freshId()
  const file = { company: { id, name: 'Large' }, ...lists }
  return adminCall('POST', `/companies/${id}/imports`, { hash: 'a'.repeat(64), part: 1, parts: 1, ...options, file })
}

const nested = (depth: number): unknown => (depth === 0 ? 'deep' : [nested(depth - 1)])

it.each<[string, string, number | null, { artworks?: object; contexts?: object }]>([
  [
    'lists of an artwork',
    'artworks.0.placements',
    400,
    { artworks: { placements: ['\\'.repeat(200_000)], colors: ['x'.repeat(399_990)] } },
  ],
  ['a deep list of an artwork', 'artworks.0.placements', null, { artworks: { placements: nested(501) } }],
  ['a very deep list of an artwork', 'artworks.0.placements', null, { artworks: { placements: nested(3_000) } }],
  ['very deep JSON of a context', 'client_data', null, { contexts: { client_data: { a: nested(3_000) } } }],
  [
    'the JSON of a context',
    'thread_contexts.0',
    900,
    { contexts: { orders_data: [{ id: 1, a: '"'.repeat(200_000) }], clients_data: ['x'.repeat(499_990)] } },
  ],
])('an import refuses %s over what a row may have', async (_, path, kb, { artworks, contexts }) => {
  const clients = [{ id: 1, company_name: 'One' }]
  const order = { id: 1, client_id: 1, title: 'One' }
  const { status, body } = await sendPart({
    clients,
    ...(artworks && { orders: [{ ...order, artworks: [{ id: 1, name: 'One', ...artworks }] }] }),
    ...(contexts && { thread_contexts: [{ thread_id: 'one', client_id: '1', ...contexts }] }),
  })
  const message = kb
    ? expect.stringContaining(`at most ${kb} KB`)
    : expect.stringContaining('must be nested at most 500 levels deep')
  const at = expect.stringMatching(new RegExp(`^file\\..*${path}$`))
  expect([status, body.error?.details.issues]).toEqual([400, [{ path: at, message }]])
})
