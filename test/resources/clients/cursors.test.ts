import { expect, it, vi } from 'vitest'
import { issuesOf, mintCompany } from '../../support/app.ts'
import { createOrder, mintShop } from '../orders/support.ts'

const DAY_MS = 86_400_000

const company = await mintCompany()
for (let n = 0; n < 9; n++) await company.call('POST', '/clients', { company_name: `Harbor ${n}` })

async function cursorOf(path: string, of = company): Promise<string> {
  const { body } = await of.call('GET', path)
  expect(body.pagination.next_cursor, path).toMatch(/^[A-Za-z0-9_-]+$/)
  return body.pagination.next_cursor
}

async function expectRefusal(path: string, of = company, issue = 'cursor') {
  expect([path, issuesOf(await of.call('GET', path))]).toEqual([path, [issue]])
}

it('a cursor continues after a page by number, and with another per_page', async () => {
  const all = (await company.call('GET', '/clients')).body.data
  const cursor = await cursorOf('/clients?page=2&per_page=1')
  const { body, headers } = await company.call('GET', `/clients?per_page=2&cursor=${cursor}`)
  expect(body.data).toEqual(all.slice(2, 4))
  expect(body.pagination).toMatchObject({ page: 3, per_page: 2, total: 9, has_more: true })
  expect(headers.get('link')).toBe(
    `<https://api.test/api/v1/clients?per_page=2&cursor=${body.pagination.next_cursor}>; rel="next"`,
  )
})

it('a cursor shows, when rows were removed meanwhile, the rest and no further page', async () => {
  const one = await mintCompany()
  const ids: number[] = []
  for (let n = 0; n < 3; n++) ids.push((await one.call('POST', '/clients', { company_name: 'a' })).body.client.id)
  const cursor = await cursorOf('/clients?sort=id&per_page=1', one)
  for (const id of ids.slice(1)) await one.call('PATCH', `/clients/${id}`, { deleted: true })
  const { body, headers } = await one.call('GET', `/clients?sort=id&per_page=1&cursor=${cursor}`)
  expect(body).toEqual({
    data: [],
    pagination: { page: 2, per_page: 1, total: 3, next_cursor: null, has_more: false },
  })
  expect(headers.get('link')).toBeNull()
})

it('a cursor belongs to its company and query', async () => {
  const cursor = await cursorOf('/clients?per_page=1&q=harbor')
  const [mine, other] = [await mintShop(), await mintCompany()]
  for (const query of ['', '&q=harbo', '&q=harbor&deleted=include', '&q=harbor&sort=id', '&q=harbor&external_id=a']) {
    await expectRefusal(`/clients?per_page=1${query}&cursor=${cursor}`)
  }
  await expectRefusal(`/clients?per_page=1&q=harbor&cursor=${cursor}`, other)
  for (let n = 0; n < 2; n++) await createOrder(mine)
  const ofOrders = await cursorOf('/orders?per_page=1', mine)
  await expectRefusal(`/clients?per_page=1&cursor=${ofOrders}`, mine)
  await expectRefusal(`/orders?per_page=1&status=1&cursor=${ofOrders}`, mine)
  const same = await mine.call('GET', `/orders?per_page=1&deleted=exclude&expand=totals&cursor=${ofOrders}`)
  expect(same.status).toBe(200)
})

it('a cursor is refused when it was changed in any place', async () => {
  const cursor = await cursorOf('/clients?per_page=1')
  for (let at = 0; at < cursor.length; at += 3) {
    const changed = `${cursor.slice(0, at)}${cursor[at] === 'A' ? 'B' : 'A'}${cursor.slice(at + 1)}`
    await expectRefusal(`/clients?per_page=1&cursor=${changed}`)
  }
  for (const broken of ['', 'x', '%20', 'a.b', cursor.slice(0, -4), `${cursor}AAAA`, 'x'.repeat(1001)]) {
    await expectRefusal(`/clients?per_page=1&cursor=${broken}`)
  }
})

it('a cursor is refused beside page, which is named', async () => {
  const cursor = await cursorOf('/clients?per_page=1')
  await expectRefusal(`/clients?per_page=1&page=1&cursor=${cursor}`, company, 'page')
  await expectRefusal(`/orders?page=2&cursor=${cursor}`, company, 'page')
})

it('a cursor is good for 7 days, and a walk for 30', async () => {
  const now = Date.now()
  vi.useFakeTimers({ toFake: ['Date'], now })
  let cursor = await cursorOf('/clients?per_page=1&sort=updated_at')
  vi.setSystemTime(now + 7 * DAY_MS - 2_000)
  expect((await company.call('GET', `/clients?per_page=1&sort=updated_at&cursor=${cursor}`)).status).toBe(200)
  vi.setSystemTime(now + 7 * DAY_MS + 2_000)
  await expectRefusal(`/clients?per_page=1&sort=updated_at&cursor=${cursor}`)
  for (const days of [0, 6.5, 13, 19.5, 26]) {
    vi.setSystemTime(now + days * DAY_MS)
    cursor = await cursorOf(`/clients?per_page=1&sort=updated_at&cursor=${cursor}`)
  }
  vi.setSystemTime(now + 31 * DAY_MS)
  await expectRefusal(`/clients?per_page=1&sort=updated_at&cursor=${cursor}`)
})
