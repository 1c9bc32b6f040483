import { describe, expect, it } from 'vitest'
import { expect200, issuesOf, sql } from '../../support/app.ts'
import { addItem, insert } from '../../support/rows.ts'
import { addPayment, createClient, createOrder, dump, enableAccounting, mintShop } from './support.ts'

const shop = await mintShop()
const otherClient = await createClient(shop)
// What is refused writes no event either.
await enableAccounting(shop)

const totalsOf = (discount_total: number, tax_total: number, total: number, balance_due: number) => {
  return { discount_total, tax_total, total, balance_due }
}
const UNTAXED = totalsOf(10, 0, 90, 85)

describe('PATCH /orders/{id}', () => {
  it.each([
    [{ title: ' New ' }, { title: 'New' }, {}],
    [{ description: 'd' }, { description: 'd' }, {}],
    [{ description: null, client_notes: null }, { description: null, client_notes: null }, {}],
    [{ start_date: 'whenever' }, { start_date: 'whenever' }, {}],
    [{ deadline: '2027-01-02' }, { deadline: '2027-01-02' }, { due_date: '2027-01-02' }],
    [{ start_date: null, deadline: null }, { start_date: null, deadline: null }, { due_date: null }],
    [{ tax_exempt: true, tax_exempt_reason: ' r ' }, {}, { tax_exempt: true, tax_exempt_reason: 'r', ...UNTAXED }],
    [{ tax_id: 0 }, {}, { tax_id: null, ...UNTAXED }],
    [{ tax_id: null }, {}, { tax_id: null, ...UNTAXED }],
    [{ discount_amount: 20 }, {}, { discount_amount: 20, ...totalsOf(20, 6.6, 86.6, 81.6) }],
    [{ discount_amount: 0 }, {}, { discount_amount: 0, ...totalsOf(0, 8.25, 108.25, 103.25) }],
    [{ discount_amount_type: 'amount' }, {}, { discount_amount_type: 'fixed_amount' }],
    [{ discount_type: 'after_tax' }, {}, { discount_type: 'after_tax', ...totalsOf(10.83, 8.25, 97.42, 92.42) }],
    [{ accounting_sync_enabled: false }, {}, {}],
    [{ client_id: otherClient }, { client_id: otherClient }, {}],
    [{ status_id: shop.statusIds[1] }, { order_status_id: shop.statusIds[1] }, {}],
  ])('changes only the fields that are sent: %j', async (change, project, invoice) => {
    const texts = { description: 'x', client_notes: 'y', start_date: 'soon', deadline: '2026-12-31' }
    const made = await createOrder(shop, { ...texts, tax_id: shop.taxId, discount_amount: 10 })
    await addItem(shop, made.invoice.id, { unit_price_cents: 10_000 })
    await addPayment(shop, made.invoice.id)
    const { project: before, invoice: billed } = (await shop.call('GET', `/orders/${made.project.id}`)).body
    expect(billed).toMatchObject({ subtotal: 100, ...totalsOf(10, 7.43, 97.43, 92.43) })
    await scheduler.wait(2)
    const body = expect200(await shop.call('PATCH', `/orders/${before.id}`, change))
    const both = {
      project: { ...before, ...project, version: before.version + 1, updated_at: body.project.updated_at },
      invoice: { ...billed, ...invoice },
    }
    expect(body).toEqual(
      'discount_amount_type' in change ? { ...both, invoice: expect.objectContaining(invoice) } : both,
    )
    expect(Date.parse(body.project.updated_at)).toBeGreaterThan(Date.parse(before.updated_at))
    expect((await shop.call('GET', `/orders/${before.id}`)).body).toMatchObject(body)
  })

  it('returns 400 for an empty body', async () => {
    const { project } = await createOrder(shop)
    expect(issuesOf(await shop.call('PATCH', `/orders/${project.id}`, {}))).toEqual([''])
  })

  it.each([
    ['absent', 'DELETE FROM invoices WHERE company_id = ? AND id = ?'],
    ['deleted', 'UPDATE invoices SET deleted = 1 WHERE company_id = ? AND id = ?'],
  ])('ignores the fields of an invoice that is %s', async (_, change) => {
    const { project, invoice } = await createOrder(shop)
    await sql(change, shop.id, invoice.id)
    const stored = await sql('SELECT * FROM invoices WHERE company_id = ? AND id = ?', shop.id, invoice.id)
    const fields = { tax_exempt: true, discount_amount: 150, discount_type: 'after_tax', deadline: '2027-01-01' }
    const body = expect200(await shop.call('PATCH', `/orders/${project.id}`, fields))
    expect(body).toEqual({ project: expect.objectContaining({ deadline: '2027-01-01' }), invoice: null })
    expect(await sql('SELECT * FROM invoices WHERE company_id = ? AND id = ?', shop.id, invoice.id)).toEqual(stored)
    const deleted = await shop.call('DELETE', `/orders/${project.id}`)
    expect(deleted).toMatchObject({ status: 200, body: { project: { deleted: true } } })
  })

  it('applies all concurrent updates of different fields', async () => {
    const { project } = await createOrder(shop)
    const texts = { title: 't', description: 'd', start_date: 's', client_notes: 'n', deadline: '2026-05-05' }
    const exemption = { tax_id: shop.taxId, tax_exempt: true, tax_exempt_reason: 'r' }
    const discount = { discount_amount: 7, discount_type: 'after_tax' }
    const fields = { ...texts, ...exemption, ...discount, status_id: shop.statusIds[1] }
    await Promise.all(
      Object.entries(fields).map(([name, value]) => shop.call('PATCH', `/orders/${project.id}`, { [name]: value })),
    )
    const { body } = await shop.call('GET', `/orders/${project.id}`)
    const { status_id: order_status_id, deadline: due_date, ...rest } = fields
    const changed = { ...rest, order_status_id, deadline: due_date, due_date }
    expect({ ...body.invoice, ...body.project }).toMatchObject(changed)
  })
})

