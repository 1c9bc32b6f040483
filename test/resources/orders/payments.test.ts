import { describe, expect, it } from 'vitest'
import { type ApiResponse, sql } from '../../support/app.ts'
import { addItem } from '../../support/rows.ts'
import { addPayment, createOrder, dump, enableAccounting, expectRefusals, mintShop } from './support.ts'

const shop = await mintShop()

const pay = (orderId: number, body: unknown, headers?: Record<string, string>) =>
  shop.call('POST', `/orders/${orderId}/payments`, body, headers)
const remove = (orderId: number, paymentId: number | string, headers?: Record<string, string>) =>
  shop.call('DELETE', `/orders/${orderId}/payments/${paymentId}`, undefined, headers)

/** An order with a line of 100. */
async function createBilled(of = shop) {
  const order = await createOrder(of)
  await addItem(of, order.invoice.id, { unit_price_cents: 10_000 })
  return order
}

describe('POST /orders/{id}/payments', () => {
  it('adds a payment: the invoice, the version and the order follow', async () => {
    const { project, invoice } = await createBilled()
    const body = { amount: 40.25, method: ' card ', paid_at: '2026-03-03T13:00:00+01:00', note: 'Deposit' }
    const first = await pay(project.id, body)
    expect(first.status, JSON.stringify(first.body)).toBe(200)
    expect(first.body).toEqual({
      payment: {
        id: expect.any(Number),
        invoice_id: invoice.id,
        amount: 40.25,
        method: 'card',
        paid_at: '2026-03-03T12:00:00.000Z',
        note: 'Deposit',
      },
      invoice: { ...invoice, subtotal: 100, total: 100, amount_paid: 40.25, balance_due: 59.75 },
    })
    expect(first.headers.get('etag')).toBe('"2"')
    const second = await pay(project.id, { amount: 70 })
    expect(second.body.payment).toMatchObject({ amount: 70, method: null, paid_at: null, note: null })
    expect(second.body.payment.id).toBeGreaterThan(first.body.payment.id)
    expect(second.body.invoice).toMatchObject({ amount_paid: 110.25, balance_due: -10.25 })
    const read = (await shop.call('GET', `/orders/${project.id}`)).body
    expect(read.payments).toEqual([first.body.payment, second.body.payment])
    expect([read.invoice, read.project.version]).toEqual([second.body.invoice, 3])
  })

  it.each([
    ['2026-03-03', '2026-03-03'],
    ['2026-03-03T12:00:00Z', '2026-03-03T12:00:00.000Z'],
    ['2026-03-03T12:00:00.5-05:30', '2026-03-03T17:30:00.500Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
    ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00.000Z'],
    [null, null],
  ])('stores the paid_at %j as %j', async (paid_at, stored) => {
    const { project } = await createOrder(shop)
    expect((await pay(project.id, { amount: 1, paid_at })).body.payment.paid_at).toBe(stored)
  })

  it('refuses what its schema does not allow, and changes nothing', async () => {
    const { project } = await createOrder(shop)
    await expectRefusals(shop, (body) => pay(project.id, body), [
      [{}, 'amount'],
      [{ amount: 0 }, 'amount'],
      [{ amount: -1 }, 'amount'],
      [{ amount: 0.005 }, 'amount'],
      [{ amount: 1.001 }, 'amount'],
      [{ amount: 1e9 }, 'amount'],
      [{ amount: '1' }, 'amount'],
      [{ amount: 1, paid_at: 'yesterday' }, 'paid_at'],
      [{ amount: 1, paid_at: '2026-02-30' }, 'paid_at'],
      [{ amount: 1, paid_at: '2026-02-03T10:00:00' }, 'paid_at'],
      [{ amount: 1, paid_at: '9999-12-31T23:59:59-23:59' }, 'paid_at'],
      [{ amount: 1, paid_at: '0000-01-01T00:00:00+00:01' }, 'paid_at'],
      [{ amount: 1, method: 'a\nb' }, 'method'],
      [{ amount: 1, note: 'x'.repeat(10_001) }, 'note'],
      [{ amount: 1, id: 7 }, 'id'],
    ])
  })

  it('takes 0.01, 999999999.99 and 0.1 + 0.2', async () => {
    const { project } = await createOrder(shop)
    for (const amount of [0.01, 999_999_999.99, 0.1 + 0.2]) expect((await pay(project.id, { amount })).status).toBe(200)
    expect((await shop.call('GET', `/orders/${project.id}`)).body.invoice.amount_paid).toBe(1_000_000_000.3)
  })

  it('gives ids above those of a seed, also to several at once', async () => {
    const { project, invoice } = await createOrder(shop)
    await addPayment(shop, invoice.id, { id: 5_000_000 })
    const responses = await Promise.all([1, 2, 3, 4].map((amount) => pay(project.id, { amount })))
    const ids = responses.map(({ body }) => body.payment.id)
    expect(ids.sort()).toEqual([5_000_001, 5_000_002, 5_000_003, 5_000_004])
  })

  it('refuses the 501st payment of an order, and notes over 400,000 bytes in all', async () => {
    const payments = (count: number, note?: string) => Array.from({ length: count }, () => ({ amount: 1, note }))
    const refused = [409, { reason: 'payments_limit' }]
    const create = async (paid: object[]) => {
      const body = { title: 'Paid often', client_id: shop.clientId, payments: paid }
      return (await shop.call('POST', '/orders', body)).body
    }
    const many = await create(payments(499))
    // An invoice of another company with the same id has a payment too.
    const other = await mintShop()
    await sql('UPDATE companies SET last_invoice_id = ? WHERE id = ?', many.invoice.id - 1, other.id)
    const theirs = await createOrder(other)
    expect(theirs.invoice.id).toBe(many.invoice.id)
    await addPayment(other, theirs.invoice.id)
    const headers = { 'idempotency-key': `limit-${many.project.id}` }
    expect((await pay(many.project.id, { amount: 1 }, headers)).status).toBe(200)
    const before = await dump(shop)
    const over = await pay(many.project.id, { amount: 1 })
    expect([over.status, over.body.error.details]).toMatchObject(refused)
    expect(await dump(shop)).toEqual(before)
    expect((await pay(many.project.id, { amount: 1 }, headers)).status).toBe(200)

    const note = '漢'.repeat(10_000)
    const long = await create(payments(12, note))
    const more = (body: object) => pay(long.project.id, { amount: 1, ...body })
    const { payment } = (await more({ note })).body
    const short = (await more({})).body.payment
    const change = (id: number, body: object) => shop.call('PATCH', `/orders/${long.project.id}/payments/${id}`, body)
    const rest = { note: `${'x'.repeat(9_999)}漢` }
    for (const sent of [await more({ note }), await more(rest), await change(short.id, rest)]) {
      expect([sent.status, sent.body.error.details]).toMatchObject(refused)
    }
    expect((await change(short.id, { amount: 2 })).status).toBe(200)
    expect((await change(payment.id, { note: 'short' })).status).toBe(200)
    expect((await change(short.id, { note })).status).toBe(200)
  })
})

describe('DELETE /orders/{id}/payments/{payment_id}', () => {
  it('removes the payment, and returns it with the invoice that is left', async () => {
    const { project } = await createBilled()
    const { payment } = (await pay(project.id, { amount: 30, method: 'cash' })).body
    await pay(project.id, { amount: 20 })
    const removed = await remove(project.id, payment.id)
    expect(removed.body).toMatchObject({ payment, invoice: { amount_paid: 20, balance_due: 80 } })
    expect(removed.headers.get('etag')).toBe('"4"')
    const read = (await shop.call('GET', `/orders/${project.id}`)).body
    expect(read.invoice).toEqual(removed.body.invoice)
    expect(read.payments).toHaveLength(1)
    expect((await remove(project.id, payment.id)).status).toBe(404)
  })

  it('removes one of several at once only once', async () => {
    const { project } = await createOrder(shop)
    const { payment } = (await pay(project.id, { amount: 30 })).body
    const removed = await Promise.all([1, 2, 3].map(() => remove(project.id, payment.id)))
    expect(removed.map(({ status }) => status).sort()).toEqual([200, 404, 404])
    expect((await shop.call('GET', `/orders/${project.id}`)).body.project.version).toBe(3)
  })

  it('returns 404 for a payment that is not one of an order that is there, and 409 without an invoice', async () => {
    const [{ project }, other, deleted] = [await createOrder(shop), await createOrder(shop), await createOrder(shop)]
    const { payment } = (await pay(project.id, { amount: 1 })).body
    const lost = (await pay(deleted.project.id, { amount: 1 })).body.payment.id
    await shop.call('DELETE', `/orders/${deleted.project.id}`)
    const bare = (await createOrder(shop)).project.id
    await sql('DELETE FROM invoices WHERE company_id = ? AND project_id = ?', shop.id, bare)
    const before = await dump(shop)
    expect((await remove(bare, payment.id)).status).toBe(409)
    for (const [orderId, paymentId] of [
      [other.project.id, payment.id],
      [deleted.project.id, lost],
      [project.id, 0],
      [project.id, 'x'],
    ]) {
      expect((await remove(orderId, paymentId)).status).toBe(404)
    }
    expect(await dump(shop)).toEqual(before)
  })
})

describe('the lines and payments of an order', () => {
  const items = [{ title: 'Tee' }]
  const putLines = (orderId: number, headers?: Record<string, string>) =>
    shop.call('PUT', `/orders/${orderId}/invoice-items`, { items }, headers)

  it.each<[string, (orderId: number) => Promise<ApiResponse>]>([
    ['PUT invoice-items', putLines],
    ['PATCH with invoice_items', (id) => shop.call('PATCH', `/orders/${id}`, { title: 'No', invoice_items: [] })],
    ['POST payments', (id) => pay(id, { amount: 1 })],
  ])('are refused by %s without an order of the company that is there and has an invoice', async (_, send) => {
    const [deleted, bare, ofDeletedInvoice] = await Promise.all([1, 2, 3].map(() => createOrder(shop)))
    await shop.call('DELETE', `/orders/${deleted.project.id}`)
    await sql('DELETE FROM invoices WHERE company_id = ? AND id = ?', shop.id, bare.invoice.id)
    await sql('UPDATE invoices SET deleted = 1 WHERE company_id = ? AND id = ?', shop.id, ofDeletedInvoice.invoice.id)
    const before = await dump(shop)
    for (const id of [1, deleted.project.id]) expect((await send(id)).status).toBe(404)
    for (const { project } of [bare, ofDeletedInvoice]) {
      const { status, body } = await send(project.id)
      expect([status, body.error.details]).toMatchObject([409, { reason: 'invoice_missing' }])
    }
    expect(await dump(shop)).toEqual(before)
  })

  it('honour If-Match', async () => {
    const { project } = await createOrder(shop)
    const before = await dump(shop)
    const stale = { 'if-match': '"2"' }
    expect([(await putLines(project.id, stale)).status, (await pay(project.id, { amount: 1 }, stale)).status]).toEqual([
      412, 412,
    ])
    expect(await dump(shop)).toEqual(before)
    expect((await putLines(project.id, { 'if-match': '"1"' })).status).toBe(200)
    const { payment } = (await pay(project.id, { amount: 1 }, stale)).body
    const paid = await dump(shop)
    expect((await putLines(project.id, stale)).status).toBe(412)
    expect((await remove(project.id, payment.id, stale)).status).toBe(412)
    expect(await dump(shop)).toEqual(paid)
    expect((await remove(project.id, payment.id, { 'if-match': '"3"' })).status).toBe(200)
  })

  it('are in the feed, the audit and the accounting events', async () => {
    const own = await mintShop()
    await enableAccounting(own)
    const { project } = await createOrder(own, { accounting_sync_enabled: false })
    const path = `/orders/${project.id}`
    expect((await own.call('PUT', `${path}/invoice-items`, { items })).headers.get('etag')).toBe('"2"')
    const { payment } = (await own.call('POST', `${path}/payments`, { amount: 1 })).body
    await own.call('DELETE', `${path}/payments/${payment.id}`)
    const rows = (columns: string, table: string, order: string) =>
      sql(`SELECT ${columns} FROM ${table} WHERE company_id = ? ORDER BY ${order}`, own.id)
    expect((await rows('operation, version', 'changes', 'sequence')).slice(-4)).toEqual([
      { operation: 'create', version: 1 },
      ...[2, 3, 4].map((version) => ({ operation: 'update', version })),
    ])
    expect(await rows('operation', 'accounting_outbox', 'id')).toEqual(Array(3).fill({ operation: 'update' }))
    expect((await rows('action, entity_id', 'audit_log', 'id')).slice(-3)).toEqual([
      { action: 'invoice_items.write', entity_id: String(project.id) },
      { action: 'payment.create', entity_id: String(payment.id) },
      { action: 'payment.delete', entity_id: String(payment.id) },
    ])
  })
})
