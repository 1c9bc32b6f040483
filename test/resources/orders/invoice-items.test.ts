import { env } from 'cloudflare:workers'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fold } from '../../../src/kernel/db/columns.ts'
import { expect200, issuesOf, request, send, sql } from '../../support/app.ts'
import { meterBindings } from '../../support/meter.ts'
import { addItem } from '../../support/rows.ts'
import { createOrder, dump, expectRefusals, mintShop } from './support.ts'

const shop = await mintShop()

type Item = Record<string, unknown>

const put = (orderId: number, items: unknown) => shop.call('PUT', `/orders/${orderId}/invoice-items`, { items })

async function write(orderId: number, items: Item[]): Promise<Item[]> {
  return expect200(await put(orderId, items)).invoice_items
}

const search = async (q: string): Promise<number> => {
  const { body } = await shop.call('GET', `/products/search?include=lines&q=${encodeURIComponent(q)}`)
  expect(body.sources.lines).toBe('ok')
  return body.invoice_lines.length
}

const FULL = {
  ...{ title: 'Heavy cotton tee', description: 'Navy\nlarge', quantity: 60.5, unit_price: 9.5, taxable: false },
  ...{ supplier: 'supplier_a', style: 'PC61', color: 'Navy', size: 'L', sku: 'PC61-NVY-L' },
}

