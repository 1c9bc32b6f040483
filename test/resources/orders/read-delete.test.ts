import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sql } from '../../support/app.ts'
import { idsOf } from '../../support/lists.ts'
import { addItem } from '../../support/rows.ts'
import { addArtwork, addPayment, createClient, createOrder, dump, mintShop } from './support.ts'

const shop = await mintShop()

describe('GET /orders/{id}', () => {
  it('returns any text and quantity of a line as stored, lines by their position', async () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 40 }).map((value) => value.replaceAll('\0', ''))
    const quantity = fc.double({ noNaN: true, min: -1e9, max: 1e9 }).map((value) => value + 0)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(text, text, quantity), { minLength: 1, maxLength: 5 }), async (lines) => {
        const { project, invoice } = await createOrder(shop)
        for (const [index, [title, description, value]] of lines.entries()) {
          const position = lines.length - index
          await addItem(shop, invoice.id, { position, title, description, quantity: value, unit_price_cents: 0 })
        }
        const { body } = await shop.call('GET', `/orders/${project.id}`)
        const expected = lines.toReversed().map(([title, description, quantity]) => ({ title, description, quantity }))
        expect(body.invoice_items).toMatchObject(expected)
      }),
      { numRuns: 25, examples: [[[['"\\\u0001\u2028é😀', ' ', 0.1 + 0.2]]], [[['', 'x', 1 / 3]]]] },
    )
  })

  it('returns artworks', async () => {
    const { project } = await createOrder(shop)
    const artwork = { print_method: 'screen', preview_url: 'https://x.example/a.png', status: 'approved' }
    const lists = { placements: '["front",{"x":1}]', colors: '["red"]' }
    const id = await addArtwork(shop, project.id, { ...artwork, ...lists })
    const whole = { name: 'Crest', placements: ['front', { x: 1 }], colors: ['red'], ...artwork }
    const { artworks } = (await shop.call('GET', `/orders/${project.id}`)).body
    expect(artworks).toEqual([{ id, project_id: project.id, ...whole }])
  })

  it('returns a deleted client, but no lines and payments of a deleted invoice', async () => {
    const clientId = await createClient(shop)
    const { project, invoice } = await createOrder(shop, { client_id: clientId, tax_id: shop.taxId })
    await addItem(shop, invoice.id)
    await addPayment(shop, invoice.id)
    await shop.call('PATCH', `/clients/${clientId}`, { deleted: true })
    await sql('UPDATE invoices SET deleted = 1 WHERE company_id = ? AND id = ?', shop.id, invoice.id)
    const none = { invoice: null, tax: null, invoice_items: [], payments: [] }
    const { body } = await shop.call('GET', `/orders/${project.id}`)
    expect(body).toMatchObject({ client: { id: clientId, deleted: true }, ...none })
  })

  it.each('0 -1 1.0 01 x 1e3 9007199254740993 999999999 %00'.split(' '))('returns 404 for %s', async (id) => {
    for (const [method, body] of [['GET'], ['PATCH', { title: 'a' }], ['DELETE']] as const) {
      expect((await shop.call(method, `/orders/${id}`, body)).status).toBe(404)
    }
  })
})

it('DELETE /orders/{id} returns the order and invoice as deleted, hides them, and returns 404 from then on', async () => {
  const { project, invoice } = await createOrder(shop, { tax_id: shop.taxId })
  await addItem(shop, invoice.id)
  const { status, body } = await shop.call('DELETE', `/orders/${project.id}`)
  expect(status).toBe(200)
  expect(body).toEqual({
    project: { ...project, deleted: true, version: project.version + 1, updated_at: expect.any(String) },
    invoice: { ...invoice, deleted: true, subtotal: 10, tax_total: 0.83, total: 10.83, balance_due: 10.83 },
  })
  for (const [method, change] of [['DELETE'], ['GET'], ['PATCH', { title: 'b' }]] as const) {
    expect((await shop.call(method, `/orders/${project.id}`, change)).status, method).toBe(404)
  }
  expect(idsOf((await shop.call('GET', '/orders?per_page=100')).body.data)).not.toContain(project.id)
  const rows = await sql('SELECT deleted FROM invoices WHERE company_id = ? AND id = ?', shop.id, invoice.id)
  expect(rows).toEqual([{ deleted: 1 }])
})

it('PATCH /orders/{id} with deleted and other fields changes and deletes the order in one, or neither where a field is refused', async () => {
  const { project } = await createOrder(shop)
  const path = `/orders/${project.id}`
  expect((await shop.call('PATCH', path, { deleted: true, client_id: 999_999 })).status).toBe(400)
  expect((await shop.call('GET', path)).body.project).toEqual(project)
  const { body } = await shop.call('PATCH', path, { deleted: true, title: 'Last', discount_amount: 5 })
  expect(body.project).toMatchObject({ deleted: true, title: 'Last', version: 2 })
  expect(body.invoice).toMatchObject({ deleted: true, discount_amount: 5 })
  expect((await shop.call('GET', path)).status).toBe(404)
})

