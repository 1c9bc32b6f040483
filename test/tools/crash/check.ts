import { DatabaseSync } from 'node:sqlite'
import { isDeepStrictEqual } from 'node:util'
import { digitsOf, fold } from '../../../src/db/search.ts'
import {
  type AuditRow,
  apply,
  type Books,
  type ClientRow,
  entityOf,
  type NoticeRow,
  toClient,
  toInvoice,
  toProject,
} from './books.ts'
import { checkThreads } from './check-threads.ts'
import { nameOf, type Write } from './journal.ts'
import { readAudit, readBooks, select } from './read-books.ts'
import { compareIndexes } from './search-index.ts'

/**
 * Everything that is wrong with a database, given what it held at first and what was sent since; and what it should
 * hold. Every change writes an audit entry in its own transaction, so the audit tells which of the unanswered writes
 * were carried out, and in which order all were: carried out once more on what was there at first, they must come to
 * exactly what the tables hold. A write that was only carried out in part, or was lost, shows as a difference.
 *
 * @param path a copy of the database, which may be written to
 */
export function checkDatabase(path: string, first: Books, journal: readonly Write[]) {
  const db = new DatabaseSync(path)
  try {
    const expected = structuredClone(first)
    const findings = [
      ...checkFile(db),
      ...replay(expected, journal, readAudit(db)),
      ...compareBooks(expected, readBooks(db)),
      ...checkThreads(db, expected),
      ...checkKeys(db),
      ...checkCounts(db),
      ...compareIndexes(db),
    ]
    return { findings, expected }
  } finally {
    db.close()
  }
}

function checkFile(db: DatabaseSync): string[] {
  const integrity = select<{ integrity_check: string }>(db, 'PRAGMA integrity_check')
  const foreign = select<{ table: string; parent: string }>(db, 'PRAGMA foreign_key_check')
  return [
    ...integrity.flatMap((row) => (row.integrity_check === 'ok' ? [] : [`integrity: ${row.integrity_check}`])),
    ...foreign.map(({ table, parent }) => `a row of ${table} refers to none of ${parent}`),
  ]
}

/** Carries out what the audit tells of, and compares answers and audit with what it comes to. */
function replay(books: Books, journal: readonly Write[], audit: readonly AuditRow[]): string[] {
  const findings: string[] = []
  const open = new Map(journal.map((write) => [write.requestId, write]))
  for (const row of audit) {
    const write = open.get(row.request_id)
    open.delete(row.request_id)
    if (write?.action.kind !== row.action) {
      findings.push(`the audit has ${row.action} of request ${row.request_id}, which was not sent or came before`)
      continue
    }
    apply(books, write.action, row)
    const entity = entityOf(books, write.action)
    if (entity !== row.entity_id) findings.push(`${row.request_id}: ${row.action} of ${row.entity_id}, not ${entity}`)
    if (write.outcome === 'refused') findings.push(`${row.request_id}: ${row.action} was refused, and carried out`)
    if (write.outcome === 'acknowledged') findings.push(...compareAnswer(books, write, row))
  }
  const lost = [...open.values()].filter(({ outcome }) => outcome === 'acknowledged')
  return [
    ...findings,
    ...lost.map(({ requestId, action }) => `${requestId}: ${action.kind} was acknowledged, and is not in the audit`),
  ]
}

/** The answer to a write against what there was right after it. */
function compareAnswer(books: Books, { action, answer }: Write, { request_id, entity_id }: AuditRow): string[] {
  const id = Number(entity_id)
  switch (action.kind) {
    case 'client.create':
    case 'client.update':
      return differences(`${request_id}: the answer’s client ${id}`, at(answer, 'client'), clientOf(books, id))
    case 'email_thread.write': {
      const thread = books.threads.get(nameOf(action.thread))
      const told = { id: at(answer, 'email_thread', 'id'), subject: at(answer, 'email_thread', 'subject') }
      return differences(`${request_id}: the answer’s thread`, told, { id: thread?.id, subject: thread?.mark })
    }
    default:
      return [
        ...differences(`${request_id}: the answer’s project ${id}`, at(answer, 'project'), projectOf(books, id)),
        ...differences(
          `${request_id}: the answer’s invoice of ${id}`,
          withoutTotals(at(answer, 'invoice')),
          invoiceOf(books, id),
        ),
      ]
  }
}

