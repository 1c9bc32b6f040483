import { env } from 'cloudflare:workers'
import { type Home, mintCompany, type TestCompany } from '../../support/app.ts'
import { insert, insertion } from '../../support/rows.ts'
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
export async function makeCompanies(home?: Home): Promise<void> {
  const options = home && { home }
  ;[me, other] = [await mintCompany(options), await mintCompany(options)]
  const base = me.id * 1_000
  clients = { mine: base + 1, theirs: base + 2, both: base + 3, nobody: base + 4, deleted: base + 5 }
  orders = { mine: base + 11, theirs: base + 12, both: base + 13, nobody: base + 14, deleted: base + 15 }
  for (const [company, owned] of [
    [me, ['mine', 'both', 'deleted']],
    [other, ['theirs', 'both']],
  ] as const) {
    const rows = owned.flatMap((name) => {
      const shared = { company_id: company.id, deleted: Number(name === 'deleted'), created_at: 0, updated_at: 0 }
      const order = { title: 'o', client_id: clients[name], created_date: '2026-01-01' }
      return [
        insertion('clients', { ...shared, id: clients[name], company_name: 'c', company_name_key: 'C' }),
        insertion('orders', { ...shared, id: orders[name], ...order }),
      ]
    })
    await env[company.home].batch(rows)
  }
}

export const JSON_COLUMNS = [
  'client_data',
  'clients_data',
  'orders_data',
  'participant_emails',
  'participants_data',
] as const

type Column = (typeof JSON_COLUMNS)[number] | 'client_id' | 'selected_order_id' | 'sender_email' | 'updated_at'
export type Context = Partial<Record<Column, unknown>>

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
