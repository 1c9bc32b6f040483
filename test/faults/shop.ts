import { env } from 'cloudflare:workers'
import { inject } from 'vitest'
import type { Env } from '../../src/env.ts'
import { fold, searchText } from '../../src/kernel/db/columns.ts'
import { encryptCredentials } from '../../src/kernel/db/credentials.ts'
import type { Admission, AdmitRequest } from '../../src/kernel/gate/limiter.ts'
import type { Decision } from '../../src/kernel/gate/limits.ts'
import { findToken } from '../../src/kernel/gate/tokens.ts'
import { CREDENTIALS as CREDENTIALS_A, ENDPOINT_PATH } from '../../src/simulators/supplier-a-catalogue.ts'
import { CREDENTIALS as CREDENTIALS_B } from '../../src/simulators/supplier-b-catalogue.ts'
import examples from '../../src/site/reference/examples.json'
import { rowsOf as rowsOfCompany } from '../operation/copies/support.ts'
import { FREE_SLOT, freshId, mintToken } from '../support/app.ts'
import { insertion } from '../support/rows.ts'

const exampleClient = examples.readClient.client

/** What the examples of the contracts name: rows of the sample company. */
const CLIENTS = [
  { id: exampleClient.id, company_name: exampleClient.company_name, email: exampleClient.email },
  { id: 61, company_name: 'Granite Street Climbing', email: 'ines@granite-street.example' },
  { id: 63, company_name: 'Granite Street Climbing', external_id: 'shop-7' },
]
const CLIENT = exampleClient.id
export const EMAIL = exampleClient.email
const ORDER = 44
const ORDERS = [21, 35, ORDER, 81]
export const ITEMS = [440, 441, 442]
const STATUSES = [1, 10, 11]
export const THREAD = '19cce455887af494'
/** The file of the examples, of whose key the company is a part. */
const FILE = `email/${THREAD}/logo front.png`

/** Ids that are given out begin above it. */
const FIRST_NEW_ID = 1_000_000

export interface Shop {
  id: number
  token: string
}

/** Bindings with fake objects: the limiter allows every request, deliveries are only counted. */
export const BINDINGS: Env = {
  ...env,
  ...({
    RATE_LIMITER: namespaceOf({
      admit: async (hash: string, { isWrite }: AdmitRequest): Promise<Admission> => {
        const { token, applied } = await findToken(env.DB, hash)
        if (!token) return { kind: 'unknown' }
        const receipt = isWrite ? { write: 'w' } : undefined
        return { kind: 'admitted', token, applied, ageMs: 0, decision: allow(), constraint: null, receipt }
      },
      take: async () => allow(),
      report: async () => allow(),
    }),
    ACCOUNTING_DELIVERY: namespaceOf({ start: async () => undefined }),
    // Only these methods of a namespace are used.
  } as unknown as Pick<Env, 'RATE_LIMITER' | 'ACCOUNTING_DELIVERY'>),
  // An upload is signed for it; nothing is sent.
  STORAGE_ENDPOINT: 'https://storage.test',
}

function namespaceOf(stub: object) {
  return { idFromName: (name: string) => name, get: () => stub }
}

function allow(): Decision {
  return { allowed: true, window: { startedAt: Date.now(), count: 1, databaseMs: 0 } }
}

/** A company that has what the examples name; any two are alike but for their own id. */
export async function openShop(hasFile: boolean): Promise<Shop> {
  const id = freshId()
  const scope = crypto.randomUUID()
  const keys = env.CREDENTIALS_KEY
  const integrations = [
    ['supplier_a', `${inject('supplierAUrl')}/t/${scope}${ENDPOINT_PATH}`, CREDENTIALS_A],
    ['supplier_b', `${inject('supplierBUrl')}/t/${scope}`, CREDENTIALS_B],
    ['accounting_sync', 'http://127.0.0.1:9', {}],
  ] as const
  const sealed = await Promise.all(
    integrations.map(async ([kind, base_url, credentials]) => ({
      ...{ kind, enabled: 1, base_url, updated_at: 1 },
      credentials: await encryptCredentials(keys, id, kind, credentials),
    })),
  )
  const insert = (table: string, row: Record<string, unknown>) => insertion(table, { company_id: id, ...row })
  const times = { created_at: 0, updated_at: 0 }
  const tee = { title: 'cotton tee', search_text: searchText(['cotton tee']) }
  await env.DB.batch([
    env.DB.prepare(
      `INSERT INTO companies (id, slot, name, accounting_sync_enabled, last_client_id, last_order_id, last_invoice_id, created_at, updated_at)
       SELECT ?1, ${FREE_SLOT}, 'Shop', 1, ?2, ?2, ?2, 0, 0 FROM companies`,
    ).bind(id, FIRST_NEW_ID),
    ...STATUSES.map((status) => insert('order_statuses', { id: status, title: 'New', is_default: status === 1 })),
    insert('taxes', { id: 2, name: 'State', rate: 8.25 }),
    ...CLIENTS.map((client) => {
      const keys = { company_name_key: fold(client.company_name), email_key: client.email && fold(client.email) }
      return insert('clients', { ...client, ...keys, ...times })
    }),
    ...ORDERS.flatMap((order) => [
      insert('orders', {
        ...{ id: order, title: 'Regatta', client_id: CLIENT, order_status_id: 1, created_date: '2026-03-01' },
        ...times,
      }),
      insert('invoices', { id: order, project_id: order, number: `${order}`, tax_id: 2, ...times }),
    ]),
    ...ITEMS.map((item) =>
      insert('invoice_items', { id: item, invoice_id: ORDER, ...tee, quantity: 12, unit_price_cents: 950 }),
    ),
    insert('payments', { id: 440, invoice_id: ORDER, amount_cents: 10_000 }),
    insert('catalog_items', { id: 1, ...tee, price_cents: 950 }),
    insert('thread_contexts', {
      ...{ thread_id: THREAD, legacy_thread_id: THREAD, client_id: String(CLIENT) },
      ...{ fetched_at: 0, updated_at: 0 },
    }),
    ...sealed.map((row) => insert('integrations', row)),
  ])
  if (hasFile) await env.FILES.put(`orders/${id}/${ORDER}/${FILE}`, 'logo')
  return { id, token: await mintToken(id) }
}

