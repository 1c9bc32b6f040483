import { describe, expect, it } from 'vitest'
import { sql } from '../../support/app.ts'
import { createClient, createOrder, mintShop, type Shop } from './support.ts'

interface Row {
  id: number
  clientId: number
  statusId: number | null
  day: string
  deleted: boolean
}

async function list(shop: Shop, query: string) {
  const { status, body } = await shop.call('GET', `/orders${query}`)
  expect(status, query).toBe(200)
  return { ids: body.data.map(({ id }: { id: number }) => id), total: body.pagination.total, body }
}

/** The ids that the list must have: newest day first, then the highest id. */
function expected(
  rows: Iterable<Row>,
  filter: Partial<{ client_id: number; status: number; from: string; to: string }>,
) {
  return [...rows]
    .filter((row) => !row.deleted)
    .filter(({ clientId }) => filter.client_id === undefined || clientId === filter.client_id)
    .filter(({ statusId }) => filter.status === undefined || statusId === filter.status)
    .filter(
      ({ day }) => (filter.from === undefined || day >= filter.from) && (filter.to === undefined || day <= filter.to),
    )
    .sort((a, b) => (a.day === b.day ? b.id - a.id : a.day < b.day ? 1 : -1))
    .map(({ id }) => id)
}

describe('the list of orders', () => {
  it('has project objects, 25 a page by default, and every page of thousands from either end', async () => {
    const shop = await mintShop()
    const clientIds = [shop.clientId, await createClient(shop)]
    // Nearly all orders are on two days, so that a page lies in one of them or across both.
    const days = ['2025-01-01', '2026-03-03', '2026-03-04', '2026-09-09']
    const rows = Array.from({ length: 3_000 }, (_, n) => ({
      id: 20_000 + n * 3,
      clientId: clientIds[n % 5 === 0 ? 1 : 0] ?? 0,
      statusId: n % 4 === 0 ? null : (shop.statusIds[n % 2] ?? 0),
      day: days[n % 100 === 0 ? 0 : n % 100 === 1 ? 3 : n < 1_800 ? 1 : 2] ?? '',
      deleted: n % 50 === 7,
    }))
    await sql(
      `INSERT INTO orders (company_id, id, title, client_id, order_status_id, created_date, deleted, created_at, updated_at)
       SELECT ?1, value ->> 'id', 'o', value ->> 'clientId', value ->> 'statusId', value ->> 'day', value ->> 'deleted', 0, 0
       FROM json_each(?2)`,
      shop.id,
      JSON.stringify(rows),
    )
    const first = await list(shop, '')
    expect(first.body.pagination).toMatchObject({ page: 1, per_page: 25, total: expected(rows, {}).length })
    expect(first.ids).toEqual(expected(rows, {}).slice(0, 25))
    expect(first.body.data[0]).toEqual((await shop.call('GET', `/orders/${first.ids[0]}`)).body.project)
    const filters = [
      {},
      { status: shop.statusIds[1] ?? 0 },
      { client_id: shop.clientId },
      { client_id: shop.clientId, from: '2026-03-03' },
      { from: '2026-03-03', to: '2026-03-04' },
      { status: shop.statusIds[1] ?? 0, to: '2026-03-04' },
    ]
    for (const filter of filters) {
      const ids = expected(rows, filter)
      expect(ids.length).toBeGreaterThan(1_300)
      for (const perPage of [7, 100]) {
        const pages = Math.ceil(ids.length / perPage)
        for (const page of [pages >> 1, Math.ceil(1_100 / perPage), pages - 1, pages, pages + 1, 1_000_000]) {
          const query = new URLSearchParams({ ...filter, page: `${page}`, per_page: `${perPage}` } as Record<
            string,
            string
          >)
          expect(await list(shop, `?${query}`), query.toString()).toMatchObject({
            ids: ids.slice((page - 1) * perPage, page * perPage),
            total: ids.length,
          })
        }
      }
    }
  })

  it('takes a control character of `q` for a space, and one that is blank for none', async () => {
    const shop = await mintShop()
    for (const title of ['Team shirts', 'Team shirts and caps', 'Caps']) await createOrder(shop, { title })
    const totals = ['', '%00', '%20%1F', 'shirts%00', '%00shirts', 'team%00shirts%20and', 'shirts%00%00and']
    const found = totals.map(async (q) => (await list(shop, `?q=${q}`)).total)
    expect(await Promise.all(found)).toEqual([3, 3, 3, 2, 2, 1, 0])
  })

  it('compares all of a long text with the title and with the name of the client', async () => {
    const shop = await mintShop()
    const long = 'a'.repeat(60)
    const own = (await createOrder(shop, { title: `${long}b` })).project.id
    const { client } = (await shop.call('POST', '/clients', { company_name: `${long}c` })).body
    const other = (await createOrder(shop, { title: 'Caps', client_id: client.id })).project.id
    const found = ['b', 'c', 'd', ''].map(async (end) => (await list(shop, `?q=${long}${end}`)).ids)
    expect(await Promise.all(found)).toEqual([[own], [other], [], [other, own]])
  })
})
