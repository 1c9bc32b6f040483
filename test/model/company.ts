import { digitsOf, fold } from '../../src/kernel/db/columns.ts'
import { byKeys, idsOf } from '../support/lists.ts'

interface Versioned {
  id: number
  external_id: string | null
  deleted: boolean
  version: number
  created_at: number
  updated_at: number
}

export interface Client extends Versioned {
  company_name: string
  first_name: string | null
  last_name: string | null
  email: string | null
  phone: string | null
}

export interface Order extends Versioned {
  title: string
  client_id: number
  order_status_id: number | null
  created_date: string
  /** Of its invoice. */
  number: string
}

export interface Thread {
  id: string
  account_email: string
  legacy_thread_id: string
  subject: string
  message_count: number
  /** Of its content; none of a thread that was filled in. */
  label: string
  deleted: boolean
  revision: number
  created_at: number
  updated_at: number
}

export interface Context {
  thread_id: string
  legacy_thread_id: string
  client_id: number | null
  clients: number[]
  orders: number[]
}

export interface Change {
  sequence: number
  type: 'clients' | 'orders' | 'email_threads'
  id: number | string
  operation: 'create' | 'update' | 'delete' | 'status_changed'
  version: number
  old_status_id?: number | null
  new_status_id?: number | null
}

/** What a company has, in memory: each list of the API is a filter and a sort of these. */
export type Model = ReturnType<typeof emptyModel>

export function emptyModel() {
  return {
    clients: new Map<number, Client>(),
    orders: new Map<number, Order>(),
    threads: new Map<string, Thread>(),
    /** By legacy id. */
    contexts: new Map<string, Context>(),
    /** The feed: its index is the sequence less 1. */
    changes: [] as Change[],
  }
}

/** Adds a change of an object to the feed. */
export function addChange(model: Model, type: Change['type'], row: Client | Order | Thread, isNew: boolean): void {
  const version = 'version' in row ? row.version : row.revision
  const operation = row.deleted ? 'delete' : isNew ? 'create' : 'update'
  model.changes.push({ sequence: model.changes.length + 1, type, id: row.id, operation, version })
}

/** Adds what follows an update that changed the status of an order. */
export function addStatusChange({ changes }: Model, order: Order, old_status_id: number | null): void {
  const { id, version, order_status_id: new_status_id } = order
  const change = { type: 'orders', id, operation: 'status_changed', version } as const
  changes.push({ sequence: changes.length + 1, ...change, old_status_id, new_status_id })
}

/** The query of a list of clients or orders, as far as it filters and sorts. Times are milliseconds. */
export interface ListQuery {
  sort?: string
  deleted?: 'exclude' | 'include' | 'only'
  q?: string
  updated_since?: number
  external_id?: string
  client_id?: number
  status?: number[]
  from?: string
  to?: string
}

const isListed = (row: Versioned, { deleted = 'exclude', updated_since, external_id }: ListQuery) =>
  (deleted === 'include' || row.deleted === (deleted === 'only')) &&
  (updated_since === undefined || row.updated_at >= updated_since) &&
  (external_id === undefined || row.external_id === external_id)

/** Folding a text is slow, and rows have the same texts for most of a run. */
const folded = new Map<string, string>()

function foldOnce(text: string): string {
  const known = folded.get(text) ?? fold(text)
  folded.set(text, known)
  return known
}

const has = (field: string | null, text: string) => field !== null && foldOnce(field).includes(text)

/** The search of clients: a part of the name of the company or the person, of the email or the phone, or its digits. */
function isFoundClient(client: Client, q: string): boolean {
  const text = fold(q).trim()
  const person = [client.first_name, client.last_name].filter(Boolean).join(' ')
  if ([client.company_name, person, client.email, client.phone].some((field) => has(field, text))) return true
  const isShort = Array.from(text).length < 3
  const digits = isShort ? text : /^[\d\s()+\-./]+$/.test(text) ? digitsOf(text) : ''
  return digits.length >= (isShort ? 1 : 3) && digitsOf(client.phone ?? '').includes(digits)
}

/** The clients of a list, in any order. */
export function clientsOf({ clients }: Model, query: ListQuery): Client[] {
  const { q = '' } = query
  return [...clients.values()].filter(
    (client) => isListed(client, query) && (q.trim() === '' || isFoundClient(client, q)),
  )
}

/** The orders of a list, in any order. */
export function ordersOf({ clients, orders }: Model, query: ListQuery): Order[] {
  const { q = '', client_id, status, from, to } = query
  const text = fold(q).trim()
  const isFound = ({ title, number, client_id }: Order) =>
    [title, number, clients.get(client_id)?.company_name ?? null].some((field) => has(field, text))
  return [...orders.values()].filter(
    (order) =>
      isListed(order, query) &&
      (client_id === undefined || order.client_id === client_id) &&
      (status === undefined || (order.order_status_id !== null && status.includes(order.order_status_id))) &&
      (from === undefined || order.created_date >= from) &&
      (to === undefined || order.created_date <= to) &&
      (text === '' || isFound(order)),
  )
}

/** The ids of a list in its order, `-` for descending. */
export function sortedIds(rows: (Client | Order)[], sort: string): number[] {
  const column = sort.replace('-', '')
  return idsOf(rows.sort(byKeys((row) => [Reflect.get(row, column), row.id], sort.startsWith('-') ? -1 : 1)))
}
