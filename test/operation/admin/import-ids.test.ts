import { expect, it } from 'vitest'
import type { SeedInput } from '../../../src/operation/copies/seed/file.ts'
import { call, mintToken, sql } from '../../support/app.ts'
import { freshShop, partsOf, sendPart } from './transfer-support.ts'

const COUNT = 600

/** A file of several parts, without the last ids. */
function fileOf(company: Partial<SeedInput['company']> = {}, number = (id: number) => String(2_000 + id)): SeedInput {
  const shop = freshShop()
  const ids = Array.from({ length: COUNT }, (_, index) => index + 1)
  const line = (id: number) => ({ id, title: 'file', quantity: 1, unit_price: 1 })
  return {
    company: { ...shop.company, ...company },
    clients: ids.map((id) => ({ id, company_name: 'file' })),
    orders: ids.map((id) => ({
      id,
      title: 'file',
      client_id: id,
      invoice: { id, number: number(id), items: [line(id)], payments: [{ id, amount: 1 }] },
    })),
  }
}

it('what requests create between the parts of an import takes no id or number of a later part', async () => {
  const file = fileOf()
  const { id } = file.company
  const parts = partsOf(file)
  expect(parts.length).toBeGreaterThan(3)
  let token: string | undefined
  for (const part of parts) {
    const { status, body } = await sendPart(file, part)
    expect([status, body.differences]).toEqual([200, []])
    token ??= await mintToken(id)
    const { client } = (await call(token, 'POST', '/clients', { company_name: 'api' })).body
    const order = { title: 'api', client_id: client.id, invoice_items: [{ title: 'api', quantity: 1, unit_price: 1 }] }
    const created = (await call(token, 'POST', '/orders', order)).body
    expect((await call(token, 'POST', `/orders/${created.project.id}/payments`, { amount: 1 })).status).toBe(200)
  }
  const foreign = `SELECT o.id FROM orders AS o JOIN clients AS c ON c.company_id = o.company_id AND c.id = o.client_id
    WHERE o.company_id = ? AND o.title <> c.company_name`
  expect(await sql(foreign, id)).toEqual([])
  const own = "SELECT count(*) AS count FROM orders WHERE company_id = ? AND title = 'file'"
  expect(await sql(own, id)).toEqual([{ count: COUNT }])
})

it.each([
  ['the highest of the file', {}, (id: number) => String(2_000 + id), 2_600],
  ['1000 where those of the file are lower', {}, String, 1_000],
  [
    'that of the company where the file is older',
    { last_invoice_number: 7_000 },
    (id: number) => String(2_000 + id),
    7_000,
  ],
] as const)('the last invoice number behind several parts is %s', async (_, company, number, last) => {
  const file = fileOf(company, number)
  for (const part of partsOf(file)) expect((await sendPart(file, part)).status).toBe(200)
  const [row] = await sql('SELECT last_invoice_number AS number FROM companies WHERE id = ?', file.company.id)
  expect(row).toEqual({ number: last })
})
