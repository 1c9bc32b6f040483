import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { request, send, sqlIn } from '../../support/app.ts'
import { meterBindings } from '../../support/meter.ts'
import { addItem } from '../../support/rows.ts'
import { createOrder, mintShop } from './support.ts'

/*
 * Every character that is indexed costs a request database time. So what a list of lines may have indexed is bounded, and
 * a line that stays as it is costs nothing.
 */

// The first of its database is another company: the second one of a file lives in the second database.
await mintShop()
await mintShop()
const shop = await mintShop()

const put = async (orderId: number, items: unknown) => {
  const response = await shop.call('PUT', `/orders/${orderId}/invoice-items`, { items })
  expect(response.status, JSON.stringify(response.body)).toBe(200)
  return response.body.invoice_items
}

const search = async (q: string): Promise<number> => {
  const { body } = await shop.call('GET', `/products/search?include=lines&q=${encodeURIComponent(q)}`)
  expect(body.sources.lines).toBe('ok')
  return body.invoice_lines.length
}

/** Characters in the index of this order's lines. */
async function indexed(invoiceId: number): Promise<number[]> {
  const rows = await sqlIn<{ length: number }>(
    shop.home,
    'SELECT length(search_text) AS length FROM invoice_items WHERE company_id = ? AND invoice_id = ? ORDER BY position',
    shop.id,
    invoiceId,
  )
  return rows.map(({ length }) => length)
}

describe('what a search finds of a line', () => {
  it('is the title and the first 200 characters of the description', async () => {
    const { project } = await createOrder(shop)
    const description = `begins ${'🧵'.repeat(188)} ends beyond`
    await put(project.id, [{ title: `${'t'.repeat(247)} tailing`, description }])
    const found = [await search('tailing'), await search('begins'), await search('ends'), await search('beyond')]
    expect(found).toEqual([1, 1, 1, 0])
  })

  it('is bounded for all lines of an invoice together', async () => {
    const { project, invoice } = await createOrder(shop)
    const item = { title: 'x'.repeat(255), description: 'y'.repeat(500) }
    await put(
      project.id,
      Array.from({ length: 400 }, () => item),
    )
    const lengths = await indexed(invoice.id)
    expect(lengths.slice(0, 87)).toEqual(Array.from({ length: 87 }, () => 456))
    expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(40_000)
  })

  it('is the title of each of 500 usual lines', async () => {
    const { project } = await createOrder(shop)
    const items = Array.from({ length: 500 }, (_, n) => ({
      title: `Heavy tee, navy, size ${n}`,
      description: 'Two prints',
    }))
    await put(project.id, items.with(499, { title: 'Heavy tee, lastly', description: 'Two prints' }))
    expect(await search('lastly')).toBe(1)
  })

  it('is bounded by the database too, for rows of an earlier release', async () => {
    const { invoice } = await createOrder(shop)
    const search_text = `FIRSTLY ${'Z'.repeat(2_000)} BEHIND`
    const id = await addItem(shop, invoice.id, { search_text })
    expect([await search('firstly'), await search('behind')]).toEqual([1, 0])
    const change = 'UPDATE invoice_items SET search_text = ?3 WHERE company_id = ?1 AND id = ?2'
    await sqlIn(shop.home, change, shop.id, id, `${'Q'.repeat(1_400)} BEHIND SECONDLY`)
    expect([await search('firstly'), await search('qqq'), await search('secondly')]).toEqual([0, 1, 0])
  })
})

describe('lines that are sent as they are', () => {
  it('cost no row, whatever their number', async () => {
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
        ...{
          title: `Tee ${n}`,
          description: n % 2 ? null : 'Print',
          quantity: n + 0.5,
          unit_price: n,
          taxable: n % 3 > 0,
        },
        ...{ supplier: 'supplier_a', size: 'L' },
      }))
      const stored = await put(project.id, lines)
      const same = lines.map((line, n) => ({ ...line, id: stored[n].id }))
      costs.push(await written(project.id, same))
      const [first] = same
      costs.push(await written(project.id, [{ ...first, size: 'XL' }, ...same.slice(1)]))
    }
    const [one = 0, oneChanged = 0, many = 0, manyChanged = 0] = costs
    expect([many, manyChanged]).toEqual([one, oneChanged])
    expect(oneChanged).toBeGreaterThan(one)
  })
})
