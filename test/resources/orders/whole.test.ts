import { describe, expect, it } from 'vitest'
import { expect200, issuesOf, sql } from '../../support/app.ts'
import { createClient, createOrder, expectRefusals, mintShop } from './support.ts'

let next = 0

const shop = await mintShop()

const fresh = () => `shop-${next++}`
const ITEMS = [
  { title: 'Tee', quantity: 2.5, unit_price: 10.1, taxable: false, sku: 'T' },
  { title: 'Cap', description: 'Blue' },
  { title: 'Credit', quantity: 1, unit_price: -3 },
]
const PAYMENTS = [{ amount: 5.05 }, { amount: 1, method: 'card', paid_at: '2026-01-02', note: 'n' }]

const titles = (list: object[]) => list.map((each) => ('title' in each ? each.title : undefined))
const read = async (id: number) => (await shop.call('GET', `/orders/${id}`)).body

describe('POST /orders with its lists', () => {
  it('creates the order as it is read afterwards', async () => {
    const body = await createOrder(shop, { tax_id: shop.taxId, invoice_items: ITEMS, payments: PAYMENTS })
    expect(titles(body.invoice_items)).toEqual(['Tee', 'Cap', 'Credit'])
    expect(body.invoice_items).toMatchObject([
      { quantity: 2.5, unit_price: 10.1, total: 25.25, taxable: false, sku: 'T', position: 1, deleted: false },
      { quantity: 1, unit_price: 0, description: 'Blue', taxable: true, position: 2 },
      { unit_price: -3, position: 3 },
    ])
    expect(body.payments).toMatchObject([
      { amount: 5.05, method: null, paid_at: null, note: null },
      { amount: 1, method: 'card', paid_at: '2026-01-02', note: 'n' },
    ])
    expect(body.invoice).toMatchObject({ subtotal: 22.25, amount_paid: 6.05 })
    expect(await read(body.project.id)).toEqual(body)
    expect((await createOrder(shop, { payments: PAYMENTS.slice(1) })).payments).toMatchObject([{ amount: 1 }])
    expect(await createOrder(shop, { invoice_items: [], payments: [] })).toMatchObject({
      invoice_items: [],
      payments: [],
    })
  })

  it.each([
    ['POST', '/orders'],
    ['PUT', '/orders/by-external-id/never'],
  ])('refuses a wrong field by its path, and writes nothing: %s %s', async (method, target) => {
    const order = { title: 'a', client_id: shop.clientId }
    await expectRefusals(shop, (fields) => shop.call(method, target, Object.assign({}, order, fields)), [
      [{ invoice_items: [{ title: 'a' }, { title: 'b', quantity: -1 }] }, 'invoice_items.1.quantity'],
      [{ invoice_items: [{}] }, 'invoice_items.0.title'],
      [{ invoice_items: [{ title: 'a', id: 1 }] }, 'invoice_items.0.id'],
      [{ invoice_items: [{ title: 'a', quantity: 1e6, unit_price: 1e6 }] }, 'invoice_items.0.unit_price'],
      [{ invoice_items: Array(501).fill({ title: 'a' }) }, 'invoice_items'],
      [{ invoice_items: { title: 'a' } }, 'invoice_items'],
      [{ payments: [{ amount: 1 }, { amount: 1 }, { amount: 0 }] }, 'payments.2.amount'],
      [{ payments: [{ amount: 1, paid_at: 'soon' }] }, 'payments.0.paid_at'],
      [{ payments: Array(501).fill({ amount: 1 }) }, 'payments'],
      [{ client_id: 999_999, invoice_items: ITEMS, payments: PAYMENTS }, 'client_id'],
      [{ tax_id: 999_999, invoice_items: ITEMS, payments: PAYMENTS }, 'tax_id'],
    ])
  })

  it('has a limit of 400,000 bytes', async () => {
    const invoice_items = Array(45).fill({ title: 'a', description: 'x'.repeat(9_000) })
    const { status, body } = await shop.call('POST', '/orders', { title: 'a', client_id: shop.clientId, invoice_items })
    expect([status, body.error.details.limit_bytes]).toEqual([413, 400_000])
  })
})

