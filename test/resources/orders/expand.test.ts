import { env } from 'cloudflare:workers'
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { app } from '../../../src/app.ts'
import { mapRows, openDatabase } from '../../../src/kernel/db/client.ts'
import { orderStatements } from '../../../src/resources/orders/parts-sql.ts'
import { EXPANSIONS } from '../../../src/resources/orders/shapes.ts'
import { expect200, issuesOf, request, sql as runSql, send, type TestCompany } from '../../support/app.ts'
import { idsOf } from '../../support/lists.ts'
import { addItem, insertions } from '../../support/rows.ts'
import { addArtwork, addPayment, createOrder, mintShop } from './support.ts'

const shop = await mintShop()
for (const [count, terms] of [
  [0, {}],
  [1, { tax_id: shop.taxId, status_id: shop.statusIds[1] }],
  [3, { tax_id: shop.taxId, discount_amount: 12.5, discount_type: 'after_tax' }],
  [2, { discount_amount: 5, discount_amount_type: 'fixed' }],
] as const) {
  const { project, invoice } = await createOrder(shop, { title: `Order of ${count}`, ...terms })
  for (let position = count; position > 0; position--) {
    await addItem(shop, invoice.id, { position, quantity: position + 0.25, title: `Line ${position}` })
    await addPayment(shop, invoice.id, { note: `Payment ${position}` })
    await addArtwork(shop, project.id, { placements: '["front"]' })
  }
}
const deleted = await createOrder(shop, { title: 'Deleted' })
await shop.call('DELETE', `/orders/${deleted.project.id}`)

/** Adds payments whose notes have 40,000 characters. */
const addLongPayments = (company: TestCompany, invoiceId: number, count: number, letter: string) =>
  runSql(
    `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
     INSERT INTO payments (company_id, id, invoice_id, amount_cents, note)
     SELECT ?1, (SELECT coalesce(max(id), 0) FROM payments WHERE company_id = ?1) + i, ?2, 100,
       replace(printf('%40000s', ''), ' ', ?4) FROM n`,
    ...[company.id, invoiceId, count, letter],
  )

/** Adds lines of 1.00. */
const addLines = ({ id: company_id }: TestCompany, invoice_id: number, count: number, title = 'L') => {
  const lines = Array.from({ length: count }, (_, index) => ({ company_id, invoice_id, title, position: index + 1 }))
  return insertions('invoice_items', lines, { quantity: 1, unit_price_cents: 100, search_text: '' })
}

type Order = Record<string, unknown> & { id: number }
const EVERYTHING = EXPANSIONS.join()

async function list(
  company: TestCompany,
  query: string,
): Promise<{ data: Order[]; pagination: { next_cursor: string | null } }> {
  return expect200(await company.call('GET', `/orders?${query}`))
}

/** An order with all parts, from the full order. */
async function whole(company: TestCompany, id: number): Promise<Order> {
  const { body } = await company.call('GET', `/orders/${id}?deleted=include`)
  const { project, accounting: _accounting, ...parts } = body
  const { subtotal, discount_total, tax_total, total, amount_paid, balance_due } = parts.invoice
  return { ...project, ...parts, totals: { subtotal, discount_total, tax_total, total, amount_paid, balance_due } }
}

describe('expand', () => {
  it('adds exactly what is asked for', async () => {
    for (const names of [...EXPANSIONS.map((name) => [name]), ['invoice', 'payments'], ['totals', 'invoice_items']]) {
      const { data } = await list(shop, `expand=${names}&deleted=include&sort=-updated_at`)
      for (const order of data) {
        const { project } = (await shop.call('GET', `/orders/${order.id}?deleted=include`)).body
        const parts = await whole(shop, order.id)
        const wanted = Object.fromEntries(names.map((name) => [name, parts[name]]))
        expect(order, names.join()).toEqual({ ...project, ...wanted })
      }
    }
  })

  it('works with every order, filter and cursor of the list', async () => {
    const filters = [`client_id=${shop.clientId}`, `status=${shop.statusIds}`, 'deleted=only', 'from=2020-01-01']
    for (const query of ['sort=id', 'sort=-created_at', 'sort=updated_at', 'q=order', ...filters]) {
      const { data: plain } = await list(shop, `${query}&per_page=100`)
      const walked: Order[] = []
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page = await list(shop, `${query}&per_page=2&expand=${EVERYTHING}${cursor && `&cursor=${cursor}`}`)
        walked.push(...page.data)
        cursor = page.pagination.next_cursor
      }
      expect(idsOf(walked)).toEqual(idsOf(plain))
      for (const order of walked) expect(order).toEqual(await whole(shop, order.id))
    }
  })
})