describe('a deleted order', () => {
  it('is read with deleted=include as it was, and comes back with PATCH', async () => {
    const { project, invoice } = await createOrder(shop, { tax_id: shop.taxId })
    await addItem(shop, invoice.id)
    await addPayment(shop, invoice.id)
    await addArtwork(shop, project.id)
    const { body: before } = await shop.call('GET', `/orders/${project.id}`)
    await shop.call('DELETE', `/orders/${project.id}`)
    expect((await shop.call('GET', `/orders/${project.id}?deleted=exclude`)).status).toBe(404)
    const path = `/orders/${project.id}?deleted=include`
    const updated_at = expect.any(String)
    const gone = { deleted: true, version: project.version + 1, updated_at }
    expect((await shop.call('GET', path)).body).toEqual({
      ...before,
      project: { ...before.project, ...gone },
      invoice: { ...before.invoice, deleted: true },
    })
    const { status, body } = await shop.call('PATCH', `/orders/${project.id}`, { deleted: false, title: 'Again' })
    const back = { ...before.project, title: 'Again', version: project.version + 2, updated_at }
    expect({ status, body }).toEqual({ status: 200, body: { project: back, invoice: before.invoice } })
    for (const read of [path, `/orders/${project.id}`]) {
      expect((await shop.call('GET', read)).body).toEqual({ ...before, project: back })
    }
  })

  it('is deleted by PATCH as by DELETE, and found by searches again when it comes back', async () => {
    const { project } = await createOrder(shop, { title: 'Quince aprons' })
    const found = async () => (await shop.call('GET', '/orders?q=quince')).body
    const { body } = await shop.call('PATCH', `/orders/${project.id}`, { deleted: true })
    expect(body).toMatchObject({ project: { deleted: true }, invoice: { deleted: true } })
    expect(await found()).toMatchObject({ data: [], pagination: { total: 0 } })
    await shop.call('PATCH', `/orders/${project.id}`, { deleted: false })
    expect(await found()).toMatchObject({ data: [{ id: project.id }], pagination: { total: 1 } })
    const count = 'SELECT order_count AS n FROM companies WHERE id = ?'
    const live = 'SELECT count(*) AS n FROM orders WHERE deleted = 0 AND company_id = ?'
    expect(await sql(count, shop.id)).toEqual(await sql(live, shop.id))
  })

  it('is neither changed nor reported again by anything but its restoration', async () => {
    const { project } = await createOrder(shop)
    const path = `/orders/${project.id}`
    await shop.call('DELETE', path)
    const before = await dump(shop)
    const again = { deleted: true, title: 'Again', discount_amount: 7 }
    for (const body of [{ title: 'After' }, { deleted: true }, again]) {
      expect((await shop.call('PATCH', path, body)).status).toBe(404)
    }
    expect((await shop.call('GET', '/orders/999999?deleted=include')).status).toBe(404)
    for (const body of [again, { deleted: false }]) {
      expect((await shop.call('PATCH', '/orders/999999', body)).status).toBe(404)
    }
    expect((await shop.call('PATCH', path, { deleted: false, client_id: 999_999 })).status).toBe(400)
    expect(await dump(shop)).toEqual(before)
    expect((await shop.call('PATCH', path, again, { 'Idempotency-Key': 'again' })).status).toBe(404)
  })

  it.each<[string, object | undefined, string, deletedAt: string]>([
    ['DELETE', undefined, 'PATCH', '1'],
    ['PATCH', { deleted: true }, 'PUT', '1'],
    ['PATCH', { deleted: true, title: 'Gone' }, 'PATCH', '1'],
    // An order that is there, last changed when its invoice was.
    ['GET', undefined, 'PATCH', 'updated_at'],
  ])('keeps an invoice deleted that was before it: %s %j, then %s', async (method, body, restore, deletedAt) => {
    const external_id = `${method}-${restore}-${JSON.stringify(body)}`
    const { project, invoice } = await createOrder(shop, { external_id, tax_id: shop.taxId })
    await addItem(shop, invoice.id)
    const deletion = `UPDATE invoices SET deleted = 1, updated_at = ${deletedAt} WHERE company_id = ? AND id = ?`
    await sql(deletion, shop.id, invoice.id)
    const path = `/orders/${project.id}`
    const gone = await shop.call(method, path, body)
    expect([gone.status, gone.body.invoice]).toEqual([200, null])
    const none = { invoice: null, tax: null, invoice_items: [] }
    expect((await shop.call('GET', `${path}?deleted=include`)).body).toMatchObject(none)
    const back = restore === 'PUT' ? `/orders/by-external-id/${encodeURIComponent(external_id)}` : path
    const fields = restore === 'PUT' ? { title: 'Back', client_id: shop.clientId } : { deleted: false }
    const restored = (await shop.call(restore, back, fields)).body
    expect(restored).toMatchObject({ project: { deleted: false }, invoice: null })
    expect((await shop.call('GET', path)).body).toMatchObject(none)
  })

  it('restores an invoice that was deleted a moment after its order', async () => {
    const { project, invoice } = await createOrder(shop)
    const deleted = (table: string, at: number) =>
      `UPDATE ${table} SET deleted = 1, updated_at = ${at} WHERE company_id = ?`
    await sql(`${deleted('orders', 1_000)} AND id = ?`, shop.id, project.id)
    await sql(`${deleted('invoices', 1_003)} AND id = ?`, shop.id, invoice.id)
    const path = `/orders/${project.id}`
    const found = await shop.call('GET', `${path}?deleted=include`)
    expect(found.body).toMatchObject({ project: { deleted: true }, invoice: { id: invoice.id, deleted: true } })
    const { body } = await shop.call('PATCH', path, { deleted: false })
    expect(body).toMatchObject({ project: { deleted: false }, invoice: { id: invoice.id, deleted: false } })
  })
})
