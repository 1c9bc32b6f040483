import { describe, expect, it } from 'vitest'
import type { SeedInput } from '../../../src/operation/copies/seed/file.ts'
import { splitSeedFile } from '../../../src/operation/copies/seed/split.ts'
import { call, freshId, mintToken, sql } from '../../support/app.ts'
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