it('a discount that is sent in part is combined with the stored part', async () => {
  const { project } = await createOrder(shop, { discount_amount: 50, discount_amount_type: 'percentage' })
  const patch = (body: unknown) => shop.call('PATCH', `/orders/${project.id}`, body)
  expect(issuesOf(await patch({ discount_amount: 100.01 }))).toEqual(['discount_amount'])
  expect((await patch({ discount_amount: 100 })).status).toBe(200)
  for (const discount_amount_type of ['fixed', 'amount', 'fixed_amount']) {
    const { invoice } = (await patch({ discount_amount_type })).body
    expect(invoice).toMatchObject({ discount_amount: 100, discount_amount_type: 'fixed_amount' })
  }
  expect((await patch({ discount_amount: 5000.55 })).body.invoice.discount_amount).toBe(5000.55)
  expect(issuesOf(await patch({ discount_amount_type: 'percentage' }))).toEqual(['discount_amount_type'])
  const percent = (discount_amount: number) => ({ discount_amount_type: 'percentage', discount_amount })
  expect(issuesOf(await patch(percent(101)))).toEqual(['discount_amount'])
  expect((await patch(percent(12.5))).body.invoice).toMatchObject(percent(12.5))
})

describe('a reference to another row', () => {
  it('returns 400 naming its field, and writes nothing, when the row is unknown, deleted or another company’s', async () => {
    const other = await mintShop()
    const { project } = await createOrder(shop, { accounting_sync_enabled: true })
    const [status, tax] = [shop.id * 100 + 50, shop.id * 100 + 60]
    await insert('order_statuses', { company_id: shop.id, id: status, title: 'gone', deleted: 1 })
    await insert('taxes', { company_id: shop.id, id: tax, name: 'gone', rate: 5, deleted: 1 })
    const deletedClient = await createClient(shop, { deleted: true })
    const bad = {
      client_id: [999_999, Number.MAX_SAFE_INTEGER, other.clientId, deletedClient],
      status_id: [999_999, other.statusIds[0], status],
      tax_id: [999_999, other.taxId, tax],
    }
    const before = await dump(shop, other)
    for (const [field, id] of Object.entries(bad).flatMap(([name, ids]) => ids.map((each) => [name, each] as const))) {
      const order = { title: 'a', client_id: shop.clientId, description: 'x', [field]: id }
      expect(issuesOf(await shop.call('POST', '/orders', order)), `create ${field} ${id}`).toEqual([field])
      const change = { title: 'b', tax_exempt: true, [field]: id }
      const updated = await shop.call('PATCH', `/orders/${project.id}`, change)
      expect(issuesOf(updated), `update ${field} ${id}`).toEqual([field])
    }
    expect(await dump(shop, other)).toEqual(before)
  })

  it('may stay one that was deleted since, so that an order can be sent back as it was read', async () => {
    const clientId = await createClient(shop)
    const [status_id, tax_id] = [shop.id * 100 + 70, shop.id * 100 + 80]
    await sql('INSERT INTO order_statuses (company_id, id, title) VALUES (?, ?, ?)', shop.id, status_id, 'Printed')
    const addTax = ({ id }: typeof shop) =>
      sql("INSERT INTO taxes (company_id, id, name, rate) VALUES (?, ?, 'State', 5)", id, tax_id)
    await addTax(shop)
    const references = { client_id: clientId, status_id, tax_id }
    const { project } = await createOrder(shop, references)
    const other = await createOrder(shop)
    // An order with that id has a tax with that id in another company.
    const twin = await mintShop()
    await addTax(twin)
    await sql('UPDATE companies SET last_order_id = ? WHERE id = ?', other.project.id - 1, twin.id)
    expect((await createOrder(twin, { tax_id })).project.id).toBe(other.project.id)
    await shop.call('DELETE', `/clients/${clientId}`)
    await sql('UPDATE order_statuses SET deleted = 1 WHERE company_id = ? AND id = ?', shop.id, status_id)
    await sql('UPDATE taxes SET deleted = 1 WHERE company_id = ? AND id = ?', shop.id, tax_id)
    expect((await shop.call('PATCH', `/orders/${project.id}`, { title: 'b', ...references })).status).toBe(200)
    const refused = await shop.call('PATCH', `/orders/${other.project.id}`, references)
    expect(issuesOf(refused).sort()).toEqual(Object.keys(references).sort())
  })

  it('returns 400 naming every field, and unknown lines as well, when several are invalid', async () => {
    const { project } = await createOrder(shop)
    const bad = { client_id: 999_999, status_id: 999_999, tax_id: 999_999 }
    const names = ['client_id', 'status_id', 'tax_id']
    const before = await dump(shop)
    expect(issuesOf(await shop.call('POST', '/orders', { title: 'a', ...bad })).sort()).toEqual(names)
    const change = (fields: object) => shop.call('PATCH', `/orders/${project.id}`, { ...bad, ...fields })
    expect(issuesOf(await change({ discount_amount: 101 })).sort()).toEqual([...names, 'discount_amount'].sort())
    const invoice_items = [{ title: 'new' }, { title: 'a', id: 999_999 }]
    expect(issuesOf(await change({ invoice_items })).sort()).toEqual([...names, 'invoice_items.1.id'].sort())
    // An order that is not there is 404, whatever it refers to.
    expect((await shop.call('PATCH', '/orders/999999', bad)).status).toBe(404)
    expect(await dump(shop)).toEqual(before)
  })
})
