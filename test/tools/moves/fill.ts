import type { DatabaseSync } from 'node:sqlite'
import { LOOK_ALIKE } from '../harness/company.ts'
import { administer, NAMES, type Service } from './service.ts'

/** Every table of a company: `i` counts from 1 to the number of rows, `?1` is the company. */
const TABLES = {
  order_statuses: "id, title, is_default) SELECT ?1, i, 'Status ' || i, i = 1",
  taxes: "id, name, rate) SELECT ?1, i, 'Tax ' || i, 5",
  clients: `id, company_name, company_name_key, email, email_key, phone, phone_key, phone_digits, external_id, created_at, updated_at)
    SELECT ?1, i, 'Harbor Club ' || i, 'HARBOR CLUB ' || i, 'c' || i || '@x.example', 'C' || i || '@X.EXAMPLE',
      '(555) ' || (1000000 + i), '(555) ' || (1000000 + i), '555' || (1000000 + i), 'filled-' || i, 0, 0`,
  orders: `id, title, title_key, number_key, client_id, order_status_id, description, created_date, created_at, updated_at)
    SELECT ?1, i, 'Order ' || i, 'ORDER ' || i, 1000 + i, (i + 1) / 2, 1, 'Two-colour front print, one-colour back print',
      date('2020-01-01', '+' || (i % 1500) || ' days'), 0, 0`,
  invoices: 'id, project_id, number, tax_id, created_at, updated_at) SELECT ?1, i, i, 1000 + i, 1, 0, 0',
  invoice_items: `id, invoice_id, title, quantity, unit_price_cents, search_text)
    SELECT ?1, i, (i + 1) / 2, 'Cotton hoodie ' || i, 12, 950, 'COTTON HOODIE ' || i`,
  payments: 'id, invoice_id, amount_cents) SELECT ?1, i, i, 100',
  artworks: "id, project_id, name) SELECT ?1, i, i, 'Crest'",
  catalog_items: "id, title, search_text) SELECT ?1, i, 'Cotton hoodie ' || i, 'COTTON HOODIE ' || i",
  thread_contexts: `thread_id, legacy_thread_id, client_id, orders_data, fetched_at, updated_at)
    SELECT ?1, 't' || i, 't' || i, i, json_array(json_object('id', i)), 0, 0`,
  email_threads: `id, account_email, legacy_thread_id, message_count, last_synced_at, content_hash, revision, content_revision, created_at, updated_at, content)
    SELECT ?1, printf('00000000-0000-4000-8000-%06d%06d', ?1, i), 'box@x.example', 't' || i, 1, 0, 'x', 1, 1, 0, 0, hex(zeroblob(1000))`,
  email_thread_objects: `id, content_hash, bytes, state, remove_at)
    SELECT ?1, ?1 || '-' || i, 'x', 100, 'replaced', 9000000000000000 + i`,
  accounting_connections: "remote_account) SELECT ?1, 'r'",
  accounting_links: "order_id, external_id, sync_token, synced_at) SELECT ?1, i, i, '0', 0",
  accounting_outbox: `order_id, operation, state, next_attempt_at, created_at, updated_at)
    SELECT ?1, i, 'update', 'dead', 0, 0, 0`,
  audit_log:
    "id, token_id, request_id, action, entity_id, at) SELECT ?1, i, 1, 'filled', 'order.update', i, unixepoch() * 1000",
  idempotency_keys: "token_id, key, fingerprint, result, created_at) SELECT ?1, 1, i, 'x', '[]', unixepoch() * 1000",
  webhook_endpoints: `id, url, secret, event_types, enabled, position, created_at, updated_at)
    SELECT ?1, i, 'https://x.example', 'x', '[]', 0, 0, 0, 0`,
  webhook_deliveries:
    "endpoint_id, type, entity_id, sequence, next_attempt_at) SELECT ?1, 1, 'clients', i, i, 9000000000000000",
  imports: "hash, parts, next_part, updated_at) SELECT ?1, 'h', 1, 2, 0",
  integrations:
    "kind, enabled, base_url, credentials, updated_at) SELECT ?1, 'accounting_sync', 1, 'http://127.0.0.1:9', 'unreadable', 0",
}

/** Rows per order, by default one. Every table has at least one row. */
const SHARES: Partial<Record<string, number>> = {
  ...{ order_statuses: 0.001, taxes: 0.001 },
  ...{ clients: 0.5, thread_contexts: 0.5 },
  ...{ invoice_items: 2 },
  ...{ catalog_items: 0.1, idempotency_keys: 0.1 },
  ...{ email_threads: 0.2 },
  ...{ email_thread_objects: 0.05 },
  ...{ accounting_connections: 0, webhook_endpoints: 0, imports: 0, integrations: 0 },
  ...{ accounting_outbox: 0.4 },
  ...{ webhook_deliveries: 0.01 },
}

/** Fills a company that exists with so many orders, and as much of everything else as goes with them. */
export function fillCompany(db: DatabaseSync, companyId: number, orders: number): void {
  db.exec('BEGIN')
  for (const [table, columns] of Object.entries(TABLES)) {
    const rows = Math.max(1, Math.round(orders * (SHARES[table] ?? 1)))
    const numbers = `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${rows})`
    db.prepare(`${numbers} INSERT INTO ${table} (company_id, ${columns} FROM n`).run(companyId)
  }
  db.prepare('UPDATE companies SET accounting_sync_enabled = 1 WHERE id = ?').run(companyId)
  db.exec('COMMIT')
}

const LOOK_ALIKE_ORDERS = 1_500

/** Gives slot 0 of both databases to a company with the same ids and names. */
export async function addLookAlikes(service: Service): Promise<void> {
  for (const [index, name] of NAMES.entries()) {
    const id = LOOK_ALIKE + index
    await administer(service, 'POST', '/companies', { id, name: 'Ridgeline Custom Apparel', database: name })
    await service.write(name, (db) => fillCompany(db, id, LOOK_ALIKE_ORDERS))
  }
}
