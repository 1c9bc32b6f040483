import { expect, inject, vi } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { searchText } from '../../../src/kernel/db/columns.ts'
import { CREDENTIALS as CREDENTIALS_A, ENDPOINT_PATH } from '../../../src/simulators/supplier-a-catalogue.ts'
import { CREDENTIALS as CREDENTIALS_B } from '../../../src/simulators/supplier-b-catalogue.ts'
import {
  type ApiResponse,
  expect200,
  type Home,
  mintCompany,
  request,
  send,
  type TestCompany,
} from '../../support/app.ts'
import { addItem as addInvoiceItem, insert, integrate } from '../../support/rows.ts'
import { createClient } from '../orders/support.ts'
import { SupplierScope } from './suppliers/support.ts'

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS

/** A company with both suppliers, each in a scope of its own at its simulator. */
export interface Shop extends TestCompany {
  a: SupplierScope
  b: SupplierScope
}

export interface ShopOptions {
  home?: Home
  /** Accounts at the suppliers: by default the simulators' first. */
  credentials?: { supplier_a?: object; supplier_b?: object }
}

export async function mintShop({ credentials, ...options }: ShopOptions = {}): Promise<Shop> {
  const company = await mintCompany(options)
  const a = new SupplierScope(inject('supplierAUrl'))
  const b = new SupplierScope(inject('supplierBUrl'))
  const shop = { ...company, a, b }
  await integrateA(shop, credentials?.supplier_a)
  await integrateB(shop, credentials?.supplier_b)
  return shop
}

export const integrateA = (shop: Shop, credentials: object = CREDENTIALS_A, path = ENDPOINT_PATH) =>
  integrate(shop, 'supplier_a', { base_url: shop.a.url + path, credentials })

export const integrateB = (shop: Shop, credentials: object = CREDENTIALS_B) =>
  integrate(shop, 'supplier_b', { base_url: shop.b.url, credentials })

export async function addItem(
  company: TestCompany,
  fields: { id?: number; title: string; description?: string; deleted?: boolean },
): Promise<void> {
  await insert('catalog_items', {
    company_id: company.id,
    id: 1,
    price_cents: 950,
    search_text: searchText([fields.title]),
    ...fields,
    deleted: fields.deleted ? 1 : 0,
  })
}

/** An invoice for lines, its order's own. */
export async function mintInvoice(company: TestCompany): Promise<{ orderId: number; invoiceId: number }> {
  const client_id = await createClient(company)
  const { body } = await company.call('POST', '/orders', { title: 'Jerseys', client_id })
  return { orderId: body.project.id, invoiceId: body.invoice.id }
}

export async function addLine(
  company: TestCompany,
  { invoiceId, ...fields }: { id: number; invoiceId: number; title: string; description?: string },
): Promise<void> {
  await addInvoiceItem(company, invoiceId, {
    quantity: 12,
    unit_price_cents: 950,
    search_text: searchText([fields.title, fields.description]),
    ...fields,
  })
}

/** Searches, with other bindings where they are given, and expects 200. */
export async function search(
  of: TestCompany,
  q: string,
  parameters: Record<string, string> = {},
  bindings?: Env,
): Promise<ApiResponse['body']> {
  return expect200(await get(of, `/products/search?${new URLSearchParams({ q, ...parameters })}`, bindings))
}

export async function get(of: TestCompany, path: string, bindings?: Env): Promise<ApiResponse> {
  return send(request(of.token, 'GET', path), bindings ? { env: bindings } : {})
}

/** Waits for work after a response: until a supplier has been called so often. */
export async function untilCalls(scope: SupplierScope, count: number): Promise<void> {
  await vi.waitFor(async () => expect(await scope.calls()).toHaveLength(count), { timeout: 30_000, interval: 20 })
}
