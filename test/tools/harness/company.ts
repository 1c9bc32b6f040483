import { createHash, randomBytes } from 'node:crypto'
import type { Miniflare } from 'miniflare'
import { applyMigrations } from '../../../src/cli/local-runtime.ts'
import { digitsOf, fold } from '../../../src/kernel/db/columns.ts'
import { PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'

export type D1 = Awaited<ReturnType<Miniflare['getD1Database']>>

/** Inserts rows; the first has every column. */
export async function insert(db: D1, table: string, rows: readonly object[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {})
  const values = columns.map((column) => `value ->> '$.${column}'`)
  await db
    .prepare(`INSERT INTO ${table} (${columns}) SELECT ${values} FROM json_each(?)`)
    .bind(JSON.stringify(rows))
    .run()
}

/** As {@link insert}, of one company. */
export const insertOf = (db: D1, company_id: number, table: string, rows: readonly object[]) =>
  insert(
    db,
    table,
    rows.map((row) => ({ company_id, ...row })),
  )

export const NEWEST = Date.UTC(2026, 9, 1)

const ADJECTIVES =
  'Harbor North Silver Maple Golden Blue River Summit Cedar Union Liberty Copper Prairie Granite Coastal'.split(' ')
const NOUNS =
  'Rowing Cycling Brewing Robotics Athletics Bakery Dental Motors Roofing Academy Foundry Chess Sailing Library'.split(
    ' ',
  )
const KINDS = 'Club Co School League Works Group Partners Studio Team Supply'.split(' ')
const NAMES = 'Ines Omar Lena Mateo Aiko Priya Jonas Fatima Tomás Chloé Noah Zofia Ivan Grace Hugo Amara'.split(' ')

const pick = (list: string[], n: number) => list[n % list.length] ?? ''

/** Names end in the id in base 36: all of it but its last digit, behind a name in S, is met by some clients. */
export const needleOf = (id: number) => `S ${Math.max(36, id).toString(36).slice(0, -1).toUpperCase()}`

/** A client: those of other companies have the same names. */
export function clientRow(id: number) {
  // A spread that is the same on every run, without a pattern that an index could profit from.
  const n = (id * 2_654_435_761) % 4_294_967_296
  const company = `${pick(ADJECTIVES, n)} ${pick(NOUNS, n >>> 4)} ${pick(KINDS, n >>> 8)} ${id.toString(36)}`
  const first = pick(NAMES, n >>> 12)
  const last = `${pick(NOUNS, n >>> 16)}son`
  const email = `${first.toLowerCase()}.${id}@${pick(NOUNS, n >>> 4).toLowerCase()}.example`
  const phone = `(555) ${String(n % 10_000_000).padStart(7, '0')}`
  return {
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

/** The company in slot 0, in front of any that is measured: with its ids and names. */
export const LOOK_ALIKE = 900_001
const LOOK_ALIKE_CLIENTS = 1_500

const CHUNK = 5_000
export const DAY_MS = 86_400_000

/**
 * Fills an empty database with one company of `size` clients and twice as many orders with an invoice, a line, a payment,
 * an artwork and a delivered event each, and a thread context for each client, behind a look-alike. There are no
 * statistics of it. Each client's name ends in a number of its own, so that a search can ask for few of them.
 */
export async function fillCompany(worker: Miniflare, size: number, tokenCount: number): Promise<string[]> {
  const tokens = makeTokens(tokenCount)
  await fillDatabase(await worker.getD1Database('DB'), size, tokens)
  return tokens
}

export const makeTokens = (count: number) => Array.from({ length: count }, () => randomBytes(32).toString('hex'))

/** Two databases that are filled with the same tokens have the same rows. */
export async function fillDatabase(db: D1, size: number, tokens: readonly string[]): Promise<void> {
  await applyMigrations(db)
  await insertCompany(db, LOOK_ALIKE, 0, LOOK_ALIKE_CLIENTS)
  await insertCompany(db, 1, 1, size)
  await insertTokens(db, 1, tokens)
}

async function insertCompany(db: D1, company_id: number, slot: number, size: number): Promise<void> {
  const insertAll = (table: string, rows: object[]) => insertOf(db, company_id, table, rows)
  await insert(db, 'companies', [{ id: company_id, slot, name: 'Bench', created_at: 0, updated_at: 0 }])
  await insertAll('order_statuses', [
    { id: 1, title: 'New', is_default: 1 },
    { id: 2, title: 'Done', is_default: 0 },
  ])
  await insertAll('taxes', [{ id: 1, name: 'State', rate: 8.25 }])
  for (let from = 1; from <= size; from += CHUNK) {
    const ids = Array.from({ length: Math.min(CHUNK, size - from + 1) }, (_, index) => from + index)
    const orders = ids.flatMap((id) => [id * 2 - 1, id * 2])
    await insertAll('clients', ids.map(clientRow))
    for (const [table, rowsOf] of Object.entries(OF_ORDERS)) await insertAll(table, orders.flatMap(rowsOf))
    await insertAll('thread_contexts', ids.map(contextRow))
  }
}

/** Gives a company tokens with every permission: more than the API creates for one. */
export async function insertTokens(db: D1, companyId: number, tokens: readonly string[]): Promise<void> {
  const hashes = tokens.map((token) => createHash('sha256').update(token).digest('hex'))
  await db
    .prepare(
      `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at)
       SELECT ?, value, 'bench', ?, 0 FROM json_each(?)`,
    )
    .bind(companyId, JSON.stringify(PERMISSIONS), JSON.stringify(hashes))
    .run()
}

const LINES = 3
const TIMES = { created_at: NEWEST, updated_at: NEWEST }

/** The rows of each order, whose client has another one. */
const OF_ORDERS: Record<string, (id: number) => object | object[]> = {
  orders: (id) => ({
    id,
    title: `Order ${id}`,
    title_key: `ORDER ${id}`,
    number_key: String(1_000 + id),
    client_id: Math.ceil(id / 2),
    description: 'Two-colour front print, one-colour back print',
    order_status_id: (id % 2) + 1,
    created_date: new Date(NEWEST - (id % 1_000) * DAY_MS).toISOString().slice(0, 10),
    ...TIMES,
  }),
  invoices: (id) => ({ id, project_id: id, number: String(1_000 + id), tax_id: 1, ...TIMES }),
  invoice_items: (id) =>
    Array.from({ length: LINES }, (_, index) => ({
      id: LINES * (id - 1) + index + 1,
      invoice_id: id,
      title: 'Heavy cotton tee',
      quantity: 24,
      unit_price_cents: 950,
      position: index + 1,
      search_text: 'HEAVY COTTON TEE',
    })),
  payments: (id) => ({ id, invoice_id: id, amount_cents: 10_000, method: 'card', paid_at: '2026-09-01' }),
  artworks: (id) => ({ id, project_id: id, name: 'Crest', print_method: 'screen', placements: '["front"]' }),
  accounting_outbox: (order_id) => {
    const times = { next_attempt_at: 0, created_at: 0, updated_at: order_id }
    return { order_id, operation: 'create', state: 'done', ...times }
  },
}

function contextRow(id: number) {
  return {
    thread_id: `thread-f:${id}`,
    legacy_thread_id: id.toString(16).padStart(16, '0'),
    client_id: String(id),
    orders_data: JSON.stringify([{ id: id * 2 - 1 }, { id: id * 2 }]),
    fetched_at: NEWEST,
    updated_at: NEWEST,
  }
}