/** Tables, and the columns of their rows that are ids or count writes. */
const LEFT_OUT: Record<string, string[]> = {
  api_tokens: ['id', 'token_hash', 'last_used_at'],
  integrations: ['base_url', 'credentials'],
  companies: ['id', 'slot'],
  accounting_outbox: ['id'],
  audit_log: ['token_id'],
  // By the clock of the database.
  changes: ['at'],
}

/** Everything that the database has of a shop, and the sizes of its objects in R2, in a form that is equal for equal shops. */
export async function rowsOf(shop: Shop): Promise<string[]> {
  const { objects } = await env.FILES.list({ prefix: `mail/${shop.id}/` })
  const sizes = new Map(objects.map(({ key, size }) => [key, size]))
  const tables = Object.entries(await rowsOfCompany(shop.id, 'DB'))
  const lines = tables.flatMap(([table, rows]) =>
    rows.filter(isKept).map(({ company_id, ...row }) => {
      if (table === 'email_thread_objects') {
        // A row without its object is equal to no other.
        row.size_in_bucket =
          sizes.get(`mail/${company_id}/${row.content_hash}/${row.id}`) ?? crypto.randomUUID().slice(1)
      }
      const kept = Object.entries(row).filter(([column]) => !LEFT_OUT[table]?.includes(column))
      return `${table} ${normalise(JSON.stringify(Object.fromEntries(kept)), shop)}`
    }),
  )
  return lines.sort()
}

/** Objects that nothing names yet, or any more, are the sweep's. */
function isKept({ state }: Record<string, unknown>): boolean {
  return state !== 'writing' && state !== 'removing'
}

/** What counts writes: it differs after one that was carried out twice. */
const COUNTS =
  /"(revision|content_revision|version|sequence|last_change|previous_updated_at|stored_bytes)":(\d+|null),?/g

export function withoutCounts(text: string): string {
  return text.replaceAll(COUNTS, '')
}

/** Rows without what a write that was carried out twice leaves twice: the feed has a creation and then an update. */
export function rowsWithoutCounts(rows: string[]): string[] {
  const once = rows.map((row) => withoutCounts(row).replace('"operation":"update"', '"operation":"create"'))
  return [...new Set(once)].sort()
}

/** A request with the shop's id where an example has that of the sample company. */
export function ofShop<T extends { path: string; body?: unknown }>(sent: T, { id }: Shop): T {
  const text = JSON.stringify(sent.body)?.replaceAll('"company_id":1', `"company_id":${id}`)
  const path = sent.path.replace('orders%2F1%2F', `orders%2F${id}%2F`)
  return { ...sent, path, ...(text !== undefined && { body: JSON.parse(text) }) }
}

/** Text without ids of the company, generated ids and signatures, and without the database's times. */
export function normalise(text: string, shop: Shop): string {
  return text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'UUID')
    .replaceAll(/"lastChanged":"[^"]+"/g, '"lastChanged":"TIME"')
    .replaceAll(/X-Amz-Signature=[0-9a-f]+/g, 'X-Amz-Signature=')
    .replaceAll(/"(time|next_cursor)":"[^"]+"/g, '"$1":"$1"')
    .replaceAll(/"token":{"id":\d+/g, '"token":{"id":ID')
    .replaceAll(`orders/${shop.id}/`, 'orders/COMPANY/')
    .replaceAll(new RegExp(`(\\\\*"company_id\\\\*"|"company":{"id"):${shop.id}\\b`, 'g'), '$1:COMPANY')
    .replaceAll(/\b1\d{6}(?:\.0)?\b/g, 'NEW')
}
