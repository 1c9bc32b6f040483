import { beforeAll, describe, expect, it } from 'vitest'
import { migrate, mintCompany, sql } from '../support/app.ts'

beforeAll(migrate)

describe('orders', () => {
  it('creates, reads, updates, lists, deletes', async () => {
    const company = await mintCompany()
    const { call } = company
    const client = (await call('POST', '/clients', { company_name: 'A' })).body.client
    const made = await call('POST', '/orders', {
      title: 'T',
      client_id: client.id,
      deadline: '2026-05-01',
      tax_id: company.id * 100 + 1,
    })
    expect(made.body).toMatchObject({
      project: { title: 'T', client_id: client.id, order_status_id: company.id * 100 + 1 },
      invoice: { number: '1001', due_date: '2026-05-01', total: 0 },
      client: { id: client.id },
      tax: { rate: 8.25 },
    })
    const id = made.body.project.id
    await sql(
      `INSERT INTO invoice_items (company_id, id, invoice_id, title, quantity, unit_price_cents, search_text) VALUES (?, 1, ?, 'Tee', 12, 950, 'TEE')`,
      company.id,
      made.body.invoice.id,
    )
    expect((await call('GET', `/orders/${id}`)).body).toMatchObject({
      invoice: { subtotal: 114, tax_total: 9.41, total: 123.41 },
      invoice_items: [{ total: 114 }],
    })
    expect(
      (await call('PATCH', `/orders/${id}`, { title: 'U', discount_amount: 10, client_notes: null })).body,
    ).toMatchObject({ project: { title: 'U' }, invoice: { discount_total: 11.4 } })
    expect(
      (await call('PATCH', `/orders/${id}`, { discount_amount: 150, client_id: 999, tax_id: 5 })).body,
    ).toMatchObject({
      error: { details: { issues: [{ path: 'client_id' }, { path: 'tax_id' }, { path: 'discount_amount' }] } },
    })
    expect((await call('POST', `/orders`, { title: 'x', client_id: 999, status_id: 4 })).body).toMatchObject({
      error: { details: { issues: [{ path: 'client_id' }, { path: 'status_id' }] } },
    })
    for (const query of [
      '',
      `?client_id=${client.id}`,
      `?status=${company.id * 100 + 1}`,
      '?from=2020-01-01&to=2099-01-01',
    ]) {
      expect((await call('GET', `/orders${query}`)).body, query).toMatchObject({
        data: [{ id }],
        pagination: { total: 1 },
      })
    }
    expect((await call('DELETE', `/orders/${id}`)).body).toMatchObject({
      project: { deleted: true },
      invoice: { deleted: true, total: 111.06 },
    })
    expect((await call('DELETE', `/orders/${id}`)).status).toBe(404)
    expect((await call('GET', `/orders/${id}`)).status).toBe(404)
    expect((await call('GET', `/orders`)).body).toMatchObject({ data: [], pagination: { total: 0 } })
    expect((await call('GET', `/orders?status=${company.id * 100 + 1}`)).body).toMatchObject({
      data: [],
      pagination: { total: 0 },
    })
  })
})
