import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fold } from '../../../src/kernel/db/search.ts'
import { FIRST_ID, issuesOf, mintCompany, sql } from '../../support/app.ts'
import { byKeys, expectPages, type Listed } from '../../support/lists.ts'
import { addItem, insert } from '../../support/rows.ts'
import { createClient, createOrder, mintShop } from './support.ts'

interface Row extends Listed {
  title: string
  number: string
  client_id: number
  order_status_id: number | null
  created_date: string
  deleted: 0 | 1
  external_id: string | null
  created_at: number
  updated_at: number
}

const NAMES = ['Harbor Club', 'Überdruck', 'Navy']
const TITLES = ['Regatta shirts', 'Navy hoodies', 'Ångström', 'Z']

const rows: Row[] = Array.from({ length: 80 }, (_, n) => ({
  id: FIRST_ID + 100 + n,
  title: TITLES[(n * 7) % 4] ?? '',
  number: n % 4 ? `${2000 + n}` : '',
  client_id: 1 + ((n * 5) % 3),
  order_status_id: [null, 1, 2, 3][(n * 11) % 4] ?? null,
  created_date: `2026-01-0${1 + ((n * 3) % 5)}`,
  deleted: n % 6 === 1 ? 1 : 0,
  external_id: n % 2 ? `E-${n}` : null,
  created_at: ((n * 13) % 7) * 1000,
  updated_at: ((n * 29) % 11) * 1000,
}))

const company = await mintCompany()
for (const id of [1, 2, 3]) await insert('order_statuses', { company_id: company.id, id, title: `Status ${id}` })
for (const [index, name] of NAMES.entries()) {
  const key = { company_id: company.id, id: index + 1, deleted: index === 2 ? 1 : 0, created_at: 0, updated_at: 0 }
  await insert('clients', { ...key, company_name: name, company_name_key: fold(name), email: 'regatta@x.example' })
}
await sql(
  `INSERT INTO orders (company_id, id, title, title_key, number_key, client_id, order_status_id, created_date, deleted, external_id, created_at, updated_at)
   SELECT ?1, value ->> 'id', value ->> 'title', value ->> 'key', value ->> 'number', value ->> 'client_id', value ->> 'order_status_id',
     value ->> 'created_date', value ->> 'deleted', value ->> 'external_id', value ->> 'created_at', value ->> 'updated_at' FROM json_each(?2)`,
  company.id,
  JSON.stringify(rows.map((row) => ({ ...row, key: fold(row.title) }))),
)

const queries = fc.record(
  {
    sort: fc.constantFrom('id', '-id', 'created_at', '-created_at', 'updated_at', '-updated_at'),
    deleted: fc.constantFrom('exclude', 'include', 'only'),
    updated_since: fc.constantFrom('1970-01-01T00:00:03Z', '1970-01-01T02:00:05.000+02:00', '2030-01-01T00:00:00Z'),
    external_id: fc.constantFrom('E-7', 'E-11', 'E-13', 'E-8'),
    q: fc.constantFrom('harbor', 'über', 'navy', 'ång', 'Z', '20', '2041', 'Ü', 'regatta', 'nobody'),
    status: fc.constantFrom('1', '2', '1,2', '3,1', '9'),
    client_id: fc.constantFrom('1', '2', '3', '9'),
    from: fc.constantFrom('2026-01-02', '2026-01-04'),
    to: fc.constantFrom('2026-01-03', '2026-01-04'),
  },
  { requiredKeys: [] },
)

type Query = typeof queries extends fc.Arbitrary<infer Q> ? Q : never

function expected(query: Query): number[] {
  const { sort, deleted = 'exclude', updated_since, external_id, q, status, client_id, from, to } = query
  const column = (sort?.replace('-', '') ?? 'created_date') as 'id' | 'created_at' | 'updated_at' | 'created_date'
  return rows
    .filter((row) => deleted === 'include' || row.deleted === Number(deleted === 'only'))
    .filter((row) => updated_since === undefined || row.updated_at >= Date.parse(updated_since))
    .filter((row) => external_id === undefined || row.external_id === external_id)
    .filter(
      (row) =>
        status === undefined ||
        status
          .split(',')
          .map(Number)
          .includes(row.order_status_id ?? 0),
    )
    .filter((row) => client_id === undefined || row.client_id === Number(client_id))
    .filter((row) => (from === undefined || row.created_date >= from) && (to === undefined || row.created_date <= to))
    .filter(({ title, number, client_id }) =>
      [title, number, NAMES[client_id - 1] ?? ''].some((text) => fold(text).includes(fold(q ?? ''))),
    )
    .sort(byKeys((row) => [row[column], row.id], !sort || sort.startsWith('-') ? -1 : 1))
    .map(({ id }) => id)
}

