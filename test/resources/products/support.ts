import { env } from 'cloudflare:workers'
import { expect, inject, vi } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { encryptCredentials } from '../../../src/kernel/db/credentials.ts'
import { searchText } from '../../../src/kernel/db/search.ts'
import type { SupplierName } from '../../../src/resources/products/contract.ts'
import { CREDENTIALS as CREDENTIALS_A, ENDPOINT_PATH } from '../../../src/simulators/supplier-a-catalogue.ts'
import { CREDENTIALS as CREDENTIALS_B } from '../../../src/simulators/supplier-b-catalogue.ts'
import { type ApiResponse, type Home, mintCompany, request, send, sql, type TestCompany } from '../../support/app.ts'
import { addItem as addInvoiceItem, insert } from '../../support/rows.ts'
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
  await integrate(company, 'supplier_a', `${a.url}${ENDPOINT_PATH}`, credentials?.supplier_a ?? CREDENTIALS_A)
  await integrate(company, 'supplier_b', b.url, credentials?.supplier_b ?? CREDENTIALS_B)
  return { ...company, a, b }
}

/** Sets the company's integration to the simulator's first account. */
export async function resetIntegration(shop: Shop, kind: SupplierName): Promise<void> {
  if (kind === 'supplier_a') await integrate(shop, kind, `${shop.a.url}${ENDPOINT_PATH}`, CREDENTIALS_A)
  else await integrate(shop, kind, shop.b.url, CREDENTIALS_B)
}

/** An item of the company's own catalogue. */
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
  const client = await company.call('POST', '/clients', { company_name: 'Club' })
  const { body } = await company.call('POST', '/orders', { title: 'Jerseys', client_id: client.body.client.id })
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

let lastUpdate = 0

/** Sets a company's integration, as a seed does: its `updated_at` rises. */
export async function integrate(
  company: TestCompany,
  kind: SupplierName,
  baseUrl: string,
  credentials: object,
  enabled = true,
): Promise<void> {
  lastUpdate += 1
  await sql(
    `INSERT OR REPLACE INTO integrations (company_id, kind, enabled, base_url, credentials, updated_at)
     VALUES (?, ?, ?, ?, ?, ?)`,
    company.id,
    kind,
    enabled ? 1 : 0,
    baseUrl,
    await encryptCredentials(env.CREDENTIALS_KEY, company.id, kind, credentials),
    lastUpdate,
  )
}

export async function setEnabled(company: TestCompany, kind: SupplierName, enabled: boolean): Promise<void> {
  lastUpdate += 1
  await sql(
    'UPDATE integrations SET enabled = ?, updated_at = ? WHERE company_id = ? AND kind = ?',
    enabled ? 1 : 0,
    lastUpdate,
    company.id,
    kind,
  )
}

/** Searches, with other bindings where they are given, and expects 200. */
export async function search(
  of: TestCompany,
  q: string,
  parameters: Record<string, string> = {},
  bindings?: Env,
): Promise<ApiResponse['body']> {
  const response = await get(of, `/products/search?${new URLSearchParams({ q, ...parameters })}`, bindings)
  expect(response.status).toBe(200)
  return response.body
}

export async function get(of: TestCompany, path: string, bindings?: Env): Promise<ApiResponse> {
  return send(request(of.token, 'GET', path), bindings ? { env: bindings } : {})
}

/** Moves the Worker's clock; timers stay real. Undone by `vi.useRealTimers()`. */
export function travel(ms: number): void {
  const now = Date.now() + ms
  vi.useFakeTimers({ toFake: ['Date'], now })
}

/** Waits for work after a response: until a supplier has been called so often. */
export async function untilCalls(scope: SupplierScope, count: number): Promise<void> {
  await vi.waitFor(async () => expect(await scope.calls()).toHaveLength(count), { timeout: 30_000, interval: 20 })
}

/** The Worker's bindings, some methods of one replaced. */
export function withBinding<K extends 'CACHE' | 'DB'>(name: K, methods: Partial<Env[K]>): Env {
  const target = env[name]
  const replaced = new Proxy(target, {
    get: (_, key) => {
      const value: unknown = Reflect.get(methods, key) ?? Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  return { ...env, [name]: replaced }
}

export const never = () => new Promise<never>(() => {})