describe('PATCH /orders/{id} with invoice_items', () => {
  it('replaces them as PUT invoice-items does, with the other fields', async () => {
    const { project, invoice_items } = await createOrder(shop, { invoice_items: ITEMS })
    const [tee, cap] = invoice_items
    const sent = [Object.assign({}, ITEMS[1], { id: cap.id }), { title: 'New', unit_price: 2 }]
    const change = { title: 'Changed', invoice_items: sent }
    const { body } = await shop.call('PATCH', `/orders/${project.id}`, change)
    expect(body).toMatchObject({ project: { title: 'Changed', version: 2 }, invoice: { subtotal: 2 } })
    expect(body.invoice_items).toMatchObject(sent.map((item, index) => ({ ...item, position: index + 1 })))
    const whole = await read(project.id)
    expect(whole).toMatchObject({ invoice: body.invoice, project: body.project, invoice_items: body.invoice_items })
    for (const wrong of [[{ title: 'a' }, { title: 'b', id: tee.id }], [{ title: 'a', id: 999_999_999 }]]) {
      const refused = await shop.call('PATCH', `/orders/${project.id}`, { title: 'No', invoice_items: wrong })
      expect(issuesOf(refused)).toEqual([`invoice_items.${wrong.length - 1}.id`])
    }
    expect(await read(project.id)).toEqual(whole)
  })

  it('is refused with a deletion, as a whole', async () => {
    const { project } = await createOrder(shop, { client_notes: 'n', invoice_items: ITEMS })
    const before = await read(project.id)
    const change = { client_notes: null, deleted: true, invoice_items: [] }
    expect(issuesOf(await shop.call('PATCH', `/orders/${project.id}`, change))).toEqual(['invoice_items'])
    expect(await read(project.id)).toEqual(before)
  })

  it('replaces the lines of an order that it brings back', async () => {
    const { project } = await createOrder(shop, { invoice_items: ITEMS })
    await shop.call('DELETE', `/orders/${project.id}`)
    const change = { deleted: false, invoice_items: [{ title: 'Only' }] }
    expect((await shop.call('PATCH', `/orders/${project.id}`, change)).status).toBe(200)
    expect(titles((await read(project.id)).invoice_items)).toEqual(['Only'])
  })
})

