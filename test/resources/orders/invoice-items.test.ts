import { env } from 'cloudflare:workers'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fold } from '../../../src/kernel/db/search.ts'
import { type ApiResponse, issuesOf, request, send, sql } from '../../support/app.ts'
import { meterBindings } from '../../support/meter.ts'
import { addItem, insert } from '../../support/rows.ts'
import { createOrder, dump, enableAccounting, mintShop } from './support.ts'

const shop = await mintShop()

type Item = Record<string, unknown>

const put = (orderId: number, items: unknown, headers?: Record<string, string>): Promise<ApiResponse> =>
  shop.call('PUT', `/orders/${orderId}/invoice-items`, { items }, headers)

const FULL = {
  title: 'Heavy cotton tee',
  description: 'Navy\nlarge',
  quantity: 60.5,
  unit_price: 9.5,
  taxable: false,
  supplier: 'supplier_a',
  style: 'PC61',
  color: 'Navy',
  size: 'L',
  sku: 'PC61-NVY-L',
}

describe('PUT /orders/{id}/invoice-items', () => {
  it('writes all fields of a line, and defaults for those that are left out', async () => {
    const { project, invoice } = await createOrder(shop, { tax_id: shop.taxId })
    const response = await put(project.id, [FULL, { title: ' Setup ' }])
    expect(response.status, JSON.stringify(response.body)).toBe(200)
    const line = { id: expect.any(Number), invoice_id: invoice.id, deleted: false }
    expect(response.body.invoice_items).toEqual([
      { ...FULL, ...line, total: 574.75, position: 1 },
      {
        ...line,
        title: 'Setup',
        description: null,
        quantity: 1,
        unit_price: 0,
        total: 0,
        taxable: true,
        ...{ supplier: null, style: null, color: null, size: null, sku: null },
        position: 2,
      },
    ])
    expect(response.body.invoice).toMatchObject({ id: invoice.id, subtotal: 574.75, tax_total: 0, balance_due: 574.75 })
    const read = (await shop.call('GET', `/orders/${project.id}`)).body
    expect(read.invoice_items).toEqual(response.body.invoice_items)
    expect(read.invoice).toEqual(response.body.invoice)
  })

  it('keeps the ids of lines that are there, gives others new ones, and removes those that are left out', async () => {
    const { project } = await createOrder(shop)
    const first = (await put(project.id, [{ title: 'a' }, { title: 'b' }, { title: 'c' }])).body.invoice_items
    const [a, b, c] = first.map(({ id }: Item) => id)
    const second = await put(project.id, [{ title: 'new' }, { id: c, title: 'C' }, { id: a, title: 'a' }])
    const lines = second.body.invoice_items
    expect(lines.map(({ title, position }: Item) => [title, position])).toEqual([
      ['new', 1],
      ['C', 2],
      ['a', 3],
    ])
    expect(lines.slice(1).map(({ id }: Item) => id)).toEqual([c, a])
    expect([a, b, c]).not.toContain(lines[0].id)
    expect(await sql('SELECT id FROM invoice_items WHERE company_id = ? AND id = ?', shop.id, b)).toEqual([])
    expect((await shop.call('GET', `/products/invoice_item?id=${b}`)).status).toBe(404)
    expect((await put(project.id, [])).body.invoice_items).toEqual([])
    const [last] = (await put(project.id, [{ title: 'last' }])).body.invoice_items
    expect(last.id).toBeGreaterThan(Math.max(...lines.map(({ id }: { id: number }) => id)))
  })

  it('reads as many rows after many replacements as after one, counts no more bytes, and finds no old words', async () => {
    const { project } = await createOrder(shop)
    const items = Array.from({ length: 20 }, () => ({ title: 'Replaced again' }))
    const measure = async () => {
      expect((await put(project.id, items)).status).toBe(200)
      const { env: metered, take } = meterBindings(env)
      expect((await send(request(shop.token, 'GET', `/orders/${project.id}`), { env: metered })).status).toBe(200)
      const [company] = await sql('SELECT stored_bytes FROM companies WHERE id = ?', shop.id)
      return [take().rowsRead, company?.stored_bytes]
    }
    const first = await measure()
    for (let count = 0; count < 3; count++) await measure()
    expect(await measure()).toEqual(first)
    const { body } = await shop.call('GET', '/products/search?include=lines&q=replaced+again')
    expect(body.invoice_lines).toHaveLength(20)
    await put(project.id, [{ title: 'Other' }])
    const [left] = await sql(
      "SELECT count(*) AS rows FROM invoice_items_fts, companies AS c WHERE text MATCH 'replaced' AND c.id = ? AND invoice_items_fts.rowid >> 53 = slot",
      shop.id,
    )
    expect(left).toEqual({ rows: 0 })
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
        const response = await send(request(shop.token, method, path, body), { env: metered })
        expect(response.status).toBe(200)
        expect(take().rowsRead).toBeLessThan(20_000)
        return response.body
      }
      expect((await change('PUT', path, body))[list]).toEqual(first[list])
      if (list === 'payments') return
      const items = first.invoice_items.map(({ id, title }: Item) => ({ id, title }))
      const again = await change('PUT', `/orders/${first.project.id}/invoice-items`, { items: items.toReversed() })
      expect(again.invoice_items.map(({ id }: Item) => id)).toEqual(items.map(({ id }: Item) => id).reverse())
    },
  )

  it('computes the totals with credits, tax, discount and payments', async () => {
    const { project, invoice } = await createOrder(shop, { tax_id: shop.taxId, discount_amount: 10 })
    await insert('payments', { company_id: shop.id, id: 900 + shop.id, invoice_id: invoice.id, amount_cents: 1000 })
    const items = [
      { title: 'Tee', quantity: 10, unit_price: 12.34 },
      { title: 'Credit', quantity: 1, unit_price: -23.4, taxable: false },
    ]
    expect((await put(project.id, items)).body.invoice).toMatchObject({
      subtotal: 100,
      discount_total: 10,
      tax_total: 9.16,
      total: 99.16,
      amount_paid: 10,
      balance_due: 89.16,
    })
  })

  it('lets searches find the lines by their texts, as a seed writes them', async () => {
    const { project } = await createOrder(shop)
    const search = async (q: string) =>
      (await shop.call('GET', `/products/search?include=lines&q=${encodeURIComponent(q)}`)).body.invoice_lines.length
    const [line] = (await put(project.id, [{ title: 'Straße Hoodie', description: 'émbroidered ß' }])).body
      .invoice_items
    expect(await search('strasse hoodie')).toBe(1)
    expect(await search('ÉMBROIDERED SS')).toBe(1)
    const [row] = await sql('SELECT search_text FROM invoice_items WHERE company_id = ? AND id = ?', shop.id, line.id)
    expect(row).toEqual({ search_text: `${fold('Straße Hoodie')}\u001f${fold('émbroidered ß')}` })
    await put(project.id, [{ id: line.id, title: 'Plain cap' }])
    expect([await search('strasse hoodie'), await search('plain cap')]).toEqual([0, 1])
    await put(project.id, [])
    expect(await search('plain cap')).toBe(0)
  })

  it('raises the version, follows the feed and the audit, and delivers an accounting event', async () => {
    const own = await mintShop()
    await enableAccounting(own)
    const { project } = await createOrder(own, { accounting_sync_enabled: false })
    const response = await own.call('PUT', `/orders/${project.id}/invoice-items`, { items: [FULL] })
    expect(response.headers.get('etag')).toBe('"2"')
    expect((await own.call('GET', `/orders/${project.id}`)).body.project.version).toBe(2)
    const changes = await sql(
      "SELECT operation, version FROM changes WHERE company_id = ? AND type = 'orders' ORDER BY sequence",
      own.id,
    )
    expect(changes).toEqual([
      { operation: 'create', version: 1 },
      { operation: 'update', version: 2 },
    ])
    expect(await sql('SELECT operation FROM accounting_outbox WHERE company_id = ?', own.id)).toEqual([
      { operation: 'update' },
    ])
    const audit = await sql(
      'SELECT entity_id FROM audit_log WHERE company_id = ? AND action = ?',
      own.id,
      'invoice_items.write',
    )
    expect(audit).toEqual([{ entity_id: String(project.id) }])
  })

  it('refuses what its schema does not allow, and changes nothing', async () => {
    const cases: [unknown, string][] = [
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
    ]
    const { project } = await createOrder(shop)
    await put(project.id, [{ title: 'before' }])
    const before = await dump(shop)
    for (const [items, path] of cases) expect([items, issuesOf(await put(project.id, items))]).toEqual([items, [path]])
    expect(await dump(shop)).toEqual(before)
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
    const long = Array.from({ length: 500 }, () => ({ title: 'x'.repeat(50), description: '\u{1d160}'.repeat(150) }))
    const response = await put(project.id, long)
    expect([response.status, response.body.invoice_items?.length]).toEqual([200, 500])
    expect((await put(project.id, [{ title: 'a', description: 'x'.repeat(400_000) }])).status).toBe(413)
  })

  it('refuses ids of another invoice, of a removed line and of another company', async () => {
    const { project } = await createOrder(shop)
    const other = await createOrder(shop)
    const stranger = await mintShop()
    const [removed] = (await put(project.id, [{ title: 'old' }])).body.invoice_items
    await put(project.id, [])
    const ids = [
      await addItem(shop, other.invoice.id),
      removed.id,
      await addItem(stranger, (await createOrder(stranger)).invoice.id),
    ]
    const before = await dump(shop, stranger)
    const response = await put(project.id, [{ title: 'new' }, ...ids.map((id) => ({ title: 'a', id }))])
    expect(issuesOf(response)).toEqual(['items.1.id', 'items.2.id', 'items.3.id'])
    expect(await dump(shop, stranger)).toEqual(before)
  })

  it('returns 404 for an order that is unknown, deleted or of another company, and 409 without an invoice', async () => {
    const deleted = (await createOrder(shop)).project.id
    await shop.call('DELETE', `/orders/${deleted}`)
    const stranger = await mintShop()
    const theirs = (await createOrder(stranger)).project.id
    const bare = (await createOrder(shop)).project.id
    await sql('DELETE FROM invoices WHERE company_id = ? AND project_id = ?', shop.id, bare)
    const before = await dump(shop, stranger)
    for (const id of [1, deleted, theirs]) expect((await put(id, [{ title: 'a' }])).status).toBe(404)
    const response = await put(bare, [{ title: 'a' }])
    expect([response.status, response.body.error.details]).toMatchObject([409, { reason: 'invoice_missing' }])
    expect(await dump(shop, stranger)).toEqual(before)
  })

  it('honours If-Match', async () => {
    const { project } = await createOrder(shop)
    const before = await dump(shop)
    expect((await put(project.id, [FULL], { 'if-match': '"2"' })).status).toBe(412)
    expect(await dump(shop)).toEqual(before)
    expect((await put(project.id, [FULL], { 'if-match': '"1"' })).status).toBe(200)
    expect((await put(project.id, [FULL], { 'if-match': '"1"' })).status).toBe(412)
  })

  it('leaves exactly the lines of the last list, whatever lists are sent', async () => {
    const own = await mintShop()
    const { project, invoice } = await createOrder(own)
    let known: number[] = []
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            keep: fc.boolean(),
            title: fc.constantFrom('a', 'b'),
            cents: fc.integer({ min: -999, max: 999 }),
          }),
          {
            maxLength: 6,
          },
        ),
        async (list) => {
          const free = [...known]
          const items = list.map(({ keep, title, cents }) => {
            const id = keep ? free.shift() : undefined
            return { title, unit_price: cents / 100, ...(id !== undefined && { id }) }
          })
          const { body, status } = await own.call('PUT', `/orders/${project.id}/invoice-items`, { items })
          expect(status).toBe(200)
          const lines: Item[] = body.invoice_items
          expect(lines).toMatchObject(items.map((item, index) => ({ ...item, position: index + 1 })))
          expect(body.invoice.subtotal).toBe(list.reduce((sum, { cents }) => sum + cents, 0) / 100)
          known = lines.map(({ id }) => Number(id))
          expect(new Set(known).size).toBe(lines.length)
          const live = await sql(
            'SELECT id FROM invoice_items WHERE company_id = ? AND invoice_id = ?',
            own.id,
            invoice.id,
          )
          expect(live.length).toBe(lines.length)
        },
      ),
      { numRuns: 25 },
    )
  })
})
