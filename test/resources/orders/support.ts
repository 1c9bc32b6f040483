import { env } from 'cloudflare:workers'
import { expect } from 'vitest'
import { type ApiResponse, expect200, issuesOf, mintCompany, sql, sqlIn, type TestCompany } from '../../support/app.ts'
import { freshRowId, insert } from '../../support/rows.ts'

export interface Shop extends TestCompany {
  clientId: number
  statusIds: [number, number]
  taxId: number
}

export async function mintShop(): Promise<Shop> {
  const company = await mintCompany()
  return {
    ...company,
    clientId: await createClient(company),
    statusIds: [company.id * 100 + 1, company.id * 100 + 2],
    taxId: company.id * 100 + 1,
  }
}

export async function createClient(company: TestCompany, body: Record<string, unknown> = {}): Promise<number> {
  return (await company.call('POST', '/clients', { company_name: 'Client', ...body })).body.client.id
}

export async function createOrder(shop: Shop, body: Record<string, unknown> = {}) {
  return expect200(await shop.call('POST', '/orders', { title: 'Order', client_id: shop.clientId, ...body }))
}

export async function addPayment(company: TestCompany, invoiceId: number, fields: Record<string, unknown> = {}) {
  return insert('payments', {
    company_id: company.id,
    id: freshRowId(),
    invoice_id: invoiceId,
    amount_cents: 500,
    ...fields,
  })
}

export async function addArtwork(company: TestCompany, orderId: number, fields: Record<string, unknown> = {}) {
  return insert('artworks', { company_id: company.id, id: freshRowId(), project_id: orderId, name: 'Crest', ...fields })
}

/** Has the company's orders synced, with an integration that is never called. */
export async function enableAccounting({ id }: TestCompany, isWanted = true, isEnabled = true): Promise<void> {
  await sql('UPDATE companies SET accounting_sync_enabled = ? WHERE id = ?', Number(isWanted), id)
  const integration = { company_id: id, kind: 'accounting_sync', enabled: Number(isEnabled) }
  await insert('integrations', { ...integration, base_url: 'https://x.example', credentials: 'x', updated_at: 0 })
}

const TABLES = ['clients', 'orders', 'invoices', 'invoice_items', 'payments', 'changes', 'audit_log']

/**
 * What a write of an order or client may change, to compare before and after: every row of the companies, and of all
 * others what triggers count.
 */
export async function dump(...companies: TestCompany[]): Promise<unknown[]> {
  // Delivery may change the state of events meanwhile, so only their identity is compared.
  const queries = [...TABLES.map((table) => `* FROM ${table}`), 'id, order_id, operation FROM accounting_outbox']
  const own = companies.map(({ id, home }) =>
    env[home].batch(queries.map((query) => env[home].prepare(`SELECT ${query} WHERE company_id = ?`).bind(id))),
  )
  const counts = (['DB', 'DB_TWO'] as const).map((home) => sqlIn(home, 'SELECT * FROM companies'))
  return [(await Promise.all(own)).flat().map(({ results }) => results), await Promise.all(counts)]
}

/** Expects that each body is refused for the one field of its path, and that nothing is written. */
export async function expectRefusals(
  shop: TestCompany,
  send: (body: unknown) => Promise<ApiResponse>,
  cases: [body: unknown, path: string][],
): Promise<void> {
  const before = await dump(shop)
  for (const [body, path] of cases) expect([body, new Set(issuesOf(await send(body)))]).toEqual([body, new Set([path])])
  expect(await dump(shop)).toEqual(before)
}
