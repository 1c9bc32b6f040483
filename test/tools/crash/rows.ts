import { DatabaseSync } from 'node:sqlite'
import { isDeepStrictEqual } from 'node:util'
import type * as z from 'zod/mini'
import { client } from '../../../src/resources/clients/contract.ts'
import { type invoice, project } from '../../../src/resources/orders/shapes.ts'
import type { CompanyState } from './state.ts'

/** Fields of the API as their table stores them: SQLite has no booleans, and times are milliseconds. */
type Stored<T> = { [K in keyof T]: K extends `${string}_at` ? number : T[K] extends boolean ? number : T[K] }

export type ClientRow = Stored<z.output<typeof client>>

export type OrderRow = Stored<z.output<typeof project>>

/** An invoice has these only in responses. */
type Computed = 'subtotal' | 'discount_total' | 'tax_total' | 'total' | 'amount_paid' | 'balance_due'
type Invoice = Omit<z.output<typeof invoice>, Computed | 'discount_amount'>
export type InvoiceRow = Stored<Invoice> & Record<'discount_hundredths' | 'created_at' | 'updated_at', number>

/** A thread's last write, by its request id, and how many there were. */
export interface ThreadRow {
  id: string
  mark: string
  bytes: number
  revision: number
  updated_at: number
}

export interface EventRow {
  order_id: number
  operation: string
  created_at: number
}

/** An entry of the feed of changes, without its time, which the database takes from its own clock. */
export interface ChangeRow {
  sequence: number
  type: 'clients' | 'orders' | 'email_threads'
  entity_id: string
  operation: string
  version: number
  previous_updated_at: number | null
  /** Of `status_changed` only. */
  old_status_id: number | null
  new_status_id: number | null
}

export interface AuditRow {
  request_id: string
  action: string
  entity_id: string
  at: number
}

const CLIENT = Object.keys(client.shape)
const ORDER = Object.keys(project.shape)
const INVOICE =
  'id, project_id, number, due_date, tax_id, tax_exempt, tax_exempt_reason, discount_hundredths, discount_amount_type, discount_type, deleted, created_at, updated_at'

/** The company whose database is killed. Another one has the first place. */
const SHOP = 1

/** Opens a copy of the database in which the tables have the shop's rows alone, so that no query names it. */
export function openCopy(path: string): DatabaseSync {
  const db = new DatabaseSync(path)
  const tables = select<{ name: string }>(
    db,
    `SELECT t.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c ON c.name = 'company_id' WHERE t.type = 'table'`,
  )
  for (const { name } of tables) {
    db.exec(`CREATE TEMP VIEW ${name} AS SELECT * FROM main.${name} WHERE company_id = ${SHOP}`)
  }
  db.exec(`CREATE TEMP VIEW companies AS SELECT * FROM main.companies WHERE id = ${SHOP}`)
  return db
}

/** The rows of a query, as plain objects. */
export function select<T>(db: DatabaseSync, sql: string): T[] {
  return db
    .prepare(sql)
    .all()
    .map((row) => ({ ...row })) as T[]
}

/** The state that the tables hold, without threads, whose content is checked in threads.ts. */
export function readState(db: DatabaseSync): CompanyState {
  const byKey = <T>(rows: T[], key: (row: T) => number) => new Map(rows.map((row) => [key(row), row]))
  const [last] = select<CompanyState['last']>(
    db,
    'SELECT last_client_id AS clients, last_order_id AS orders, last_invoice_id AS invoices, last_invoice_number AS number, last_change AS change FROM companies',
  )
  const [status] = select<{ id: number }>(db, 'SELECT id FROM order_statuses WHERE is_default = 1 AND deleted = 0')
  if (!last || !status) throw new Error('The shop is missing.')
  return {
    clients: byKey(select<ClientRow>(db, `SELECT ${CLIENT} FROM clients ORDER BY id`), (row) => row.id),
    orders: byKey(select<OrderRow>(db, `SELECT ${ORDER} FROM orders ORDER BY id`), (row) => row.id),
    invoices: byKey(
      select<InvoiceRow>(db, `SELECT ${INVOICE} FROM invoices ORDER BY project_id`),
      (row) => row.project_id,
    ),
    threads: new Map(),
    events: readEvents(db),
    changes: select<ChangeRow>(
      db,
      `SELECT sequence, type, entity_id, operation, version, previous_updated_at, old_status_id, new_status_id FROM changes
      ORDER BY sequence`,
    ),
    last,
    defaultStatusId: status.id,
  }
}

/**
 * Once an event is sent, its operation is what the accounting system needs, be it to create or to update: then only a
 * delete is told apart.
 */
function readEvents(db: DatabaseSync): EventRow[] {
  return select(
    db,
    `SELECT order_id, created_at,
       CASE WHEN operation = 'delete' OR (state = 'pending' AND attempts = 0) THEN operation ELSE 'sent' END AS operation
     FROM accounting_outbox ORDER BY id`,
  )
}

export function readAudit(db: DatabaseSync): AuditRow[] {
  return select(db, 'SELECT request_id, action, entity_id, at FROM audit_log ORDER BY company_id, id')
}

/** One finding where two values differ, else none. */
export function differences(what: string, actual: unknown, expected: unknown): string[] {
  if (isDeepStrictEqual(actual, expected)) return []
  return [`${what} is ${abridge(actual)} instead of ${abridge(expected)}`]
}

const abridge = (value: unknown) => (JSON.stringify(value) ?? 'absent').slice(0, 400)

/** The first difference of two lists: everything after a missing element would differ as well. */
export function compareLists<T>(name: (place: number) => string, expected: readonly T[], actual: readonly T[]) {
  const length = Math.max(expected.length, actual.length)
  const index = Array.from({ length }, (_, place) => place).find((p) => !isDeepStrictEqual(expected[p], actual[p]))
  return index === undefined ? [] : differences(name(index + 1), actual[index], expected[index])
}
