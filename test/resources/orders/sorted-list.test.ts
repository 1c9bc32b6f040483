import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { emptyModel, type ListQuery, ordersOf, sortedIds } from '../../model/company.ts'
import { columnsOfClient, columnsOfOrder } from '../../model/shop.ts'
import { eachValue, firstId, issuesOf, mintCompany, sql } from '../../support/app.ts'
import { COMMON_PARAMETERS, expectPages, idsOf } from '../../support/lists.ts'
import { addItem, insert, insertions } from '../../support/rows.ts'
import { createClient, createOrder, mintShop, type Shop } from './support.ts'

const company = await mintCompany()
const model = emptyModel()
for (const id of [1, 2, 3]) await insert('order_statuses', { company_id: company.id, id, title: `Status ${id}` })
for (const [index, company_name] of ['Harbor Club', 'Überdruck', 'Navy'].entries()) {
  const others = { first_name: null, last_name: null, phone: null, external_id: null, version: 1 }
  const times = { created_at: 0, updated_at: 0 }
  const client = { id: index + 1, company_name, email: 'regatta@x.example', deleted: index === 2, ...others, ...times }
  model.clients.set(client.id, client)
  await insert('clients', { company_id: company.id, ...columnsOfClient(client) })
}
for (let n = 0; n < 80; n++) {
  model.orders.set(n, {
    id: firstId() + 100 + n,
    title: ['Regatta shirts', 'Navy hoodies', 'Ångström', 'Z'][(n * 7) % 4] ?? '',
    number: n % 4 ? `${2000 + n}` : '',
    client_id: 1 + ((n * 5) % 3),
    order_status_id: [null, 1, 2, 3][(n * 11) % 4] ?? null,
    created_date: `2026-01-0${1 + ((n * 3) % 5)}`,
    deleted: n % 6 === 1,
    external_id: n % 2 ? `E-${n}` : null,
    version: 1,
    created_at: ((n * 13) % 7) * 1000,
    updated_at: ((n * 29) % 11) * 1000,
  })
}
const rows = Array.from(model.orders.values(), (row) => ({ company_id: company.id, ...columnsOfOrder(row) }))
await insertions('orders', rows, {})

const queries = fc.record(
  {
    ...COMMON_PARAMETERS,
    q: fc.constantFrom('harbor', 'über', 'navy', 'ång', 'Z', '20', '2041', 'Ü', 'regatta', 'nobody'),
    status: fc.constantFrom('1', '2', '1,2', '3,1', '9'),
    client_id: fc.constantFrom(1, 2, 3, 9),
    from: fc.constantFrom('2026-01-02', '2026-01-04'),
    to: fc.constantFrom('2026-01-03', '2026-01-04'),
  },
  { requiredKeys: [] },
)

type Query = typeof queries extends fc.Arbitrary<infer Q> ? Q : never

function expected({ sort, updated_since, status, ...query }: Query): number[] {
  const wanted: ListQuery = {
    ...query,
    ...(updated_since !== undefined && { updated_since: Date.parse(updated_since) }),
    ...(status !== undefined && { status: status.split(',').map(Number) }),
  }
  return sortedIds(ordersOf(model, wanted), sort ?? '-created_date')
}

describe('the list of orders with sort and filters', () => {
  it('has, in every combination, the same elements by number and by cursor', async () => {
    await fc.assert(
      fc.asyncProperty(queries, fc.integer({ min: 1, max: 30 }), (query, perPage) =>
        expectPages(company, '/orders', query, perPage, expected(query)),
      ),
      { numRuns: 100, examples: [[{ q: 'regatta', deleted: 'include', sort: 'created_at' }, 7]] },
    )
  })

  it('has project objects, 25 a page by default', async () => {
    const { body } = await company.call('GET', '/orders')
    expect(idsOf(body.data)).toEqual(expected({}).slice(0, 25))
    expect(body.pagination).toMatchObject({ page: 1, per_page: 25, total: 66 })
    const [first] = body.data
    expect((await company.call('GET', `/orders/${first.id}`)).body.project).toEqual(first)
  })

  it('has pages of several statuses behind the first thousand orders', async () => {
    const one = await mintShop()
    for (const id of [1, 2]) await insert('order_statuses', { company_id: one.id, id, title: `Status ${id}` })
    const [row] = rows
    const all = Array.from({ length: 1_040 }, (_, n) => ({ ...row, id: firstId() + n, order_status_id: 1 + (n % 2) }))
    await insertions('orders', all, { company_id: one.id, client_id: one.clientId, external_id: null, deleted: 0 })
    for (const page of [41, 42]) {
      const { body } = await one.call('GET', `/orders?status=1,2&page=${page}`)
      const newest = idsOf(all).reverse()
      expect(idsOf(body.data)).toEqual(newest.slice((page - 1) * 25, page * 25))
      expect(body.pagination.total).toBe(1_040)
    }
  })

  it('takes several statuses as a comma list, repeated, or both', async () => {
    for (const query of ['status=1,2', 'status=1&status=2', 'status=2,%201', 'status=%202&status=1']) {
      const { body } = await company.call('GET', `/orders?per_page=100&${query}`)
      expect([idsOf(body.data), query]).toEqual([expected({ status: '1,2' }), query])
      expect(body.pagination.total).toBe(body.data.length)
    }
  })

  it.each(
    eachValue([
      ['status', '', '1,', '1,x', '1&status=-2', '9007199254740992', '1&status=1', '2,%201&status=1', '2,2'],
      ['status', Array.from({ length: 101 }, (_, n) => n + 1)],
      ['sort', 'created_date'],
      ['expand', 'totals,accounting'],
      ['q', 'x'.repeat(201)],
    ]),
  )('refuses %s=%s', async (name, value) => {
    expect(issuesOf(await company.call('GET', `/orders?${name}=${value}`))).toEqual([name])
  })
})