describe('PUT /orders/{id}/invoice-items', () => {
  it('writes all fields of a line, and defaults for those that are left out', async () => {
    const terms = { tax_id: shop.taxId, discount_amount: 10, payments: [{ amount: 10 }] }
    const { project, invoice } = await createOrder(shop, terms)
    const response = expect200(await put(project.id, [FULL, { title: ' Setup ' }]))
    const line = { id: expect.any(Number), invoice_id: invoice.id, deleted: false }
    expect(response.invoice_items).toEqual([
      { ...FULL, ...line, total: 574.75, position: 1 },
      {
        ...{ ...line, title: 'Setup', description: null, quantity: 1, unit_price: 0, total: 0, taxable: true },
        ...{ supplier: null, style: null, color: null, size: null, sku: null, position: 2 },
      },
    ])
    const totals = { subtotal: 574.75, discount_total: 57.48, tax_total: 0, amount_paid: 10, balance_due: 507.27 }
    expect(response.invoice).toMatchObject({ id: invoice.id, ...totals })
    const read = (await shop.call('GET', `/orders/${project.id}`)).body
    expect(read.invoice_items).toEqual(response.invoice_items)
    expect(read.invoice).toEqual(response.invoice)
  })

  it('keeps the ids of lines that are there, gives others new ones, and removes those that are left out', async () => {
    const { project } = await createOrder(shop)
    const [a, b, c] = (await write(project.id, [{ title: 'a' }, { title: 'b' }, { title: 'c' }])).map(({ id }) => id)
    const lines = await write(project.id, [{ title: 'new' }, { id: c, title: 'C' }, { id: a, title: 'a' }])
    expect(lines.map(({ title, position, id }) => [title, position, id])).toEqual([
      ['new', 1, expect.any(Number)],
      ['C', 2, c],
      ['a', 3, a],
    ])
    expect([a, b, c]).not.toContain(lines[0]?.id)
    expect(await sql('SELECT id FROM invoice_items WHERE company_id = ? AND id = ?', shop.id, b)).toEqual([])
    expect((await shop.call('GET', `/products/invoice_item?id=${b}`)).status).toBe(404)
    expect(await write(project.id, [])).toEqual([])
    const [last] = await write(project.id, [{ title: 'last' }])
    expect(last?.id).toBeGreaterThan(Math.max(...lines.map(({ id }) => Number(id))))
  })

  it('reads as many rows after many replacements as after one, counts no more bytes, and finds no old words', async () => {
    const { project } = await createOrder(shop)
    const items = Array.from({ length: 20 }, () => ({ title: 'Replaced again' }))
    const measure = async () => {
      await write(project.id, items)
      const { env: metered, take } = meterBindings(env)
      expect((await send(request(shop.token, 'GET', `/orders/${project.id}`), { env: metered })).status).toBe(200)
      const [company] = await sql('SELECT stored_bytes FROM companies WHERE id = ?', shop.id)
      return [take().rowsRead, company?.stored_bytes]
    }
    const first = await measure()
    for (let count = 0; count < 3; count++) await measure()
    expect(await measure()).toEqual(first)
    expect(await search('replaced again')).toBe(20)
    await write(project.id, [{ title: 'Other' }])
    const found = `SELECT count(*) AS rows FROM invoice_items_fts AS i, companies AS c
      WHERE text MATCH 'replaced' AND c.id = ? AND i.rowid >> 53 = slot`
    expect(await sql(found, shop.id)).toEqual([{ rows: 0 }])
  })

  it.each(['payments', 'invoice_items'])(
    'reads no row for each pair of a sent and a stored one of 500 %s',
    async (list) => {
      const element = list === 'payments' ? { amount: 1 } : { title: 'One of many' }
      const body = { title: 'Many', client_id: shop.clientId, [list]: Array(500).fill(element) }
      const path = `/orders/by-external-id/many-${list}`
      const first = (await shop.call('PUT', path, body)).body
      const { env: metered, take } = meterBindings(env)
      const change = async (method: string, path: string, body: unknown) => {
        const response = expect200(await send(request(shop.token, method, path, body), { env: metered }))
        expect(take().rowsRead).toBeLessThan(20_000)
        return response
      }
      expect((await change('PUT', path, body))[list]).toEqual(first[list])
      if (list === 'payments') return
      const items = first.invoice_items.map(({ id, title }: Item) => ({ id, title }))
      const again = await change('PUT', `/orders/${first.project.id}/invoice-items`, { items: items.toReversed() })
      expect(again.invoice_items.map(({ id }: Item) => id)).toEqual(items.map(({ id }: Item) => id).reverse())
    },
  )

  it('refuses what its schema does not allow, and changes nothing', async () => {
    const { project } = await createOrder(shop)
    await put(project.id, [{ title: 'before' }])
    await expectRefusals(shop, (items) => put(project.id, items), [
      [undefined, 'items'],
      [{}, 'items'],
      [Array(501).fill({ title: 'a' }), 'items'],
      [[{}], 'items.0.title'],
      [[{ title: ' ' }], 'items.0.title'],
      [[{ title: 'a', total: 1 }], 'items.0.total'],
      [[{ title: 'a', quantity: -1 }], 'items.0.quantity'],
      [[{ title: 'a', quantity: 0.00001 }], 'items.0.quantity'],
      [[{ title: 'a', unit_price: -0.005 }], 'items.0.unit_price'],
      [[{ title: 'a', unit_price: 1e9 }], 'items.0.unit_price'],
      [[{ title: 'a', quantity: 2, unit_price: 5e8 }], 'items.0.unit_price'],
      [[{ title: 'a', unit_price: '1' }], 'items.0.unit_price'],
      [Array(2).fill({ title: 'a', id: 1 }), 'items'],
      [[{ title: 'a' }, { title: 'b', id: 123 }], 'items.1.id'],
    ])
  })

  it('takes the highest values, 0.1 + 0.2, and 500 lines of long texts', async () => {
    const { project } = await createOrder(shop)
    const items = [
      { title: 'a', unit_price: 999_999_999.99 },
      { title: 'b', unit_price: -999_999_999.99 },
      { title: 'c', unit_price: 0.1 + 0.2, quantity: 1_000_000 },
      { title: 'f', quantity: 0.1 + 0.2 },
      // 999,999,999.99 exactly, and more as doubles.
      { title: 'd', unit_price: 51_323_900, quantity: 19.4841 },
      { title: 'e', unit_price: -51_323_900, quantity: 19.4841 },
    ]
    const { invoice, invoice_items } = (await put(project.id, items)).body
    expect([invoice.subtotal, invoice_items[3].quantity]).toEqual([300_000, 0.3])
    // Three code points of four bytes each when folded.
    const long = Array(500).fill({ title: 'x'.repeat(50), description: '\u{1d160}'.repeat(150) })
    expect(await write(project.id, long)).toHaveLength(500)
    expect((await put(project.id, [{ title: 'a', description: 'x'.repeat(400_000) }])).status).toBe(413)
  })

  it('refuses ids of another invoice and of a removed line', async () => {
    const [{ project }, other] = [await createOrder(shop), await createOrder(shop)]
    const [removed] = await write(project.id, [{ title: 'old' }])
    await write(project.id, [])
    const ids = [await addItem(shop, other.invoice.id), removed?.id]
    const before = await dump(shop)
    const response = await put(project.id, [{ title: 'new' }, ...ids.map((id) => ({ title: 'a', id }))])
    expect(issuesOf(response)).toEqual(['items.1.id', 'items.2.id'])
    expect(await dump(shop)).toEqual(before)
  })

  it('leaves exactly the lines of the last list, whatever lists are sent', async () => {
    const { project, invoice } = await createOrder(shop)
    const cents = fc.integer({ min: -999, max: 999 })
    const line = fc.record({ keep: fc.boolean(), title: fc.constantFrom('a', 'b'), cents })
    let known: number[] = []
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 6 }), async (list) => {
        const free = [...known]
        const items = list.map(({ keep, title, cents }) => {
          const id = keep ? free.shift() : undefined
          return { title, unit_price: cents / 100, ...(id !== undefined && { id }) }
        })
        const body = expect200(await put(project.id, items))
        const lines: Item[] = body.invoice_items
        expect(lines).toMatchObject(items.map((item, index) => ({ ...item, position: index + 1 })))
        expect(body.invoice.subtotal).toBe(list.reduce((sum, { cents }) => sum + cents, 0) / 100)
        known = lines.map(({ id }) => Number(id))
        expect(new Set(known).size).toBe(lines.length)
        const live = 'SELECT id FROM invoice_items WHERE company_id = ? AND invoice_id = ?'
        expect(await sql(live, shop.id, invoice.id)).toHaveLength(lines.length)
      }),
      { numRuns: 25 },
    )
  })
})

