import { createHash, randomBytes } from 'node:crypto'
import type { Miniflare } from 'miniflare'
import { applyMigrations } from '../../../src/cli/local-runtime.ts'
import { digitsOf, fold } from '../../../src/db/search.ts'

const CHUNK = 5_000
const DAY_MS = 86_400_000
const NEWEST = Date.UTC(2026, 9, 1)

const ADJECTIVES =
  'Harbor North Silver Maple Golden Blue River Summit Cedar Union Liberty Copper Prairie Granite Coastal'.split(' ')
const NOUNS =
  'Rowing Cycling Brewing Robotics Athletics Bakery Dental Motors Roofing Academy Foundry Chess Sailing Library'.split(
    ' ',
  )
const KINDS = 'Club Co School League Works Group Partners Studio Team Supply'.split(' ')
const NAMES = 'Ines Omar Lena Mateo Aiko Priya Jonas Fatima Tomás Chloé Noah Zofia Ivan Grace Hugo Amara'.split(' ')

/**
 * Fills an empty database with one company of `size` clients and twice as many orders with an invoice, a line, a payment,
 * an artwork and a delivered event each, and a thread context for each client. There are no statistics of it. Each
 * client's name ends in a number of its own, in base 36, so that a search can ask for about twenty of them.
 */
export async function fillCompany(worker: Miniflare, size: number, tokenCount: number): Promise<string[]> {
  const tokens = makeTokens(tokenCount)
  await fillDatabase(await worker.getD1Database('DB'), size, tokens)
  return tokens
}

export function makeTokens(count: number): string[] {
  return Array.from({ length: count }, () => randomBytes(32).toString('hex'))
}

/** Two databases that are filled with the same tokens have the same rows. */
export async function fillDatabase(db: D1, size: number, tokens: readonly string[]): Promise<void> {
  await applyMigrations(db)
  await db.batch([
    db.prepare("INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (1, 0, 'Bench', 0, 0)"),
    db.prepare(
      "INSERT INTO order_statuses (company_id, id, title, is_default) VALUES (1, 1, 'New', 1), (1, 2, 'Done', 0)",
    ),
    db.prepare("INSERT INTO taxes (company_id, id, name, rate) VALUES (1, 1, 'State', 8.25)"),
    db
      .prepare(
        `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at)
         SELECT 1, value, 'bench', ?, 0 FROM json_each(?)`,
      )
      .bind(
        JSON.stringify(['clients:read', 'clients:write', 'orders:read', 'orders:write']),
        JSON.stringify(tokens.map(hashOf)),
      ),
  ])
  for (let from = 1; from <= size; from += CHUNK) {
    const ids = Array.from({ length: Math.min(CHUNK, size - from + 1) }, (_, index) => from + index)
    await insert(db, 'clients', ids.map(clientRow))
    const orders = ids.flatMap((id) => [id * 2 - 1, id * 2])
    await insert(
      db,
      'orders',
      orders.map((id) => orderRow(id, Math.ceil(id / 2))),
    )
    await insert(db, 'invoices', orders.map(invoiceRow))
    await insert(db, 'invoice_items', orders.map(itemRow))
    await insert(db, 'payments', orders.map(paymentRow))
    await insert(db, 'artworks', orders.map(artworkRow))
    await insert(db, 'accounting_outbox', orders.map(eventRow))
    await insert(db, 'thread_contexts', ids.map(contextRow))
  }
}

function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}

type Row = Record<string, string | number | null>
type D1 = Awaited<ReturnType<Miniflare['getD1Database']>>

export async function insert(db: D1, table: string, rows: Row[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {})
  const values = columns.map((column) => `value ->> '$.${column}'`)
  await db
    .prepare(`INSERT INTO ${table} (${columns}) SELECT ${values} FROM json_each(?)`)
    .bind(JSON.stringify(rows))
    .run()
}

const pick = (list: string[], n: number) => list[n % list.length] ?? ''

export function clientRow(id: number): Row {
  // A spread that is the same on every run, without a pattern that an index could profit from.
  const n = (id * 2_654_435_761) % 4_294_967_296
  const company = `${pick(ADJECTIVES, n)} ${pick(NOUNS, n >>> 4)} ${pick(KINDS, n >>> 8)} ${id.toString(36)}`
  const first = pick(NAMES, n >>> 12)
  const last = `${pick(NOUNS, n >>> 16)}son`
  const email = `${first.toLowerCase()}.${id}@${pick(NOUNS, n >>> 4).toLowerCase()}.example`
  const phone = `(555) ${String(n % 10_000_000).padStart(7, '0')}`
  return {
    company_id: 1,
    id,
    company_name: company,
    company_name_key: fold(company),
    first_name: first,
    first_name_key: fold(first),
    last_name: last,
    last_name_key: fold(last),
    email,
    email_key: fold(email),
    phone,
    phone_key: fold(phone),
    phone_digits: digitsOf(phone),
    created_at: NEWEST,
    updated_at: NEWEST,
  }
}

function orderRow(id: number, clientId: number): Row {
  return {
    company_id: 1,
    id,
    title: `Order ${id}`,
    title_key: `ORDER ${id}`,
    number_key: String(1_000 + id),
    client_id: clientId,
    description: 'Two-colour front print, one-colour back print',
    order_status_id: (id % 2) + 1,
    created_date: new Date(NEWEST - (id % 1_000) * DAY_MS).toISOString().slice(0, 10),
    created_at: NEWEST,
    updated_at: NEWEST,
  }
}

function invoiceRow(id: number): Row {
  return {
    company_id: 1,
    id,
    project_id: id,
    number: String(1_000 + id),
    tax_id: 1,
    created_at: NEWEST,
    updated_at: NEWEST,
  }
}

function itemRow(id: number): Row {
  return {
    company_id: 1,
    id,
    invoice_id: id,
    title: 'Heavy cotton tee',
    quantity: 24,
    unit_price_cents: 950,
    search_text: 'HEAVY COTTON TEE',
  }
}

function paymentRow(id: number): Row {
  return { company_id: 1, id, invoice_id: id, amount_cents: 10_000, method: 'card', paid_at: '2026-09-01' }
}

function artworkRow(id: number): Row {
  return { company_id: 1, id, project_id: id, name: 'Crest', print_method: 'screen', placements: '["front"]' }
}

function eventRow(id: number): Row {
  return {
    company_id: 1,
    order_id: id,
    operation: 'create',
    state: 'done',
    next_attempt_at: 0,
    created_at: 0,
    updated_at: id,
  }
}

function contextRow(id: number): Row {
  const legacyId = id.toString(16).padStart(16, '0')
  return {
    company_id: 1,
    thread_id: `thread-f:${id}`,
    legacy_thread_id: legacyId,
    client_id: String(id),
    orders_data: JSON.stringify([{ id: id * 2 - 1 }, { id: id * 2 }]),
    fetched_at: NEWEST,
    updated_at: NEWEST,
  }
}