it.each([
  ['many short elements', 2_002, 'L'],
  ['one long element', 1, '字'.repeat(255)],
  ['elements of both kinds', 3, 'L'],
])('lists of an order are complete with %s', async (_name, count, title) => {
  const company = await mintShop()
  const [first, second] = [await createOrder(company), await createOrder(company)]
  await addLines(company, first.invoice.id, count, title)
  await addPayment(company, first.invoice.id, { note: 'N'.repeat(count === 3 ? 1_000 : 10) })
  await addItem(company, second.invoice.id, { title: 'Another' })
  const { data } = await list(company, `expand=${EVERYTHING}&sort=id`)
  expect(data).toEqual([await whole(company, first.project.id), await whole(company, second.project.id)])
  const feed = await company.call('GET', '/changes?expand=object&types=orders')
  expect(feed.body.orders).toEqual(data)
})

it('a list with every filter and every part fits into one statement, with a cursor too', async () => {
  const all = `q=order&status=${shop.statusIds}&client_id=${shop.clientId}&from=2020-01-01&to=2099-01-01&external_id=x`
  const query = `${all}&updated_since=1970-01-01T00:00:00Z&deleted=include&expand=${EVERYTHING}`
  for (const sort of ['updated_at', '-id', 'created_at'])
    expect((await list(shop, `${query}&sort=${sort}`)).data).toEqual([])
  const walk = `q=o&deleted=include&updated_since=1970-01-01T00:00:00Z&status=${shop.statusIds}&sort=updated_at&per_page=1`
  const { pagination } = await list(shop, `${walk}&expand=${EVERYTHING}`)
  expect((await list(shop, `${walk}&expand=${EVERYTHING}&cursor=${pagination.next_cursor}`)).data).toHaveLength(1)
})

const COUNTS = [4_000, 4_000, 3_000, 10_001, 1, 2]

it('a list with more lines than a response may have ends pages early, never an order, and the cursor goes on', async () => {
  const large = await mintShop()
  const created: number[] = []
  for (const count of COUNTS) {
    const { project, invoice } = await createOrder(large)
    created.push(project.id)
    await addLines(large, invoice.id, count)
  }
  // Not compared with the description, which takes seconds for so many lines.
  const read = (path: string) => send(request(large.token, 'GET', path), { app })
  const lengthsOf = (orders: { invoice_items: unknown[] }[]) => orders.map((order) => order.invoice_items.length)
  const ids = created.toReversed()
  const pages: number[][] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { body } = await read(`/orders?expand=invoice_items${cursor && `&cursor=${cursor}`}`)
    expect(idsOf(body.data)).toEqual(ids.splice(0, body.data.length))
    pages.push(lengthsOf(body.data))
    cursor = body.pagination.next_cursor
  }
  expect(pages).toEqual([[2, 1], [10_001], [3_000, 4_000], [4_000]])
  for (const query of ['page=1', 'sort=id&page=2&per_page=3']) {
    expect(issuesOf(await read(`/orders?expand=invoice_items&${query}`))).toEqual(['per_page'])
  }
  const alone = await read('/orders?expand=invoice_items&sort=id&page=4&per_page=1')
  expect(lengthsOf(alone.body.data)).toEqual([10_001])
  expect((await list(large, 'expand=totals&page=1')).data).toHaveLength(COUNTS.length)

  const seen: number[] = []
  // Clients with the ids of the orders.
  for (const _ of COUNTS) await large.call('POST', '/clients', { company_name: 'Another' })
  const { pagination } = (await read('/changes?start=latest')).body
  for (const id of created) {
    expect((await large.call('PATCH', `/clients/${id}`, { phone: '1' })).status).toBe(200)
    await large.call('PATCH', `/orders/${id}`, { title: 'Changed' })
  }
  for (let cursor = pagination.next_cursor, more = true; more; ) {
    const { body } = await read(`/changes?expand=object&cursor=${cursor}`)
    for (const type of ['clients', 'orders']) {
      const changed = body.data.filter((change: { type: string }) => change.type === type)
      expect(idsOf(body[type])).toEqual(idsOf(changed))
    }
    expect(body.data.at(-1).type).toBe(body.pagination.has_more ? 'clients' : 'orders')
    seen.push(...lengthsOf(body.orders))
    cursor = body.pagination.next_cursor
    more = body.pagination.has_more
  }
  expect(seen).toEqual(COUNTS)
})