/* Every character that is indexed costs a request database time, so what a list of lines may have indexed is bounded. */
describe('what a search finds of a line', () => {
  it('is what is stored now, as a seed writes it', async () => {
    const { project } = await createOrder(shop)
    const [{ id } = {}] = await write(project.id, [{ title: 'Straße Hoodie', description: 'émbroidered ß' }])
    expect([await search('strasse hoodie'), await search('ÉMBROIDERED SS')]).toEqual([1, 1])
    const [row] = await sql('SELECT search_text FROM invoice_items WHERE company_id = ? AND id = ?', shop.id, id)
    expect(row).toEqual({ search_text: `${fold('Straße Hoodie')}\u001f${fold('émbroidered ß')}` })
    await write(project.id, [{ id, title: 'Plain cap' }])
    expect([await search('strasse hoodie'), await search('plain cap')]).toEqual([0, 1])
    await write(project.id, [])
    expect(await search('plain cap')).toBe(0)
  })

  it('is the title and the first 200 characters of the description', async () => {
    const { project } = await createOrder(shop)
    const description = `begins ${'🧵'.repeat(188)} ends beyond`
    await write(project.id, [{ title: `${'t'.repeat(247)} tailing`, description }])
    const found = [await search('tailing'), await search('begins'), await search('ends'), await search('beyond')]
    expect(found).toEqual([1, 1, 1, 0])
  })

  it('is bounded for all lines of an invoice together', async () => {
    const { project, invoice } = await createOrder(shop)
    await write(project.id, Array(400).fill({ title: 'x'.repeat(255), description: 'y'.repeat(500) }))
    const lengthsOf =
      'SELECT length(search_text) AS length FROM invoice_items WHERE company_id = ? AND invoice_id = ? ORDER BY position'
    const lengths = (await sql<{ length: number }>(lengthsOf, shop.id, invoice.id)).map(({ length }) => length)
    expect(lengths.slice(0, 87)).toEqual(Array(87).fill(456))
    expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(40_000)
  })

  it('is the title of each of 500 usual lines', async () => {
    const { project } = await createOrder(shop)
    const titles = Array.from({ length: 500 }, (_, n) => `Heavy tee, navy, size ${n}`).with(499, 'Heavy tee, lastly')
    await write(
      project.id,
      titles.map((title) => ({ title, description: 'Two prints' })),
    )
    expect(await search('lastly')).toBe(1)
  })

  it('is bounded by the database too, for rows of an earlier release', async () => {
    const { invoice } = await createOrder(shop)
    const search_text = `FIRSTLY ${'Z'.repeat(2_000)} BEHIND`
    // Above the ids that the company has given out.
    const id = await addItem(shop, invoice.id, { id: 900_000_000, search_text })
    expect([await search('firstly'), await search('behind')]).toEqual([1, 0])
    const change = 'UPDATE invoice_items SET search_text = ?3 WHERE company_id = ?1 AND id = ?2'
    await sql(change, shop.id, id, `${'Q'.repeat(1_400)} BEHIND SECONDLY`)
    expect([await search('firstly'), await search('qqq'), await search('secondly')]).toEqual([0, 1, 0])
  })
})

it('lines that are sent as they are cost no row, whatever their number', async () => {
  const metered = meterBindings(env)
  const written = async (orderId: number, items: unknown) => {
    metered.take()
    const path = `/orders/${orderId}/invoice-items`
    const response = await send(request(shop.token, 'PUT', path, { items }), { env: metered.env })
    expect(response.status).toBe(200)
    return metered.take().rowsWritten
  }
  const costs: number[] = []
  for (const count of [1, 200]) {
    const { project } = await createOrder(shop)
    const lines = Array.from({ length: count }, (_, n) => ({
      ...{ title: `Tee ${n}`, description: n % 2 ? null : 'Print', quantity: n + 0.5, unit_price: n },
      ...{ taxable: n % 3 > 0, supplier: 'supplier_a', size: 'L' },
    }))
    const stored = await write(project.id, lines)
    const same = lines.map((line, n) => ({ ...line, id: stored[n]?.id }))
    costs.push(await written(project.id, same))
    const [first] = same
    costs.push(await written(project.id, [{ ...first, size: 'XL' }, ...same.slice(1)]))
  }
  const [one = 0, oneChanged = 0, many = 0, manyChanged = 0] = costs
  expect([many, manyChanged]).toEqual([one, oneChanged])
  expect(oneChanged).toBeGreaterThan(one)
})
