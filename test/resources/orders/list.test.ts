import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { migrate, sql } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { createClient, createOrder, mintShop, type Shop } from './support.ts'

beforeAll(migrate)

interface Row {
  id: number
  clientId: number
  statusId: number | null
  day: string
  deleted: boolean
}

/** Inserts an order created on any day. */
async function seedOrder(shop: Shop, row: Omit<Row, 'deleted'>) {
  const { id, clientId, statusId, day } = row
  await insert('orders', {
    company_id: shop.id,
    id,
    title: `o${id}`,
    client_id: clientId,
    order_status_id: statusId,
    created_date: day,
    created_at: Date.parse(day),
    updated_at: Date.parse(day),
  })
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
  it('has project objects, 25 a page by default, newest day first, then the highest id', async () => {
    const shop = await mintShop()
    const days = ['2026-01-31', '2026-02-01', '2025-12-31']
    const rows = Array.from({ length: 30 }, (_, i) => ({
      id: 5000 + i,
      clientId: shop.clientId,
      statusId: null,
      day: days[i % 3] ?? '',
      deleted: false,
    }))
    for (const row of rows) await seedOrder(shop, row)
    const ids = expected(rows, {})
    const first = await list(shop, '')
    expect(first.body.pagination).toMatchObject({ page: 1, per_page: 25, total: 30 })
    expect(first.ids).toEqual(ids.slice(0, 25))
    expect((await list(shop, '?page=2')).ids).toEqual(ids.slice(25))
    expect((await list(shop, '?per_page=100')).ids).toEqual(ids)
    expect(await list(shop, '?page=7&per_page=7')).toMatchObject({ ids: [], total: 30 })
    expect(first.body.data[0]).toEqual((await shop.call('GET', `/orders/${ids[0]}`)).body.project)
  })

  it('has every page of thousands of orders, from either end', async () => {
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

  it('includes the days from and to, and is empty when they cross', async () => {
    const shop = await mintShop()
    for (const [id, day] of [
      [6001, '2026-01-01'],
      [6002, '2026-01-15'],
      [6003, '2026-01-31'],
    ] as const) {
      await seedOrder(shop, { id, clientId: shop.clientId, statusId: null, day })
    }
    expect((await list(shop, '?from=2026-01-15')).ids).toEqual([6003, 6002])
    expect((await list(shop, '?to=2026-01-15')).ids).toEqual([6002, 6001])
    expect(await list(shop, '?from=2026-01-01&to=2026-01-01')).toMatchObject({ ids: [6001], total: 1 })
    expect(await list(shop, '?from=2026-01-31&to=2026-01-01')).toMatchObject({ ids: [], total: 0 })
  })

  it('takes a control character of `q` for a space, and one that is blank for none', async () => {
    const shop = await mintShop()
    for (const title of ['Team shirts', 'Team shirts and caps', 'Caps']) await createOrder(shop, { title })
    const totals = ['', '%00', '%20%1F', 'shirts%00', '%00shirts', 'team%00shirts%20and', 'shirts%00%00and']
    const found = totals.map(async (q) => (await list(shop, `?q=${q}`)).total)
    expect(await Promise.all(found)).toEqual([3, 3, 3, 2, 2, 1, 0])
  })

  it('is empty for a client or status of another company', async () => {
    const [shop, other] = [await mintShop(), await mintShop()]
    await createOrder(shop)
    await createOrder(other)
    for (const query of [
      `?client_id=${other.clientId}`,
      `?status=${other.statusIds[0]}`,
      '?client_id=999999',
      '?status=999999',
    ]) {
      expect(await list(shop, query), query).toMatchObject({ ids: [], total: 0 })
    }
    expect((await list(shop, '')).total).toBe(1)
  })
})

describe('the totals of lists', () => {
  it('equal the rows after any creations, updates and deletions, under every filter', async () => {
    const days = ['2025-12-31', '2026-01-01', '2026-01-02', '2026-02-01']
    const at = fc.record({ client: fc.nat(2), status: fc.nat(2), day: fc.nat(3) })
    const scenario = fc.record({
      seeds: fc.array(at, { maxLength: 8 }),
      creations: fc.array(at, { maxLength: 4 }),
      changes: fc.array(fc.tuple(fc.nat(), fc.constantFrom('status', 'client', 'title', 'delete'), fc.nat(2)), {
        maxLength: 12,
      }),
      filters: fc.array(
        fc.record(
          {
            client_id: fc.nat(2),
            status: fc.nat(1),
            from: fc.constantFrom(...days),
            to: fc.constantFrom(...days, '2099-01-01'),
          },
          { requiredKeys: [] },
        ),
        { minLength: 6, maxLength: 6 },
      ),
    })
    let nextId = 10_000
    await fc.assert(
      fc.asyncProperty(scenario, async ({ seeds, creations, changes, filters }) => {
        const shop = await mintShop()
        const clientIds = [shop.clientId, await createClient(shop), await createClient(shop)]
        const statusOf = (index: number) => shop.statusIds[index] ?? null
        const rows = new Map<number, Row>()
        for (const { client, status, day } of seeds) {
          const id = nextId++
          const row = { id, clientId: clientIds[client] ?? 0, statusId: statusOf(status), day: days[day] ?? '' }
          await seedOrder(shop, row)
          rows.set(id, { ...row, deleted: false })
        }
        for (const { client, status } of creations) {
          const { project } = await createOrder(shop, {
            client_id: clientIds[client],
            ...(status < 2 && { status_id: shop.statusIds[status] }),
          })
          rows.set(project.id, {
            id: project.id,
            clientId: project.client_id,
            statusId: project.order_status_id,
            day: project.created_date,
            deleted: false,
          })
        }
        for (const [which, what, value] of changes) {
          const row = [...rows.values()][which % Math.max(rows.size, 1)]
          if (!row) continue
          const status_id = statusOf(value % 2) ?? 0
          const client_id = clientIds[value] ?? 0
          const change = { status: { status_id }, client: { client_id }, title: { title: 'x' }, delete: undefined }[
            what
          ]
          const response = await shop.call(change ? 'PATCH' : 'DELETE', `/orders/${row.id}`, change)
          expect(response.status).toBe(row.deleted ? 404 : 200)
          if (row.deleted) continue
          if (what === 'delete') row.deleted = true
          if (what === 'status') row.statusId = status_id
          if (what === 'client') row.clientId = client_id
        }
        for (const filter of [{}, ...filters]) {
          const wanted = {
            ...filter,
            ...(filter.client_id !== undefined && { client_id: clientIds[filter.client_id] ?? 0 }),
            ...(filter.status !== undefined && { status: statusOf(filter.status) ?? 0 }),
          }
          const query = new URLSearchParams(
            Object.entries(wanted).map(([name, value]): [string, string] => [name, String(value)]),
          )
          const ids = expected(rows.values(), wanted)
          expect(await list(shop, `?per_page=100&${query}`), query.toString()).toMatchObject({ ids, total: ids.length })
        }
      }),
      { numRuns: 12 },
    )
  })
})
