import { mintCompany, sql, type TestCompany } from '../../support/app.ts'
import { insert } from '../../support/rows.ts'
import { freshThreadId } from './support.ts'

export let me: TestCompany
export let other: TestCompany

/** Ids by owner: `both` exists in both companies, `nobody` in none. */
interface Ids {
  mine: number
  theirs: number
  both: number
  nobody: number
  deleted: number
}

export let clients: Ids
export let orders: Ids

/** Two companies that share a client and an order. */
export async function makeCompanies(): Promise<void> {
  ;[me, other] = [await mintCompany(), await mintCompany()]
  const base = me.id * 1_000
  clients = { mine: base + 1, theirs: base + 2, both: base + 3, nobody: base + 4, deleted: base + 5 }
  orders = { mine: base + 11, theirs: base + 12, both: base + 13, nobody: base + 14, deleted: base + 15 }
  for (const [company, owned] of [
    [me, ['mine', 'both', 'deleted']],
    [other, ['theirs', 'both']],
  ] as const) {
    for (const name of owned) {
      const deleted = name === 'deleted' ? 1 : 0
      await sql(
        "INSERT INTO clients (company_id, id, company_name, company_name_key, deleted, created_at, updated_at) VALUES (?, ?, 'c', 'C', ?, 0, 0)",
        company.id,
        clients[name],
        deleted,
      )
      await sql(
        "INSERT INTO orders (company_id, id, title, client_id, created_date, created_at, updated_at, deleted) VALUES (?, ?, 'o', ?, '2026-01-01', 0, 0, ?)",
        company.id,
        orders[name],
        clients[name],
        deleted,
      )
    }
  }
}

export const JSON_COLUMNS = [
  'client_data',
  'clients_data',
  'orders_data',
  'participant_emails',
  'participants_data',
] as const

export interface Context {
  client_id?: unknown
  client_data?: unknown
  clients_data?: unknown
  orders_data?: unknown
  selected_order_id?: unknown
  participant_emails?: unknown
  participants_data?: unknown
  sender_email?: string
  updated_at?: number
}

/** Stores a context as a seed of `writer` does; JSON columns are given as values, or as text that is stored as it is. */
export async function store(writer: TestCompany, legacyId: string, context: Context, asText = false): Promise<string> {
  const threadId = `thread-f:${crypto.randomUUID()}`
  const columns: Record<string, unknown> = {
    company_id: writer.id,
    thread_id: threadId,
    legacy_thread_id: legacyId,
    fetched_at: 1_767_225_600_000,
    updated_at: 1_767_225_600_000,
    ...context,
  }
  for (const column of JSON_COLUMNS) {
    if (columns[column] !== undefined && !asText) columns[column] = JSON.stringify(columns[column])
  }
  await insert('thread_contexts', columns)
  return threadId
}

export async function read(reader: TestCompany, legacyId: string) {
  const { status, body } = await reader.call('GET', `/mail/threads/${legacyId}`)
  return status === 200 ? body : status
}

/** Stores a context of `me` and reads it. */
export async function seen(context: Context, asText = false) {
  const legacyId = freshThreadId()
  await store(me, legacyId, context, asText)
  return read(me, legacyId)
}

/** A tie that leaves the rest of the context alone. */
export const tied = () => ({ participants_data: [{ company_id: me.id }] })