function compareBooks(expected: Books, actual: Books): string[] {
  return [
    ...compareMaps('client', expected.clients, actual.clients),
    ...compareMaps('order', expected.orders, actual.orders),
    ...compareMaps('invoice of order', expected.invoices, actual.invoices),
    ...differences('the last ids and number', actual.last, expected.last),
    ...compareNotices(expected.notices, actual.notices),
  ]
}

function compareMaps<T extends object>(what: string, expected: Map<number, T>, actual: Map<number, T>): string[] {
  const ids = new Set([...expected.keys(), ...actual.keys()])
  return [...ids].flatMap((id) => differences(`${what} ${id}`, actual.get(id), expected.get(id)))
}

function compareNotices(expected: NoticeRow[], actual: NoticeRow[]): string[] {
  const asSent = (notice: NoticeRow, other: NoticeRow | undefined) =>
    other?.operation === 'sent' && notice.operation !== 'delete' ? { ...notice, operation: 'sent' } : notice
  const wanted = expected.map((notice, index) => asSent(notice, actual[index]))
  const index = wanted.findIndex((notice, position) => !isDeepStrictEqual(notice, actual[position]))
  if (index === -1 && actual.length === wanted.length) return []
  const place = index === -1 ? wanted.length : index
  return differences(`notice ${place + 1} for the accounting system`, actual[place], wanted[place])
}

/** The columns that are derived from a client's text. */
function checkKeys(db: DatabaseSync): string[] {
  type Row = ClientRow &
    Record<'company_name_key' | 'first_name_key' | 'email_key' | 'phone_key' | 'phone_digits', string>
  const foldOrNull = (text: string | null) => (text === null ? null : fold(text))
  return select<Row>(db, 'SELECT * FROM clients').flatMap((row) =>
    differences(
      `the keys of client ${row.id}`,
      [row.company_name_key, row.first_name_key, row.email_key, row.phone_key, row.phone_digits],
      [
        fold(row.company_name),
        foldOrNull(row.first_name),
        foldOrNull(row.email),
        foldOrNull(row.phone),
        digitsOf(row.phone ?? ''),
      ],
    ),
  )
}

/** What is kept beside the rows so that nobody has to count them. */
function checkCounts(db: DatabaseSync): string[] {
  const [kept] = select(db, 'SELECT client_count, order_count FROM companies')
  const [real] = select(
    db,
    `SELECT (SELECT count(*) FROM clients WHERE deleted = 0) AS client_count,
       (SELECT count(*) FROM orders WHERE deleted = 0) AS order_count`,
  )
  const days = select(
    db,
    `SELECT client_id, status_id, created_date, count FROM order_counts WHERE count <> 0
     ORDER BY client_id, status_id, created_date`,
  )
  const realDays = select(
    db,
    `WITH live AS (SELECT client_id, coalesce(order_status_id, 0) AS status_id, created_date FROM orders WHERE deleted = 0)
     SELECT client_id, status_id, created_date, count(*) AS count FROM (
       SELECT 0 AS client_id, status_id, created_date FROM live UNION ALL SELECT 0, status_id, '' FROM live
       UNION ALL SELECT client_id, status_id, '' FROM live)
     GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`,
  )
  return [...differences('the counts of the company', kept, real), ...differences('the order counts', days, realDays)]
}

export function clientOf(books: Books, id: number) {
  const row = books.clients.get(id)
  return row && toClient(row)
}

export function projectOf(books: Books, id: number) {
  const row = books.orders.get(id)
  return row && toProject(row)
}

export function invoiceOf(books: Books, orderId: number) {
  const row = books.invoices.get(orderId)
  return row && toInvoice(row)
}

const TOTALS = new Set(['subtotal', 'discount_total', 'tax_total', 'total', 'amount_paid', 'balance_due'])

/** An invoice of an answer without what is computed. */
export function withoutTotals(invoice: unknown): unknown {
  if (typeof invoice !== 'object' || invoice === null) return invoice
  return Object.fromEntries(Object.entries(invoice).filter(([key]) => !TOTALS.has(key)))
}

/** A value inside an answer. */
export function at(value: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, key) : undefined),
    value,
  )
}

/** A finding where two things are not alike, or none. */
export function differences(what: string, actual: unknown, expected: unknown): string[] {
  if (isDeepStrictEqual(actual, expected)) return []
  return [`${what} is ${abridge(actual)} instead of ${abridge(expected)}`]
}

function abridge(value: unknown): string {
  return (JSON.stringify(value) ?? 'absent').slice(0, 400)
}
