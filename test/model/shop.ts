import { digitsOf, fold } from '../../src/kernel/db/columns.ts'
import type { ApiResponse, Home, TestCompany } from '../support/app.ts'
import { call, mintCompany, mintToken, sqlIn } from '../support/app.ts'
import {
  addChange,
  type Change,
  type Client,
  type Context,
  emptyModel,
  type Model,
  type Order,
  type Thread,
} from './company.ts'

/** Parts of names, in several scripts, with what searches could mistake for something else. */
export const WORDS = [
  ...['Ridgeline', 'Регата', '漢字商店', 'ضادة', 'Ελλάς', 'Straße', 'Łódź', 'İzmir', '🧵🧶 Thread', 'नमस्ते'],
  ...['O’Neil', 'a"b', '100%_\\', 'NEAR(*)', '555 10'],
] as const

const FIRST_NAMES = [null, 'Zoë', 'Олег', '李', 'Ümit'] as const
const LAST_NAMES = [null, 'O’Neil', 'Strauß', 'Σίσυφος'] as const
export const MAILBOXES = ['sales@shop.example', 'other@shop.example'] as const
export const STATUSES = [1, 2, 3] as const

const BASE_MS = Date.UTC(2026, 0, 1)
const DAY_MS = 86_400_000
/** Rows of one statement. */
const AT_ONCE = 500
/** Fewer than a token may make in a minute. */
const REQUESTS_PER_TOKEN = 100

export interface Sizes {
  clients: number
  orders: number
  threads: number
  contexts: number
}

/** A company of the database, and the same in memory. */
export class Shop {
  readonly model: Model = emptyModel()
  readonly company: TestCompany
  /** Below all ids of clients and orders. */
  readonly base: number
  private token = ''
  private requests = 0
  private serial = 0

  private constructor(company: TestCompany, base: number) {
    this.company = company
    this.base = base
  }

  /** Makes a company whose rows have the same ids and names as those of any other with this base. */
  static async open(home: Home, base: number, sizes: Sizes): Promise<Shop> {
    const company = await mintCompany({ home })
    const shop = new Shop(company, base)
    await shop.fill(sizes)
    return shop
  }

  get id(): number {
    return this.company.id
  }

  /** A number that this company did not use before. */
  next(): number {
    return this.serial++
  }

  /** Sends a request, with another token before one has sent too many. */
  async call(method: string, path: string, body?: unknown): Promise<ApiResponse> {
    if (this.requests++ % REQUESTS_PER_TOKEN === 0) this.token = await mintToken(this.id)
    return call(this.token, method, path, body)
  }

  private async fill(sizes: Sizes): Promise<void> {
    const { id, base, model } = this
    const { home } = this.company
    await sqlIn(home, 'DELETE FROM order_statuses WHERE company_id = ?', id)
    const given = 'UPDATE companies SET last_client_id = ?2, last_order_id = ?2, last_invoice_id = 0 WHERE id = ?1'
    await sqlIn(home, given, id, base)
    const statusOf = (n: number) => ({ id: n, title: `Status ${n}`, position: n, is_default: n === 2 ? 1 : 0 })
    await this.insert('order_statuses', STATUSES.map(statusOf))
    const clients = firstOf(sizes.clients, (n) => clientOf(base, n))
    await this.insert('clients', clients.map(columnsOfClient))
    for (const client of clients) model.clients.set(client.id, client)
    const orders = firstOf(sizes.orders, (n) => orderOf(base, n, sizes.clients))
    await this.insert('orders', orders.map(columnsOfOrder))
    for (const order of orders) model.orders.set(order.id, order)
    const threads = firstOf(sizes.threads, (n) => threadOf(id, n))
    await this.insert('email_threads', threads.map(columnsOfThread))
    for (const thread of threads) model.threads.set(`${thread.account_email} ${thread.legacy_thread_id}`, thread)
    for (const [type, rows] of Object.entries({ clients, orders, email_threads: threads } as const)) {
      for (const row of rows) addChange(model, type as Change['type'], row, true)
    }
    const contexts = firstOf(sizes.contexts, (n) => contextOf(base, n))
    await this.insert('thread_contexts', contexts.map(columnsOfContext))
    for (const context of contexts) model.contexts.set(context.legacy_thread_id, context)
  }

