import { DatabaseSync } from 'node:sqlite'
import { client } from '../../../src/resources/clients/contract.ts'
import { project } from '../../../src/resources/orders/shapes.ts'
import type { CompanyState } from './company-state.ts'
import type { AuditRow, ChangeRow, ClientRow, EventRow, InvoiceRow, OrderRow } from './rows.ts'

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

/** The state that the tables hold, without threads, whose content is checked in check-threads.ts. */
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

/** The audited writes in their order. */
export function readAudit(db: DatabaseSync): AuditRow[] {
  return select(db, 'SELECT request_id, action, entity_id, at FROM audit_log ORDER BY company_id, id')
}
