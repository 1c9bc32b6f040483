import { describe, expect, it } from 'vitest'
import { splitSeedFile } from '../../../src/cli/split-file.ts'
import type { SeedInput } from '../../../src/operation/copies/seed/file.ts'
import { ADMIN_TOKEN, adminCall, adminSend, credentialsOf } from '../../support/admin.ts'
import { call, freshId, mintCompany, mintToken, sql } from '../../support/app.ts'
import { moveTime, stopTime } from '../../support/time.ts'
import { freshShop, load, loadSeed, pathOf, readRows } from './transfer-support.ts'

const ITEMS = [{ id: 1, title: 'Tee', quantity: 1, unit_price: 9.5 }]
const PAYMENTS = [{ id: 1, amount: 3 }]

/** Loads a small shop whose orders are changed. @returns a token of its company */
async function loadOrders(change: (order: Order) => Order): Promise<string> {
  const { orders, ...file } = freshShop()
  await load({ ...file, orders: orders?.map(change) })
  return mintToken(file.company.id)
}

type Order = NonNullable<SeedInput['orders']>[number]

/** A company with one order, which has one line, one payment and no artwork. */
function shopWith(order: Partial<Order> = {}, id = 1_000 + freshId()): SeedInput {
  const invoice = { id: 1, items: ITEMS, payments: PAYMENTS }
  return {
    company: { id, name: `Shop ${id}` },
    clients: [{ id: 1, company_name: 'Harbor Club' }],
    orders: [{ id: 1, title: 'Shirts', client_id: 1, invoice, ...order }],
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
    const file = shopWith()
    const { id } = file.company
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
    await loadSeed(shopWith({ invoice: null }, id))
    const token = await mintToken(id)
    const bare = await readAll(id, token)
    const artworks = [{ id: 1, name: 'Crest' }]
    expect(await loadSeed(shopWith({ artworks }, id))).toEqual([
      { type: 'order', id: 1, fields: ['invoice', 'items', 'payments', 'artworks'] },
    ])
    expect(await readAll(id, token)).toEqual(bare)
    const orders = [
      { id: 1, title: 'Blouses', client_id: 1, artworks },
      { id: 2, title: 'Caps', client_id: 1, invoice: { id: 2, items: ITEMS, payments: PAYMENTS }, artworks: [] },
    ]
    expect(await loadSeed({ ...shopWith({}, id), orders })).toEqual([
      { type: 'order', id: 1, fields: ['title'] },
      { type: 'order', id: 1, fields: ['artworks'] },
    ])
    expect((await call(token, 'GET', '/orders/2')).body.invoice).toMatchObject({ subtotal: 9.5, amount_paid: 3 })
  })
})

