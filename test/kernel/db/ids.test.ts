import { expect, it } from 'vitest'
import { expect200, mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'

const HIGHEST_OF_SEED = 2 ** 48

/** A company that has given out no id yet, as a seed makes it. */
async function mintNew(): Promise<TestCompany> {
  const company = await mintCompany()
  await sql('UPDATE companies SET last_client_id = 0, last_order_id = 0, last_invoice_id = 0 WHERE id = ?', company.id)
  return company
}

async function createClient(company: TestCompany, name = 'Client'): Promise<number> {
  return expect200(await company.call('POST', '/clients', { company_name: name })).client.id
}

async function createOrder(company: TestCompany, clientId: number, title = 'Order') {
  const body = expect200(await company.call('POST', '/orders', { title, client_id: clientId }))
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

it('ids and numbers of invoices are given out once, without gaps, to creations at the same time, of which some fail', async () => {
  const companies = [await mintNew(), await mintNew()]
  for (const company of companies) await createClient(company)
  const made = await Promise.all(
    Array.from({ length: 60 }, async (_, index) => {
      const company = companies[index % 2] as TestCompany
      if (index % 4 < 2) return [company.id, 'client', await createClient(company)]
      if (index % 3 > 0) return [company.id, 'order', await createOrder(company, 1)]
      return [company.id, 'refusal', (await company.call('POST', '/orders', { title: 'a', client_id: 999_999 })).status]
    }),
  )
  for (const { id: companyId } of companies) {
    const madeOf = (what: string) =>
      made.filter(([id, kind]) => id === companyId && kind === what).map((each) => each[2])
    const from = (first: number, { length }: unknown[]) => Array.from({ length }, (_, index) => first + index)
    const clients = madeOf('client').map(Number)
    expect(clients.sort((a, b) => a - b)).toEqual(from(2, clients))
    const orders = madeOf('order') as Awaited<ReturnType<typeof createOrder>>[]
    const expected = from(1, orders).map((id) => ({ order: id, invoice: id, number: `${1000 + id}` }))
    expect(orders.sort((a, b) => a.order - b.order)).toEqual(expected)
    expect(madeOf('refusal')).toEqual(Array(5).fill(400))
    const rows = await sql('SELECT id, project_id FROM invoices WHERE company_id = ? ORDER BY id', companyId)
    expect(rows).toEqual(expected.map(({ order }) => ({ id: order, project_id: order })))
  }
})