describe('the list of orders with sort and filters', () => {
  it('has, in every combination, the same elements by number and by cursor', async () => {
    await fc.assert(
      fc.asyncProperty(queries, fc.integer({ min: 1, max: 30 }), (query, perPage) =>
        expectPages(company, '/orders', query, perPage, expected(query)),
      ),
      { numRuns: 100 },
    )
  })

  it('takes several statuses as a comma list, repeated, or both', async () => {
    for (const query of ['status=1,2', 'status=1&status=2', 'status=2,%201', 'status=%202&status=1']) {
      const { body } = await company.call('GET', `/orders?per_page=100&${query}`)
      expect(
        body.data.map(({ id }: Listed) => id),
        query,
      ).toEqual(expected({ status: '1,2' }))
      expect(body.pagination.total).toBe(expected({ status: '1,2' }).length)
    }
  })

  it.each([
    ['status=', 'status'],
    ['status=1,', 'status'],
    ['status=1,x', 'status'],
    ['status=1&status=-2', 'status'],
    ['status=9007199254740992', 'status'],
    ['status=1&status=1', 'status'],
    ['status=2,%201&status=1', 'status'],
    ['status=2,2', 'status'],
    [`status=${Array.from({ length: 101 }, (_, n) => n + 1)}`, 'status'],
    ['sort=created_date', 'sort'],
    ['expand=totals,accounting', 'expand'],
    [`q=${'x'.repeat(201)}`, 'q'],
  ])('refuses %s', async (query, path) => {
    expect(issuesOf(await company.call('GET', `/orders?${query}`))).toEqual([path])
  })
})

describe('a search of orders', () => {
  it('follows what is created, renamed, deleted and brought by clients', async () => {
    const shop = await mintShop()
    const find = async (q: string) => {
      const { body } = await shop.call('GET', `/orders?per_page=100&q=${encodeURIComponent(q)}`)
      expect(body.pagination.total).toBe(body.data.length)
      return body.data.map(({ id }: Listed) => id)
    }
    const clientId = await createClient(shop, { company_name: 'Σίσυφος AG', email: 'mail@x.example' })
    const { project, invoice } = await createOrder(shop, { title: 'Straße', client_id: clientId })
    for (const q of ['STRASSE', 'ße', 'σίσυφοσ', 'ag', invoice.number, invoice.number.slice(1)]) {
      expect(await find(q), q).toEqual([project.id])
    }
    for (const q of ['mail', 'straßeσ', 'x.example', 'strasse 1']) expect(await find(q), q).toEqual([])

    await shop.call('PATCH', `/orders/${project.id}`, { title: 'Gasse' })
    await shop.call('PATCH', `/clients/${clientId}`, { company_name: 'Tantalos' })
    expect([await find('straße'), await find('σίσυφος'), await find('gasse'), await find('TANT')]).toEqual([
      [],
      [],
      [project.id],
      [project.id],
    ])
    expect(await find(invoice.number)).toEqual([project.id])
    await shop.call('PATCH', `/clients/${clientId}`, { deleted: true })
    expect(await find('tantalos')).toEqual([project.id])
    await shop.call('PATCH', `/orders/${project.id}`, { client_id: shop.clientId })
    expect([await find('tantalos'), await find('client')]).toEqual([[], [project.id]])
    await shop.call('DELETE', `/orders/${project.id}`)
    expect(await find('gasse')).toEqual([])
    expect((await shop.call('GET', '/orders?q=gasse&deleted=only')).body.data).toHaveLength(1)
  })
})

describe('what a list of orders adds', () => {
  it('is null as totals without an invoice, and remains with a deleted order', async () => {
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
})