  /** Inserts rows of this company, in order. */
  async insert(table: string, rows: Record<string, unknown>[]): Promise<void> {
    const names = Object.keys(rows[0] ?? {})
    const values = names.map((name) => `value ->> '${name}'`)
    for (let at = 0; at < rows.length; at += AT_ONCE) {
      await sqlIn(
        this.company.home,
        `INSERT INTO ${table} (company_id, ${names}) SELECT ?1, ${values} FROM json_each(?2) ORDER BY key`,
        this.id,
        JSON.stringify(rows.slice(at, at + AT_ONCE)),
      )
    }
  }
}

const firstOf = <T>(count: number, rowOf: (n: number) => T) =>
  Array.from({ length: count }, (_, index) => rowOf(index + 1))

const pickOf = <T>(all: readonly [T, ...T[]] | readonly T[], at: number): T => {
  const [value = all[0]] = all.slice(at % all.length)
  return value as T
}

/** The columns that the n-th rows of all kinds share. */
function commonOf(n: number) {
  const created_at = BASE_MS + Math.floor(n / 3) * 1_000
  return { deleted: n % 19 === 0, created_at, updated_at: created_at + (n % 7) * 700 }
}

const versionedOf = (base: number, n: number) => ({
  ...{ id: base + n, external_id: n % 2 > 0 ? `E${n}` : null, version: 1 },
  ...commonOf(n),
})

const clientOf = (base: number, n: number): Client => ({
  ...versionedOf(base, n),
  company_name: `${pickOf(WORDS, n)} Harbor ${n}`,
  first_name: pickOf(FIRST_NAMES, n),
  last_name: pickOf(LAST_NAMES, n),
  email: n % 3 > 0 ? `c${n % 200}@x.example` : null,
  phone: n % 4 > 0 ? `(555) ${1_000_000 + n}` : null,
})

export function columnsOfClient(client: Client) {
  const { company_name, first_name, last_name, email, phone } = client
  const keyOf = (text: string | null) => (text === null ? null : fold(text))
  return {
    ...client,
    deleted: Number(client.deleted),
    company_name_key: fold(company_name),
    first_name_key: keyOf(first_name),
    last_name_key: keyOf(last_name),
    email_key: keyOf(email),
    phone_key: keyOf(phone),
    phone_digits: digitsOf(phone ?? ''),
  }
}

const orderOf = (base: number, n: number, clients: number): Order => ({
  ...versionedOf(base, n),
  title: `${pickOf(WORDS, n)} regatta ${n}`,
  client_id: base + (n % 10 === 0 ? 1 : (n % clients) + 1),
  order_status_id: n % 4 === 0 ? null : n % 4,
  created_date: new Date(Date.UTC(2022, 0, 1) + (n % 900) * DAY_MS).toISOString().slice(0, 10),
  number: '',
})

export function columnsOfOrder({ number, ...order }: Order) {
  return { ...order, deleted: Number(order.deleted), title_key: fold(order.title), number_key: number }
}

const threadOf = (companyId: number, n: number): Thread => ({
  // Ids of threads are unique in a database.
  id: `00000000-0000-4000-8000-${String(companyId).padStart(6, '0')}${String(n).padStart(6, '0')}`,
  account_email: pickOf(MAILBOXES, n % 5 === 0 ? 1 : 0),
  legacy_thread_id: `t${n}`,
  ...{ subject: `Thread ${n}`, message_count: 1, label: '', revision: 1 },
  ...commonOf(n),
})

function columnsOfThread({ label: _, ...thread }: Thread) {
  return {
    ...thread,
    subject: JSON.stringify(thread.subject),
    deleted: Number(thread.deleted),
    last_synced_at: thread.created_at,
    content_hash: 'x',
    content_revision: 1,
  }
}

const contextOf = (base: number, n: number): Context => ({
  ...{ thread_id: `t${n}`, legacy_thread_id: `t${n}`, client_id: base + 1 },
  ...{ clients: [base + 2], orders: [base + (n % 2) + 1] },
})

function columnsOfContext({ client_id, clients, orders, ...ids }: Context) {
  const elements = (all: number[]) => JSON.stringify(all.map((id) => ({ id })))
  const columns = { client_id: String(client_id), clients_data: elements(clients), orders_data: elements(orders) }
  return { ...ids, ...columns, fetched_at: BASE_MS, updated_at: BASE_MS }
}
