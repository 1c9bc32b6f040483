import { beforeAll, describe, expect, it } from 'vitest'
import { migrate, mintCompany, sql, type TestCompany } from '../support/app.ts'

let company: TestCompany

beforeAll(async () => {
  await migrate()
  company = await mintCompany()
  await addItem(company, 1, 'Heavy cotton tee')
})

async function addItem(of: TestCompany, id: number, title: string): Promise<void> {
  await sql(
    'INSERT INTO catalog_items (company_id, id, title, search_text, price_cents) VALUES (?, ?, ?, ?, 950)',
    of.id,
    id,
    title,
    title.toUpperCase(),
  )
}

describe('search', () => {
  it('finds', async () => {
    const { status, body } = await company.call('GET', '/products/search?q=cotton')
    expect(status).toBe(200)
    expect(body.local_items).toEqual([{ id: 1, title: 'Heavy cotton tee', description: null, price: 9.5 }])
    expect(body.sources).toEqual({
      local: 'ok',
      supplier_b: 'not_configured',
      supplier_a: 'not_configured',
      lines: 'ok',
    })
  })
  it('409', async () => {
    const { status, body } = await company.call('GET', '/products/supplier_a?style=PC61')
    expect(status).toBe(409)
    expect(body.error.details).toEqual({ reason: 'integration_missing' })
  })
})
