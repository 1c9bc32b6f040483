import { env } from 'cloudflare:workers'
import { mintCompany, type TestCompany } from './app.ts'

/** So many rows are in every table for each company. */
export const ROWS = 5_000

/** Orders of client 1; the other clients have one each. */
const ORDERS_OF_CLIENT_1 = 3_000

/** Of order 1; each of the other orders has one of each. */
const ITEMS = 10
const PAYMENTS = 5
const ARTWORKS = 5

/** Events of order 1 that wait for delivery. */
const WAITING = 500

/** Contexts under the legacy id `many`, of which the oldest alone is tied to the company. */
const CONTEXTS_OF_MANY = 20

/** `n.i` counts from 1 to `ROWS`; `?1` is the company. */
const TABLES: Record<string, string> = {
  order_statuses: "id, title, position, is_default) SELECT ?1, i, 'Status ' || i, i, i = 1",
  taxes: "id, name, rate) SELECT ?1, i, 'Tax ' || i, 5",
  clients: `id, company_name, company_name_key, first_name, first_name_key, email, email_key, phone, phone_key, phone_digits, created_at, updated_at)
    SELECT ?1, i, 'Harbor Club ' || i, 'HARBOR CLUB ' || i, 'Ines', 'INES', 'c' || i || '@x.example', 'C' || i || '@X.EXAMPLE',
      '(555) ' || (1000000 + i), '(555) ' || (1000000 + i), '555' || (1000000 + i), 0, 0`,
  orders: `id, title, title_key, number_key, client_id, order_status_id, created_date, created_at, updated_at)
    SELECT ?1, i, 'Order ' || i, 'ORDER ' || i, 1000 + i, iif(i <= ${ORDERS_OF_CLIENT_1}, 1, i), i % 7 + 1, date('2020-01-01', '+' || (i % 1500) || ' days'), 0, 0`,
  invoices: 'id, project_id, number, tax_id, created_at, updated_at) SELECT ?1, i, i, 1000 + i, 1, 0, 0',
  invoice_items: `id, invoice_id, title, quantity, unit_price_cents, search_text)
    SELECT ?1, i, iif(i <= ${ITEMS}, 1, i), 'Cotton hoodie XL ' || i, 12, 950, 'COTTON HOODIE XL ' || i`,
  payments: `id, invoice_id, amount_cents) SELECT ?1, i, iif(i <= ${PAYMENTS}, 1, i), 100`,
  artworks: `id, project_id, name) SELECT ?1, i, iif(i <= ${ARTWORKS}, 1, i), 'Crest'`,
  catalog_items: "id, title, search_text) SELECT ?1, i, 'Cotton hoodie XL ' || i, 'COTTON HOODIE XL ' || i",
  thread_contexts: `thread_id, legacy_thread_id, client_id, client_data, clients_data, orders_data, selected_order_id, fetched_at, updated_at)
    SELECT ?1, 't' || i, iif(i <= ${CONTEXTS_OF_MANY}, 'many', 't' || i), iif(i > 1 AND i <= ${CONTEXTS_OF_MANY}, NULL, i),
      json_object('id', i), json_array(json_object('id', i)),
      iif(i <= ${CONTEXTS_OF_MANY}, '[]', json_array(json_object('id', i), json_object('id', i - 1))), i, i, i`,
  email_threads: `id, account_email, legacy_thread_id, message_count, last_synced_at, content_hash, revision, content_revision, created_at, updated_at, content)
    SELECT ?1, printf('00000000-0000-4000-8000-%06d%06d', ?1, i), 'box@x.example', 't' || i, 1, 0, 'x', 1, 1, 0, 0, 'x'`,
  email_thread_objects: `id, content_hash, bytes, state, remove_at)
    SELECT ?1, ?1 || '-' || i, 'x', 1, 'replaced', 9000000000000000 + i`,
  audit_log: "id, token_id, request_id, action, entity_id, at) SELECT ?1, i, 1, 'r', 'order.update', i, 0",
  accounting_outbox: `order_id, operation, state, next_attempt_at, created_at, updated_at)
    SELECT ?1, iif(i <= ${WAITING}, 1, i), 'update', iif(i <= ${WAITING} OR i % 2, 'pending', 'done'), i, 0, 0`,
  accounting_links: "order_id, external_id, sync_token, synced_at) SELECT ?1, i, i, '0', 0",
  idempotency_keys: "token_id, key, fingerprint, result, created_at) SELECT ?1, 1, i, 'x', '[]', ?1",
  webhook_endpoints:
    "id, url, secret, event_types, enabled, position, created_at, updated_at) SELECT ?1, i, 'https://x.example', 'x', '[]', 0, 0, 0, 0",
  webhook_deliveries: "endpoint_id, type, entity_id, sequence, next_attempt_at) SELECT ?1, i, 'clients', i, i, 0",
  members: "email, role, created_at) SELECT ?1, 'm' || i || '@x.example', 'developer', 0",
  admin_log:
    "actor, action, entity_id, address, request_id, at) SELECT ?1, 'operator', 'members.put', i, '192.0.2.1', 'r', 0",
  imports: 'hash, parts, next_part, updated_at) SELECT ?1, i, 1, 2, 0',
  api_tokens: "token_hash, name, permissions, created_at) SELECT ?1, ?1 || '-' || i, 'x', '[]', 0",
}

/** A company with 5,000 rows in every table, all under the ids 1 to 5,000, and statistics of none. */
export async function fillCompany(): Promise<TestCompany> {
  const company = await mintCompany({ home: 'DB' })
  await env.DB.batch([
    ...['order_statuses', 'taxes'].map((table) =>
      env.DB.prepare(`DELETE FROM ${table} WHERE company_id = ?`).bind(company.id),
    ),
    env.DB.prepare('UPDATE companies SET accounting_sync_enabled = 1 WHERE id = ?').bind(company.id),
    env.DB.prepare(
      `INSERT INTO integrations (company_id, kind, enabled, base_url, credentials, updated_at)
       VALUES (?, 'accounting_sync', 1, 'http://127.0.0.1:9', 'x', 0)`,
    ).bind(company.id),
  ])
  const numbers = `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS})`
  for (const [table, columns] of Object.entries(TABLES)) {
    await env.DB.prepare(`${numbers} INSERT INTO ${table} (company_id, ${columns} FROM n`).bind(company.id).run()
  }
  return company
}
