import { env } from 'cloudflare:workers'
import { type Home, mintCompany, sql, type TestCompany } from './app.ts'
import { insertion } from './rows.ts'

/** A company whose every text contains a marker that no other company may receive. */
export interface FilledCompany extends TestCompany {
  marker: string
  ids: Ids
}

export type Ids = ReturnType<typeof makeIds>

/** @param numberOf gives the n-th id of the company */
export function makeIds(numberOf: (n: number) => number, texts: string) {
  return {
    client: numberOf(1),
    deletedClient: numberOf(2),
    status: numberOf(3),
    tax: numberOf(4),
    order: numberOf(5),
    doomedOrder: numberOf(6),
    invoice: numberOf(7),
    item: numberOf(9),
    payment: numberOf(10),
    artwork: numberOf(11),
    catalogItem: numberOf(12),
    email: `client@${texts}.example`,
    mailbox: `mailbox@${texts}.example`,
    thread: `thread-${texts}`,
    context: `context-${texts}`,
  }
}

/**
 * A company with a row of everything, under ids of its own.
 *
 * @param marker upper-case letters that are in every text it stores, but not in its ids and addresses
 */
export async function fillCompany(marker: string, ids: Ids, home: Home = 'DB'): Promise<FilledCompany> {
  const company = await mintCompany({ home })
  const insert = (table: string, row: Record<string, unknown>) =>
    insertion(table, { company_id: company.id, ...row }, home)
  const times = { created_at: 0, updated_at: 0 }
  const text = `${marker} text`
  const client = { company_name: text, company_name_key: text.toUpperCase(), ...times }
  const email = { email: ids.email, email_key: ids.email.toUpperCase() }
  const price = { quantity: 2, unit_price_cents: 950, search_text: text.toUpperCase() }
  const order = { client_id: ids.client, order_status_id: ids.status, created_date: '2026-01-31', ...times }

  await env[home].batch([
    env[home].prepare('UPDATE companies SET name = ? WHERE id = ?').bind(text, company.id),
    insert('clients', { ...client, ...email, id: ids.client, external_id: ids.thread }),
    insert('clients', { ...client, id: ids.deletedClient, deleted: 1 }),
    insert('order_statuses', { id: ids.status, title: text, color: marker, workflow_key: marker }),
    insert('taxes', { id: ids.tax, name: text, rate: 5 }),
    insert('orders', { ...order, id: ids.order, title: text, title_key: text.toUpperCase(), description: text }),
    insert('orders', { ...order, id: ids.doomedOrder, title: text, description: text }),
    insert('invoices', { id: ids.invoice, project_id: ids.order, number: `${marker}-1`, tax_id: ids.tax, ...times }),
    insert('invoice_items', { id: ids.item, invoice_id: ids.invoice, title: text, ...price }),
    insert('payments', { id: ids.payment, invoice_id: ids.invoice, amount_cents: 100, note: text }),
    insert('artworks', { id: ids.artwork, project_id: ids.order, name: text, placements: JSON.stringify([text]) }),
    insert('catalog_items', { id: ids.catalogItem, title: text, search_text: text.toUpperCase() }),
    insert('thread_contexts', {
      thread_id: ids.context,
      legacy_thread_id: ids.thread,
      sender_email: `${marker}@x.example`,
      client_id: String(ids.client),
      client_data: JSON.stringify({ id: ids.client, name: text, company_id: company.id }),
      clients_data: JSON.stringify([{ id: ids.client, name: text }]),
      orders_data: JSON.stringify([{ id: ids.order, title: text }]),
      ...{ selected_order_id: String(ids.order), fetched_at: 0, updated_at: 0 },
    }),
  ])
  await env.FILES.put(`orders/${company.id}/${ids.order}/email/${ids.thread}/${marker}.png`, marker)
  const messages = [{ body_plain: text.repeat(15_000) }]
  const thread = { account_email: ids.mailbox, subject: text, messages, labels: [text] }
  const response = await company.call('PUT', `/mail/email-threads/${ids.thread}`, thread)
  if (response.status !== 200) throw new Error(`The thread was not stored: ${response.status}`)
  return { ...company, marker, ids }
}

/** Integrations that would be noticed if they were used: their credentials cannot be read. */
export async function giveIntegrations({ id, home }: FilledCompany): Promise<void> {
  const of = { company_id: id, enabled: 1, base_url: 'http://127.0.0.1:9', credentials: 'unreadable', updated_at: 0 }
  const kinds = ['supplier_a', 'supplier_b', 'accounting_sync', 'storage']
  await env[home].batch(kinds.map((kind) => insertion('integrations', { ...of, kind }, home)))
}

type Rows = Record<string, Record<string, unknown>[]>

/**
 * Everything that the database has of some companies, except indexes and what every request leaves: last use and the
 * audit.
 */
export async function dump(companyIds: readonly number[]): Promise<Rows> {
  const tables = await sql<{ name: string; sql: string }>(
    `SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '%\\_fts%' ESCAPE '\\'
       AND name NOT LIKE '\\_cf%' ESCAPE '\\' AND name NOT LIKE 'd1\\_%' ESCAPE '\\' AND name <> 'audit_log' ORDER BY name`,
  )
  const ids = JSON.stringify(companyIds)
  const rows: Rows = {}
  for (const db of [env.DB, env.DB_TWO]) {
    const results = await db.batch<Record<string, unknown>>(
      tables.map((table) =>
        db.prepare(`SELECT * FROM ${table.name} WHERE ${isOf(table.name, table.sql)} ORDER BY 1, 2`).bind(ids),
      ),
    )
    for (const [index, { name }] of tables.entries()) {
      const found = (results[index]?.results ?? []).map(({ last_used_at, ...row }) => row)
      rows[name] = [...(rows[name] ?? []), ...found]
    }
  }
  return rows
}

/** The condition on the rows of the companies `?1`; a table without companies is read as a whole. */
function isOf(table: string, definition: string): string {
  const ofCompanies = 'IN (SELECT value FROM json_each(?1))'
  if (table === 'companies') return `id ${ofCompanies}`
  return definition.includes('company_id') ? `company_id ${ofCompanies}` : '?1 IS NOT NULL'
}

/** The rows of one company. */
export function rowsOf(all: Rows, companyId: number): Rows {
  const own = Object.entries(all).map(([table, rows]) => {
    const column = table === 'companies' ? 'id' : 'company_id'
    return [table, rows.filter((row) => row[column] === companyId)]
  })
  return Object.fromEntries(own)
}