describe('PUT /orders/by-external-id/{external_id}', () => {
  const put = async (id: string, body: object, headers?: Record<string, string>) =>
    shop.call('PUT', `/orders/by-external-id/${id}`, { title: 'Put', client_id: shop.clientId, ...body }, headers)

  it('creates the order once, and leaves it as it is when sent again', async () => {
    const id = fresh()
    const sent = { deadline: '2026-05-01', tax_id: shop.taxId, invoice_items: ITEMS, payments: PAYMENTS }
    const first = expect200(await put(id, sent))
    expect(first.project).toMatchObject({ external_id: id, version: 1, deadline: '2026-05-01', title: 'Put' })
    expect(first.invoice).toMatchObject({ due_date: '2026-05-01', tax_id: shop.taxId, amount_paid: 6.05 })
    const whole = await read(first.project.id)
    const { project, invoice, invoice_items, payments } = whole
    expect(first).toEqual({ project, invoice, invoice_items, payments })
    const again = await put(id, sent)
    const updated = { ...project, version: 2, updated_at: expect.any(String) }
    expect(again.body).toEqual({ project: updated, invoice, invoice_items, payments })
    expect(await read(project.id)).toEqual({ ...whole, project: updated })
    const next = await createOrder(shop)
    expect(next.project.id).toBe(project.id + 1)
    expect(Number(next.invoice.number)).toBe(Number(invoice.number) + 1)
  })

  it('replaces the fields, but not a status and lists that are left out', async () => {
    const id = fresh()
    const fields = { description: 'd', client_notes: 'n', discount_amount: 5, discount_amount_type: 'fixed' }
    const lists = { invoice_items: ITEMS, payments: PAYMENTS }
    const { body } = await put(id, { ...fields, ...lists, status_id: shop.statusIds[1] })
    const changed = await put(id, { title: 'Other' })
    const reset = { title: 'Other', description: null, client_notes: null, version: 2, updated_at: expect.any(String) }
    const discount = { discount_amount: 0, discount_amount_type: 'percentage', discount_total: 0 }
    expect(changed.body).toEqual({
      project: { ...body.project, ...reset },
      invoice: { ...body.invoice, ...discount, total: 22.25, balance_due: 16.2 },
    })
    expect(await read(body.project.id)).toMatchObject({ invoice_items: body.invoice_items, payments: body.payments })
  })

  it.each([true, false])('drops the reason of an exemption when only tax_exempt %s is sent', async (tax_exempt) => {
    const id = fresh()
    const school = await put(id, { tax_exempt: true, tax_exempt_reason: 'School' })
    expect(school.body.invoice).toMatchObject({ tax_exempt: true, tax_exempt_reason: 'School' })
    expect((await put(id, { tax_exempt })).body.invoice).toMatchObject({ tax_exempt, tax_exempt_reason: null })
  })

  it('matches lines and payments in their order: keeps ids, removes and adds', async () => {
    const id = fresh()
    const { body: first } = await put(id, { invoice_items: ITEMS, payments: PAYMENTS })
    const fewer = (await put(id, { invoice_items: [{ title: 'X' }], payments: [{ amount: 9 }] })).body
    expect(fewer.invoice_items).toMatchObject([{ id: first.invoice_items[0].id, title: 'X' }])
    expect(fewer.payments).toMatchObject([{ id: first.payments[0].id, amount: 9 }])
    const more = (await put(id, { invoice_items: [{ title: 'X' }, { title: 'Y' }], payments: PAYMENTS })).body
    expect(more.invoice_items).toMatchObject([{ id: fewer.invoice_items[0].id, title: 'X' }, { title: 'Y' }])
    expect(more.payments).toMatchObject([{ id: fewer.payments[0].id, amount: 5.05 }, { amount: 1 }])
    expect((await put(id, { invoice_items: [], payments: [] })).body).toMatchObject({ invoice_items: [], payments: [] })
    expect(await read(first.project.id)).toMatchObject({ invoice_items: [], payments: [], invoice: { amount_paid: 0 } })
  })

  it('restores a deleted order with its invoice', async () => {
    const id = fresh()
    const { body } = await put(id, { invoice_items: ITEMS })
    await shop.call('DELETE', `/orders/${body.project.id}`)
    expect((await put(id, { title: 'Back' })).body).toMatchObject({
      project: { id: body.project.id, title: 'Back', deleted: false },
      invoice: { id: body.invoice.id, deleted: false },
    })
    expect(titles((await read(body.project.id)).invoice_items)).toEqual(titles(ITEMS))
  })

  it('keeps a client that is deleted meanwhile, and takes no other deleted one', async () => {
    const [client, deleted] = [await createClient(shop), await createClient(shop)]
    const id = fresh()
    const first = await put(id, { client_id: client })
    for (const each of [client, deleted]) await shop.call('DELETE', `/clients/${each}`)
    const again = await put(id, { client_id: client, title: 'Again', invoice_items: ITEMS })
    expect([again.status, again.body.project]).toMatchObject([200, { client_id: client, title: 'Again', version: 2 }])
    const path = `/orders/${first.body.project.id}`
    const changed = await shop.call('PATCH', path, { client_id: client, title: 'Changed' })
    expect(changed.body.project).toMatchObject({ title: 'Changed', version: 3 })
    const refused = [
      await put(id, { client_id: deleted }),
      await put(fresh(), { client_id: client }),
      await shop.call('PATCH', path, { client_id: deleted }),
    ]
    for (const response of refused) expect(issuesOf(response)).toEqual(['client_id'])
    expect((await read(first.body.project.id)).project).toEqual(changed.body.project)
  })

  it('creates or replaces only, as its conditions say', async () => {
    const id = fresh()
    expect((await put(id, {}, { 'If-Match': '"1"' })).status).toBe(412)
    const created = await put(id, {}, { 'If-None-Match': '*' })
    expect(created.status).toBe(200)
    const refused = await put(id, {}, { 'If-None-Match': '*' })
    expect([refused.status, refused.body.error.details.reason]).toEqual([412, 'already_exists'])
    expect((await put(id, {}, { 'If-Match': '"1"' })).body.project.version).toBe(2)
    expect((await put(id, {}, { 'If-Match': '"1"' })).status).toBe(412)
    expect((await put(id, {}, { 'If-None-Match': '"1"' })).status).toBe(400)
  })

  it('refuses lists for an order without an invoice', async () => {
    const id = fresh()
    const { body } = await put(id, {})
    await sql('UPDATE invoices SET deleted = 1 WHERE company_id = ? AND id = ?', shop.id, body.invoice.id)
    const refused = await put(id, { title: 'No', invoice_items: [] })
    expect([refused.status, refused.body.error.details.reason]).toEqual([409, 'invoice_missing'])
    expect((await put(id, { title: 'Yes' })).body).toMatchObject({ project: { title: 'Yes' }, invoice: null })
  })

  it('makes one order of many at once', async () => {
    const id = fresh()
    const responses = await Promise.all(Array.from({ length: 8 }, () => put(id, { invoice_items: ITEMS })))
    expect(new Set(responses.map(({ body }) => body.project?.id)).size).toBe(1)
    const { body } = await shop.call('GET', `/orders?external_id=${id}&expand=invoice_items`)
    expect(body.data).toMatchObject([{ version: 8 }])
    expect(titles(body.data[0].invoice_items)).toEqual(titles(ITEMS))
  })

  it('takes any id that is percent-encoded, and refuses one that is blank', async () => {
    const { body } = await put('a%2Fb%20%C3%A9', {})
    expect(body.project.external_id).toBe('a/b é')
    for (const id of ['invoice-items', 'payments', 'files']) {
      expect((await put(id, {})).body.project.external_id).toBe(id)
    }
    const { status } = await put('%20', {})
    expect(status).toBe(400)
  })
})

