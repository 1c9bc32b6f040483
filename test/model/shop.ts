import { digitsOf, fold } from '../../src/kernel/db/search.ts'
import type { ApiResponse, Home, TestCompany } from '../support/app.ts'
import { call, mintCompany, mintToken, sql, sqlIn } from '../support/app.ts'
import { addChange, type Client, type Context, emptyModel, type Model, type Order, type Thread } from './company.ts'

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
/** An entry of the audit that a token repeats within this time is not written again, if it is one of the last. */
const AUDIT_MS = 60_000
const AUDIT_ENTRIES = 20

export interface Sizes {
  clients: number
  orders: number
  threads: number
  contexts: number
  files: number
}

/** A company of the database, and the same in memory. */
export class Shop {
  readonly model: Model = emptyModel()
  readonly company: TestCompany
  /** Below all ids of clients and orders. */
  readonly base: number
  private token = { text: '', id: 0, uses: REQUESTS_PER_TOKEN }
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

  /** Sends a request. What it writes to the audit is `entry`. */
  async call(method: string, path: string, body?: unknown, entry?: (response: ApiResponse) => [string, string]) {
    if (this.token.uses >= REQUESTS_PER_TOKEN) await this.changeToken()
    this.token.uses++
    const sentAt = Date.now()
    const response = await call(this.token.text, method, path, body)
    if (entry && response.status === 200) await this.record(sentAt, ...entry(response))
    return response
  }

  private async record(sentAt: number, action: string, entity_id: string): Promise<void> {
    const { apiLog } = this.model
    const entry = { action, entity_id, token_id: this.token.id }
    const isSame = (each: typeof entry) =>
      Object.entries(entry).every(([name, value]) => Reflect.get(each, name) === value)
    const known = apiLog.slice(-AUDIT_ENTRIES).findLast(isSame)
    const doneAt = Date.now()
    if (known && doneAt - known.sentAt < AUDIT_MS) return
    // About a minute after it, only the database knows.
    const isNew = !known || sentAt - known.doneAt > AUDIT_MS || (await this.isRecorded(sentAt, action, entity_id))
    if (isNew) apiLog.push({ ...entry, sentAt, doneAt })
  }

  private async isRecorded(since: number, action: string, entityId: string): Promise<boolean> {
    const where = 'company_id = ? AND token_id = ? AND action = ? AND entity_id = ? AND at >= ?'
    const values = [this.id, this.token.id, action, entityId, since]
    return (await sqlIn(this.company.home, `SELECT 1 FROM audit_log WHERE ${where}`, ...values)).length > 0
  }

  /** Revokes the token and makes another, as nobody's request does: the administration's have entries. */
  private async changeToken(): Promise<void> {
    const { tokens } = this.model
    const old = tokens.find(({ id }) => id === this.token.id)
    if (old) {
      old.state = 'revoked'
      await sql('UPDATE api_tokens SET revoked_at = 1 WHERE company_id = ? AND id = ?', this.id, old.id)
    }
    const text = await mintToken(this.id)
    const [row] = await sql<{ id: number }>('SELECT max(id) AS id FROM api_tokens WHERE company_id = ?', this.id)
    this.token = { text, id: row?.id ?? 0, uses: 0 }
    tokens.push({ id: this.token.id, name: 'test', state: 'active' })
  }

  private async fill(sizes: Sizes): Promise<void> {
    const { id, base, model } = this
    const { home } = this.company
    await sqlIn(home, 'DELETE FROM order_statuses WHERE company_id = ?', id)
    await sqlIn(
      home,
      `UPDATE companies SET last_client_id = ?2, last_order_id = ?2, last_invoice_id = 0, deliveries_paused = 1 WHERE id = ?1`,
      id,
      base,
    )
    await this.insert(
      'order_statuses',
      STATUSES.map((each) => ({ id: each, title: `Status ${each}`, position: each, is_default: each === 2 ? 1 : 0 })),
    )
    const [first] = await sql<{ id: number }>('SELECT max(id) AS id FROM api_tokens WHERE company_id = ?', id)
    model.tokens.push({ id: first?.id ?? 0, name: 'test', state: 'active' })

    const clients = Array.from({ length: sizes.clients }, (_, index) => clientOf(base, index + 1))
    await this.insert('clients', clients.map(columnsOfClient))
    for (const client of clients) {
      model.clients.set(client.id, client)
      addChange(model, 'clients', client, true)
    }
    const orders = Array.from({ length: sizes.orders }, (_, index) => orderOf(base, index + 1, sizes.clients))
    await this.insert('orders', orders.map(columnsOfOrder))
    for (const order of orders) {
      model.orders.set(order.id, order)
      addChange(model, 'orders', order, true)
    }
    const threads = Array.from({ length: sizes.threads }, (_, index) => threadOf(id, index + 1))
    await this.insert('email_threads', threads.map(columnsOfThread))
    for (const thread of threads) {
      model.threads.set(`${thread.account_email} ${thread.legacy_thread_id}`, thread)
      addChange(model, 'email_threads', thread, true)
    }
    const contexts = Array.from({ length: sizes.contexts }, (_, index) => contextOf(base, index + 1))
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
