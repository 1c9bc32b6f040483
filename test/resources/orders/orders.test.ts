import { describe, expect, it } from 'vitest'
import { eachValue, issuesOf, sql } from '../../support/app.ts'
import { createClient, createOrder, mintShop } from './support.ts'

const shop = await mintShop()
/** That no test changes. */
const order = await createOrder(shop)

const NOTHING_DUE = { subtotal: 0, discount_total: 0, tax_total: 0, total: 0, amount_paid: 0, balance_due: 0 }

const DEFAULT_STATUS = { color: '#111', workflow_key: 'new', position: 1, is_default: true }

const today = () => new Date().toISOString().slice(0, 10)

describe('POST /orders', () => {
  it('requires a title and a client, and returns every part of the order', async () => {
    const order = await createOrder(shop, { title: ' Regatta ' })
    const { id } = order.project
    expect(order).toEqual({
      project: {
        ...{ id: expect.any(Number), title: 'Regatta', client_id: shop.clientId, order_status_id: shop.statusIds[0] },
        ...{ description: null, start_date: null, deadline: null, client_notes: null, external_id: null },
        ...{ created_date: today(), created_at: expect.stringMatching(/Z$/), updated_at: order.project.created_at },
        ...{ deleted: false, version: 1 },
      },
      invoice: {
        ...{ id: expect.any(Number), project_id: id, number: expect.stringMatching(/^\d+$/), due_date: null },
        ...{ tax_id: null, tax_exempt: false, tax_exempt_reason: null, deleted: false },
        ...{ discount_amount: 0, discount_amount_type: 'percentage', discount_type: 'before_tax' },
        ...NOTHING_DUE,
      },
      invoice_items: [],
      payments: [],
      client: (await shop.call('GET', `/clients/${shop.clientId}`)).body.client,
      tax: null,
      order_status: { id: shop.statusIds[0], title: 'New', ...DEFAULT_STATUS },
      artworks: [],
      accounting: { status: 'not_synced', last_error: null, synced_at: null },
    })
    expect((await shop.call('GET', `/orders/${id}`)).body).toEqual(order)
  })

  it('accepts every field of an order', async () => {
    const texts = { description: '', start_date: 'second week of May', deadline: '2028-02-29', client_notes: 'Ünï 🧵' }
    const exemption = { tax_id: shop.taxId, tax_exempt: true, tax_exempt_reason: 'Non-profit' }
    const terms = { ...exemption, discount_amount: 12.34, discount_type: 'after_tax' }
    const more = { status_id: shop.statusIds[1], discount_amount_type: 'fixed', accounting_sync_enabled: true }
    const order = await createOrder(shop, { ...texts, ...terms, ...more })
    expect(order).toMatchObject({
      project: { ...texts, order_status_id: more.status_id },
      invoice: { ...terms, due_date: texts.deadline, discount_amount_type: 'fixed_amount' },
      tax: { id: shop.taxId, name: 'State', rate: 8.25 },
      order_status: { workflow_key: 'production' },
    })
    expect((await shop.call('GET', `/orders/${order.project.id}`)).body).toEqual(order)
  })

  it('numbers invoices consecutively, after seeded ones', async () => {
    const one = await mintShop()
    await sql(`UPDATE companies SET last_invoice_number = 8999 WHERE id = ?`, one.id)
    expect((await createOrder(one)).invoice.number).toBe('9000')
    await sql(`UPDATE companies SET last_invoice_number = 999999999999999 WHERE id = ?`, one.id)
    const long = [(await createOrder(one)).invoice.number, (await createOrder(one)).invoice.number]
    expect(long).toEqual(['1000000000000000', '1000000000000001'])
  })

  it('sets no status when the company has no default', async () => {
    const one = await mintShop()
    await sql('UPDATE order_statuses SET is_default = 0 WHERE company_id = ?', one.id)
    expect(await createOrder(one)).toMatchObject({ project: { order_status_id: null }, order_status: null })
  })
})

const REJECTED: [field: string, ...values: unknown[]][] = [
  ['title', '', ' ', null, 'x'.repeat(256)],
  ['client_id', -1, null, 2 ** 53],
  ['description', 5],
  ['start_date', 20260101],
  ['deadline', '2026-02-30', '2026-2-3', '2026-01-01T00:00:00Z', 'soon'],
  ['status_id', 0, '1', 1.5],
  ['tax_id', -1, '0'],
  ['tax_exempt', 'no'],
  ['discount_amount', -0.01, 100.01, 1.005, null],
  ['discount_type', 'before'],
  ['accounting_sync_enabled', 1],
  ['number', '5'],
  ['created_date', '2026-01-01'],
  ['deleted', 1],
]
it.each(eachValue(REJECTED))('a field of an order is rejected on create and update: %s %j', async (field, value) => {
  for (const [method, path, base] of [
    ['POST', '/orders', { title: 'a', client_id: shop.clientId }],
    ['PATCH', `/orders/${order.project.id}`, { client_notes: 'changed' }],
  ] as const) {
    expect(issuesOf(await shop.call(method, path, { ...base, [field]: value })), method).toContain(field)
  }
  expect((await shop.call('GET', `/orders/${order.project.id}`)).body).toEqual(order)
})

describe('the tax exemption of a new order', () => {
  const EXEMPT = { tax_exempt: true, tax_exempt_reason: 'School' }
  const RESALE = { tax_exempt: true, tax_exempt_reason: 'Resale' }

  type Fields = Record<string, unknown>
  it.each<[string, ofClient: Fields, sent: Fields, isExempt: boolean, reason: string | null]>([
    ['is copied from the client', EXEMPT, {}, true, 'School'],
    ['is off when the client has none', {}, {}, false, null],
    ['has no reason when the client has none', { tax_exempt: true }, {}, true, null],
    ['is off, without a reason, when the request turns it off', EXEMPT, { tax_exempt: false }, false, null],
    ['has not the client’s reason when the request turns it on', EXEMPT, { tax_exempt: true }, true, null],
    ['has the request’s reason when only that is sent', EXEMPT, { tax_exempt_reason: 'Resale' }, true, 'Resale'],
    ['has no reason when only a null one is sent', EXEMPT, { tax_exempt_reason: null }, true, null],
    ['is the request’s when the client has none', {}, RESALE, true, 'Resale'],
  ])('%s', async (_, ofClient, sent, tax_exempt, tax_exempt_reason) => {
    const client_id = await createClient(shop, ofClient)
    const { invoice } = await createOrder(shop, { client_id, tax_id: shop.taxId, ...sent })
    expect(invoice).toMatchObject({ tax_exempt, tax_exempt_reason, tax_id: shop.taxId })
  })

  it('does not follow later changes of the client, or another client', async () => {
    const client_id = await createClient(shop, EXEMPT)
    const { project } = await createOrder(shop, { client_id })
    await shop.call('PATCH', `/clients/${client_id}`, { tax_exempt: false, tax_exempt_reason: null })
    const changed = await shop.call('PATCH', `/orders/${project.id}`, { client_id: shop.clientId })
    expect(changed.body.invoice).toMatchObject(EXEMPT)
  })
})