it('payments of an order are listed, corrected field by field, and counted', async () => {
  const { project, payments } = await createOrder(shop, { invoice_items: ITEMS, payments: PAYMENTS })
  const path = `/orders/${project.id}/payments`
  expect((await shop.call('GET', path)).body).toEqual({ data: payments })
  const [first, second] = payments
  const note = 'x'.repeat(5_000)
  const { body } = await shop.call('PATCH', `${path}/${second.id}`, { note, method: null })
  expect(body).toMatchObject({ payment: { ...second, note, method: null }, invoice: { amount_paid: 6.05 } })
  expect((await shop.call('PATCH', `${path}/${first.id}`, { amount: 7 })).body.invoice.amount_paid).toBe(8)
  expect((await shop.call('GET', path)).body.data).toEqual([{ ...first, amount: 7 }, body.payment])
  expect((await read(project.id)).project.version).toBe(3)
  const other = await createOrder(shop)
  for (const target of [`/orders/${other.project.id}/payments/${first.id}`, `${path}/999999999`]) {
    expect((await shop.call('PATCH', target, { amount: 1 })).status).toBe(404)
  }
  for (const wrong of [{}, { amount: null }]) {
    expect((await shop.call('PATCH', `${path}/${first.id}`, wrong)).status).toBe(400)
  }
  expect((await shop.call('GET', `/orders/${other.project.id}/payments`)).body).toEqual({ data: [] })
  expect((await shop.call('GET', '/orders/999999/payments')).status).toBe(404)
})

it('a change of the status follows its update or delete in the feed, with the old and the new one', async () => {
  const one = await mintShop()
  const [first, second] = one.statusIds
  const { project } = await createOrder(one, { status_id: first })
  const start = (await one.call('GET', '/changes?start=latest')).body.pagination.next_cursor
  await one.call('PATCH', `/orders/${project.id}`, { status_id: second, title: 'a' })
  await one.call('PATCH', `/orders/${project.id}`, { status_id: second })
  await one.call('PATCH', `/orders/${project.id}`, { title: 'b' })
  await one.call('PATCH', `/orders/${project.id}`, { status_id: first, deleted: true })
  const { body } = await one.call('GET', `/changes?cursor=${start}`)
  const entry = { type: 'orders', id: project.id, time: expect.any(String) }
  expect(body.data).toEqual([
    { ...entry, operation: 'update', version: 2 },
    { ...entry, operation: 'status_changed', version: 2, old_status_id: first, new_status_id: second },
    { ...entry, operation: 'update', version: 3 },
    { ...entry, operation: 'update', version: 4 },
    { ...entry, operation: 'delete', version: 5 },
    { ...entry, operation: 'status_changed', version: 5, old_status_id: second, new_status_id: first },
  ])
  const expanded = await one.call('GET', `/changes?cursor=${start}&expand=object&per_page=2`)
  expect(expanded.body.orders).toMatchObject([{ id: project.id, title: 'b' }])
})