describe('many short lines with more characters than a response may have', () => {
  it('end pages of the list and of the changes early', async () => {
    const one = await mintShop()
    for (let order = 0; order < 3; order++)
      await addLines(one, (await createOrder(one)).invoice.id, 600, 'L'.repeat(700))
    const first = await list(one, 'expand=invoice_items')
    const second = await list(one, `expand=invoice_items&cursor=${first.pagination.next_cursor}`)
    expect([first.data.length, second.data.length]).toEqual([2, 1])
    expect(issuesOf(await one.call('GET', '/orders?expand=invoice_items&page=1'))).toEqual(['per_page'])
    expect((await one.call('GET', '/changes?expand=object&types=orders')).body.orders).toHaveLength(2)
  })
})

describe('an order with a list larger than a value of the database may be', () => {
  it('is read in full, and alone in a list', async () => {
    const one = await mintShop()
    const { project: small } = await createOrder(one)
    const { project, invoice } = await createOrder(one, { tax_id: one.taxId })
    await addItem(one, invoice.id, { title: 'Line' })
    await addArtwork(one, project.id)
    // More than the largest value that the database can have.
    await addLongPayments(one, invoice.id, 250, 'n')
    const order = await whole(one, project.id)
    expect(order).toMatchObject({ payments: { length: 250 }, invoice_items: { length: 1 }, artworks: { length: 1 } })
    const { data, pagination } = await list(one, `expand=${EVERYTHING}`)
    expect(data).toEqual([order])
    const numbered = await one.call('GET', `/orders?expand=${EVERYTHING}&page=1`)
    expect([numbered.status, numbered.body.error.message]).toEqual([400, expect.stringContaining('1000000 characters')])
    const next = await list(one, `expand=${EVERYTHING}&cursor=${pagination.next_cursor}`)
    expect(next.data).toEqual([await whole(one, small.id)])
  })

  it('is read with others in a list, where all are within the limits of a response', async () => {
    const one = await mintShop()
    for (const letter of ['n', '“']) {
      const { invoice } = await createOrder(one)
      await addLongPayments(one, invoice.id, 11, letter)
    }
    const { data } = await list(one, 'expand=payments&sort=id')
    const notes = data.map(({ payments }) => (payments as { note: string }[]).map(({ note }) => note))
    expect(notes).toEqual([Array(11).fill('n'.repeat(40_000)), Array(11).fill('“'.repeat(40_000))])
    // The local runtime does not refuse larger values, as D1 does.
    const ofCompany = sql`SELECT id AS page_id, id AS sort_value FROM orders WHERE company_id = ${one.id}`
    const statement = orderStatements(['payments'], () => ({ ids: ofCompany })).listed({ companyId: one.id })
    const values = mapRows(statement, (rows: { json: string }[]) => rows.map(({ json }) => Buffer.byteLength(json)))
    const [bytes] = await openDatabase(env[one.home]).read([values])
    expect(Math.max(...bytes)).toBeGreaterThan(500_000)
    expect(Math.max(...bytes)).toBeLessThan(2_000_000)
  })
})

describe('changes with expand=object', () => {
  it('have the clients and orders of their entries, each once, as they are now', async () => {
    const one = await mintShop()
    const { project } = await createOrder(one)
    await addItem(one, project.id)
    const other = await createOrder(one)
    await one.call('PATCH', `/orders/${project.id}`, { title: 'New title' })
    await one.call('PATCH', `/clients/${one.clientId}`, { deleted: true })
    await one.call('DELETE', `/orders/${other.project.id}`)
    const { body } = await one.call('GET', '/changes?expand=object')
    const { body: plain } = await one.call('GET', '/changes')
    expect(body.data).toEqual(plain.data)
    expect(body.orders).toEqual([await whole(one, project.id), await whole(one, other.project.id)])
    expect(body.orders[0]).toMatchObject({ title: 'New title' })
    expect(body.clients).toEqual([(await one.call('GET', `/clients/${one.clientId}`)).body.client])
    const { body: only } = await one.call('GET', '/changes?expand=object&types=clients')
    expect([only.orders, only.clients]).toEqual([[], body.clients])
    const { body: latest } = await one.call('GET', '/changes?expand=object&start=latest')
    expect([latest.orders, latest.clients]).toEqual([[], []])
  })

  it('are at most 100', async () => {
    expect(issuesOf(await shop.call('GET', '/changes?expand=object&per_page=101'))).toEqual(['per_page'])
    expect((await shop.call('GET', '/changes?per_page=101')).status).toBe(200)
  })
})
