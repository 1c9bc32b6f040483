import { expect, it } from 'vitest'
import { mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'

const HIGHEST_OF_SEED = 2 ** 48

/** A company that has given out no id yet, as a seed makes it. */
async function mintNew(): Promise<TestCompany> {
  const company = await mintCompany()
  await sql('UPDATE companies SET last_client_id = 0, last_order_id = 0, last_invoice_id = 0 WHERE id = ?', company.id)
  return company
}

async function createClient(company: TestCompany, name = 'Client'): Promise<number> {
  const { status, body } = await company.call('POST', '/clients', { company_name: name })
  expect(status).toBe(200)
  return body.client.id
}

async function createOrder(company: TestCompany, clientId: number, title = 'Order') {
  const { status, body } = await company.call('POST', '/orders', { title, client_id: clientId })
  expect(status).toBe(200)
  return { order: body.project.id, invoice: body.invoice.id, number: body.invoice.number }
}

const times = { created_at: 0, updated_at: 0 }

const seedClient = ({ id: company_id }: TestCompany, id: number) =>
  insert('clients', { company_id, id, company_name: 'Seeded', company_name_key: 'SEEDED', ...times })

/** A client, an order and an invoice under one id, as in a seed. */
async function seed(company: TestCompany, id: number, number = '1500'): Promise<void> {
  const { id: company_id } = company
  await seedClient(company, id)
  await insert('orders', { company_id, id, title: 'Seeded', client_id: id, created_date: '2026-01-01', ...times })
  await insert('invoices', { company_id, id, project_id: id, number, ...times })
}

it('ids begin at 1 in every company, whatever another company has', async () => {
  const [seeded, first, second] = [await mintNew(), await mintNew(), await mintNew()]
  await seed(seeded, HIGHEST_OF_SEED)
  for (const company of [first, second]) {
    expect(await createClient(company)).toBe(1)
    expect(await createClient(company)).toBe(2)
    expect(await createOrder(company, 2)).toEqual({ order: 1, invoice: 1, number: '1001' })
    expect(await createOrder(company, 1)).toEqual({ order: 2, invoice: 2, number: '1002' })
  }
})

it('ids go on above the highest that a seed brought, also above the highest that a seed may bring', async () => {
  const company = await mintNew()
  await seed(company, 700)
  // No number follows one of another form.
  await seed(company, 30, 'INV-9999')
  expect(await createClient(company)).toBe(701)
  expect(await createOrder(company, 701)).toEqual({ order: 701, invoice: 701, number: '1501' })
  await seedClient(company, HIGHEST_OF_SEED)
  const next = await createClient(company, 'Found by its name')
  expect(next).toBe(HIGHEST_OF_SEED + 1)
  const found = await company.call('GET', '/clients?q=found%20by')
  expect(found.body.data.map(({ id }: { id: number }) => id)).toEqual([next])
})

it('ids are never given out twice to creations at the same time', async () => {
  const companies = [await mintNew(), await mintNew()]
  for (const company of companies) await createClient(company)
  const made = await Promise.all(
    Array.from({ length: 40 }, async (_, index) => {
      const company = companies[index % 2] as TestCompany
      if (index % 4 < 2) return [company.id, 'client', await createClient(company)]
      const { order, invoice } = await createOrder(company, 1)
      expect(order).toBe(invoice)
      return [company.id, 'order', order]
    }),
  )
  for (const { id: companyId } of companies) {
    for (const [what, first] of Object.entries({ client: 2, order: 1 })) {
      const ids = made.filter(([id, kind]) => id === companyId && kind === what).map(([, , id]) => Number(id))
      expect(ids.sort((a, b) => a - b)).toEqual(Array.from({ length: 10 }, (_, index) => first + index))
    }
  }
})
