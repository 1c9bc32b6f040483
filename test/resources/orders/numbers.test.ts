import { describe, expect, it } from 'vitest'
import { sql } from '../../support/app.ts'
import { mintShop } from './support.ts'

describe('invoice numbers', () => {
  it('are unique and without gaps under concurrent creations, some of which fail', async () => {
    const [shop, other] = [await mintShop(), await mintShop()]
    const responses = await Promise.all(
      Array.from({ length: 45 }, (_, i) => {
        const [company, fails] = [i % 5 === 4 ? other : shop, i % 3 === 2]
        return company.call('POST', '/orders', { title: `o${i}`, client_id: fails ? 999_999 : company.clientId })
      }),
    )
    expect(responses.filter(({ status }) => status === 400)).toHaveLength(15)
    for (const company of [shop, other]) {
      const made = responses.filter(({ status, body }) => status === 200 && body.client.id === company.clientId)
      const numbers = made.map(({ body }) => Number(body.invoice.number)).sort((a, b) => a - b)
      expect(numbers).toEqual(made.map((_, i) => 1001 + i))
      const orders = await sql('SELECT count(*) AS count FROM orders WHERE company_id = ?', company.id)
      expect(orders).toEqual([{ count: made.length }])
    }
    const ids = responses.filter(({ status }) => status === 200).map(({ body }) => body.project.id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { body } of responses.filter(({ status }) => status === 200)) {
      expect(body.invoice.project_id).toBe(body.project.id)
    }
  })
})