it('a deleted line is not loaded: another is found behind many, and a second time changes nothing', async () => {
  const deleted = Array.from({ length: 300 }, (_, index) => {
    return { id: index + 1, title: 'x'.repeat(200), quantity: 1, unit_price: 1, deleted: true }
  })
  const items = [...deleted, { id: 999, title: 'Quarter zip', quantity: 1, unit_price: 1 }]
  const file = shopWith({ invoice: { id: 1, items } })
  const { id } = file.company
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
  const numbers = Array.from({ length: 1_400 }, (_, index) => index + 1)
  const items = numbers.map((item) => ({ id: item, title: `Tee ${item}`, quantity: 1, unit_price: 1 }))
  const payments = numbers.map((payment) => ({ id: payment, amount: 0.5 }))
  const file = shopWith({ invoice: { id: 1, items, payments } })
  const { id } = file.company
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
    return sendLists({ clients, orders }, { check: true })
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
function sendLists(lists: object, options: object = {}) {
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
  const { status, body } = await sendLists({
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

describe('an import', () => {
  it('hides the lines of an order that is deleted', async () => {
    const token = await loadOrders((order) => ({ ...order, deleted: true }))
    expect((await call(token, 'GET', '/products/invoice_item?id=1')).status).toBe(404)
    const { body } = await call(token, 'GET', '/products/search?q=tee&include=lines')
    expect([body.sources.lines, body.invoice_lines]).toEqual(['ok', []])
  })

  it('leaves an invoice deleted that was deleted before its order, whatever the date of the order', async () => {
    const token = await loadOrders(({ invoice, ...order }) => {
      return { ...order, created_date: '2099-01-31', invoice: invoice && { ...invoice, deleted: true } }
    })
    expect((await call(token, 'DELETE', '/orders/1')).body.invoice).toBe(null)
    expect((await call(token, 'PATCH', '/orders/1', { deleted: false })).body.invoice).toBe(null)
  })

  it('restores an order that was loaded as deleted with its invoice, which is older', async () => {
    const deleted = { deleted: true, updated_at: '2026-02-01T00:00:00Z' }
    const token = await loadOrders(({ invoice, ...order }) => {
      return { ...order, ...deleted, invoice: invoice && { ...invoice, updated_at: '2026-01-01T00:00:00Z' } }
    })
    expect((await call(token, 'PATCH', '/orders/1', { deleted: false })).status).toBe(200)
    expect((await call(token, 'GET', '/orders/1')).body.invoice_items).not.toEqual([])
  })

  it('gives a company that was just created the last invoice number of the file, and never lowers it again', async () => {
    const shop = freshShop()
    const { id, name } = shop.company
    expect((await adminCall('POST', '/companies', { id, name })).status).toBe(200)
    const company = { ...shop.company, created_at: '2026-01-31T10:00:00.000Z', last_invoice_number: 5 }
    const file = { ...shop, orders: [], thread_contexts: [], company }
    await loadSeed(file)
    const made = await call(await mintToken(id), 'POST', '/orders', { title: 'Six', client_id: 1 })
    expect(made.body.invoice.number).toBe('6')
    await loadSeed(file)
    expect((await readRows(id)).company).toMatchObject({ last_invoice_number: 6 })
  })

  it('keeps the last invoice number of a company without clients and orders where the file leaves it out', async () => {
    const { id, name } = freshShop().company
    await loadSeed({ company: { id, name, last_invoice_number: 5_000 } })
    await loadSeed({ company: { id, name, created_at: '2026-01-31T10:00:00.000Z' } })
    expect((await readRows(id)).company).toMatchObject({ last_invoice_number: 5_000 })
  })

  it('leaves room for the numbers of new invoices, whatever numbers it has', async () => {
    const { company, ...file } = freshShop()
    const numbers = ['1000000000000000', '281474976710656', '00000000000000000009', 'A-1']
    const orders = numbers.map((number, at) => {
      return { id: at + 1, title: 'One', client_id: 1, invoice: { id: at + 1, number } }
    })
    await loadSeed({ ...file, orders, thread_contexts: [], company })
    const token = await mintToken(company.id)
    for (const number of ['281474976710657', '281474976710658']) {
      const { body } = await call(token, 'POST', '/orders', { title: 'New', client_id: 1 })
      expect(body.invoice.number).toBe(number)
    }
  })

  it('keeps what the API has changed and replaces what only a file can change', async () => {
    const file = freshShop()
    const { id } = file.company
    await load(file)
    await sql("UPDATE clients SET company_name = 'Renamed' WHERE company_id = ? AND id = 1", id)
    await sql('UPDATE orders SET deleted = 1 WHERE company_id = ? AND id = 1', id)
    await sql("UPDATE invoices SET due_date = '2026-03-01', discount_hundredths = 1000 WHERE company_id = ?", id)
    await sql('UPDATE invoice_items SET unit_price_cents = 1000 WHERE company_id = ?', id)
    const before = await readRows(id)
    file.company.suspended = true
    file.order_statuses = [
      { id: 1, title: 'New' },
      { id: 2, title: 'Printing now', is_default: true },
    ]
    file.catalog_items = [{ id: 1, title: 'Dearer tee', price: 10 }]
    const { supplier_b } = file.integrations ?? {}
    if (supplier_b) supplier_b.credentials = { account_number: '7', api_key: 'new' }
    file.clients?.push({ id: 3, company_name: 'Third' })
    expect(await loadSeed(file)).toEqual([
      { type: 'client', id: 1, fields: ['company_name'] },
      { type: 'order', id: 1, fields: ['deleted'] },
      { type: 'invoice', id: 1, fields: ['due_date', 'discount_amount'] },
      { type: 'line', id: 1, fields: ['unit_price'] },
    ])
    const after = await readRows(id)
    expect(after.clients.slice(0, 2)).toEqual(before.clients)
    expect(after.orders).toEqual(before.orders)
    expect(after.integrations[0]).toEqual(before.integrations[0])
    expect(await credentialsOf(id, 'supplier_b')).toEqual({ account_number: '7', api_key: 'new' })
    expect(after.company).toMatchObject({ suspended: 1, client_count: 2, order_count: 1 })
    expect(after.order_statuses).toMatchObject([
      { id: 1, is_default: 0 },
      { id: 2, title: 'Printing now', is_default: 1 },
    ])
    await adminCall('PATCH', `/companies/${id}`, { suspended: false })
    const { body } = await call(await mintToken(id), 'GET', '/products/search?q=dearer&include=local')
    expect(body.local_items).toMatchObject([{ title: 'Dearer tee' }])
  })
})

it('a part with very many wrong lines is refused by the first of them', async () => {
  const items = Array.from({ length: 200_000 }, () => ({}) as never)
  const file = shopWith({ invoice: { id: 1, items } })
  const refused = await adminCall('POST', pathOf(file), { hash: 'a'.repeat(64), part: 1, parts: 1, file })
  expect(refused.body.error.details.issues[0].path).toBe('file.orders.0.invoice.items.0.id')
})
