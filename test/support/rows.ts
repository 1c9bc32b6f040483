import { env } from 'cloudflare:workers'
import { encryptCredentials } from '../../src/kernel/db/credentials.ts'
import { type Home, homeOf, sql, type TestCompany } from './app.ts'

type Row = Record<string, unknown>

/** A statement that adds one row, by the names of its columns; what is undefined is null. */
export function insertion(table: string, row: Row, home: Home = homeOf(row.company_id)): D1PreparedStatement {
  const names = Object.keys(row)
  const values = Object.values(row).map((value) => value ?? null)
  return env[home].prepare(`INSERT INTO ${table} (${names}) VALUES (${names.map(() => '?')})`).bind(...values)
}

/** Adds one row and gives its `id`. */
export async function insert(table: string, row: Row, home?: Home): Promise<number> {
  await insertion(table, row, home).run()
  return Number(row.id)
}

/** Adds a webhook endpoint, by default one that was sent no change. */
export async function insertEndpoint(company_id: number, id: string, fields: Row = {}): Promise<void> {
  const times = { created_at: 0, updated_at: 0 }
  const address = { url: 'https://hooks.example/', secret: 'x', event_types: '[]' }
  await insert('webhook_endpoints', { company_id, id, ...address, position: 0, ...times, ...fields })
}

/** Adds many rows of one table and company, with the same columns and `id`s of their own. @param shared values of every row */
export async function insertions(table: string, rows: readonly Row[], shared: Row): Promise<void> {
  const all = rows.map((row) => ({ id: freshRowId(), ...row, ...shared }))
  const names = Object.keys(all[0] ?? {})
  const values = names.map((name) => `value ->> '${name}'`)
  for (let at = 0; at < all.length; at += 2_000) {
    await env[homeOf(rows[0]?.company_id)]
      .prepare(`INSERT INTO ${table} (${names}) SELECT ${values} FROM json_each(?)`)
      .bind(JSON.stringify(all.slice(at, at + 2_000)))
      .run()
  }
}

let lastRowId = 1_000_000
/** The API goes on after the highest id, so it takes those behind each. */
const ID_GAP = 1_000

/** An id that no other row of this file was given, here or by the API. */
export function freshRowId(): number {
  lastRowId += ID_GAP
  return lastRowId
}

/** A line as a seed or the application brings it: the API itself takes none. Gives its id. */
export function addItem(company: TestCompany, invoiceId: number, fields: Row = {}): Promise<number> {
  return insert('invoice_items', {
    company_id: company.id,
    id: freshRowId(),
    invoice_id: invoiceId,
    title: 'Tee',
    quantity: 1,
    unit_price_cents: 1000,
    search_text: 'TEE',
    ...fields,
  })
}

let lastUpdate = 0

/** Sets a company's integration as a seed does: its `updated_at` rises. */
export async function integrate(
  company: TestCompany,
  kind: 'supplier_a' | 'supplier_b' | 'storage',
  fields: { base_url: string; credentials: object; settings?: object; enabled?: boolean },
): Promise<void> {
  const { base_url, credentials, settings = {}, enabled = true } = fields
  lastUpdate += 1
  await sql(
    `INSERT OR REPLACE INTO integrations (company_id, kind, enabled, base_url, settings, credentials, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?)`,
    ...[company.id, kind, Number(enabled), base_url, JSON.stringify(settings)],
    await encryptCredentials(env.CREDENTIALS_KEY, company.id, kind, credentials),
    lastUpdate,
  )
}