async function find(shop: Shop, q: string): Promise<number[]> {
  const { body } = await shop.call('GET', `/orders?per_page=100&q=${encodeURIComponent(q)}`)
  expect(body.pagination.total).toBe(body.data.length)
  return idsOf(body.data)
}

describe('a search of orders', () => {
  it('follows what is created, renamed, deleted and brought by clients', async () => {
    const shop = await mintShop()
    const clientId = await createClient(shop, { company_name: 'Σίσυφος AG', email: 'mail@x.example' })
    const { project, invoice } = await createOrder(shop, { title: 'Straße', client_id: clientId })
    for (const q of ['STRASSE', 'ße', 'σίσυφοσ', 'ag', invoice.number, invoice.number.slice(1)]) {
      expect(await find(shop, q), q).toEqual([project.id])
    }
    for (const q of ['mail', 'straßeσ', 'x.example', 'strasse 1']) expect(await find(shop, q), q).toEqual([])

    await shop.call('PATCH', `/orders/${project.id}`, { title: 'Gasse' })
    await shop.call('PATCH', `/clients/${clientId}`, { company_name: 'Tantalos' })
    for (const q of ['straße', 'σίσυφος']) expect(await find(shop, q), q).toEqual([])
    for (const q of ['gasse', 'TANT', invoice.number]) expect(await find(shop, q), q).toEqual([project.id])
    await shop.call('PATCH', `/clients/${clientId}`, { deleted: true })
    expect(await find(shop, 'tantalos')).toEqual([project.id])
    await shop.call('PATCH', `/orders/${project.id}`, { client_id: shop.clientId })
    expect([await find(shop, 'tantalos'), await find(shop, 'client')]).toEqual([[], [project.id]])
    await shop.call('DELETE', `/orders/${project.id}`)
    expect(await find(shop, 'gasse')).toEqual([])
    expect((await shop.call('GET', '/orders?q=gasse&deleted=only')).body.data).toHaveLength(1)
  })
  it('takes a control character of `q` for a space, and one that is blank for none', async () => {
    const shop = await mintShop()
    for (const title of ['Team shirts', 'Team shirts and caps', 'Caps']) await createOrder(shop, { title })
    const texts = ['', '\0', ' \u001f', 'shirts\0', '\0shirts', 'team\0shirts and', 'shirts\0\0and']
    const found = texts.map(async (q) => (await find(shop, q)).length)
    expect(await Promise.all(found)).toEqual([3, 3, 3, 2, 2, 1, 0])
  })

  it('compares all of a long text with the title and with the name of the client', async () => {
    const shop = await mintShop()
    const long = 'a'.repeat(60)
    const own = (await createOrder(shop, { title: `${long}b` })).project.id
    const client_id = await createClient(shop, { company_name: `${long}c` })
    const other = (await createOrder(shop, { title: 'Caps', client_id })).project.id
    const found = ['b', 'c', 'd', ''].map((end) => find(shop, long + end))
    expect(await Promise.all(found)).toEqual([[own], [other], [], [other, own]])
  })
})

it('the totals of a listed order are null without an invoice, and remain with a deleted order', async () => {
  const shop = await mintShop()
  const { project, invoice } = await createOrder(shop, { discount_amount_type: 'fixed_amount' })
  await addItem(shop, invoice.id)
  await shop.call('DELETE', `/orders/${project.id}`)
  const { body } = await shop.call('GET', '/orders?expand=totals&deleted=only')
  expect(body.data).toMatchObject([{ id: project.id, deleted: true, totals: { subtotal: 10, total: 10 } }])
  const other = await createOrder(shop)
  await sql('UPDATE invoices SET deleted = 1 WHERE company_id = ? AND id = ?', shop.id, other.invoice.id)
  expect((await shop.call('GET', '/orders?expand=totals')).body.data).toEqual([{ ...other.project, totals: null }])
})
