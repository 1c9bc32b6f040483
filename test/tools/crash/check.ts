import type { DatabaseSync } from 'node:sqlite'
import { digitsOf, fold } from '../../../src/kernel/db/search.ts'
import { checkThreads } from './check-threads.ts'
import { apply, type CompanyState, entityOf } from './company-state.ts'
import { compareLists, differences } from './differences.ts'
import { type Action, idIn, type Write } from './journal.ts'
import { checkMailObjects, type MailObjects } from './mail-objects.ts'
import { openCopy, readAudit, readState, select } from './read-state.ts'
import type { AuditRow, EventRow } from './rows.ts'
import { compareIndexes } from './search-index.ts'

export interface Checked {
  /** A copy of the database, which may be written to. */
  path: string
  objects: MailObjects
  /** The sweep has removed what nothing names. */
  isCollected?: boolean
}

/**
 * Lists everything wrong with a database and its objects in R2, given its first state and the writes sent since. Every
 * change writes an audit entry in its own transaction, so the audit shows which writes without a response were carried
 * out, and the order of all: replayed on the first state, they must give exactly what the tables hold. A lost or partial
 * write shows as a difference. `test/model` and `test/resources` hold what the API makes of the tables.
 */
export function checkDatabase(checked: Checked, first: CompanyState, journal: readonly Write[]): string[] {
  const { path, objects, isCollected = false } = checked
  const db = openCopy(path)
  try {
    const expected = structuredClone(first)
    return [
      ...checkFile(db),
      ...replay(expected, journal, readAudit(db)),
      ...compareStates(expected, readState(db)),
      ...checkThreads(db, expected, objects),
      ...checkMailObjects(db, objects, isCollected),
      ...checkKeys(db),
      ...checkCounts(db),
      ...compareIndexes(db),
    ]
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

/** Replays the writes of the audit on a state, and compares the ids of audit and responses with it. */
function replay(state: CompanyState, journal: readonly Write[], audit: readonly AuditRow[]): string[] {
  const findings: string[] = []
  const open = new Map(journal.map((write) => [write.requestId, write]))
  for (const row of audit) {
    const write = open.get(row.request_id)
    open.delete(row.request_id)
    if (!write || auditedAs(write.action) !== row.action) {
      findings.push(`the audit has ${row.action} of request ${row.request_id}, which was not sent or came before`)
      continue
    }
    apply(state, write.action, row)
    const entity = entityOf(state, write.action)
    if (entity !== row.entity_id) findings.push(`${row.request_id}: ${row.action} of ${row.entity_id}, not ${entity}`)
    if (write.outcome === 'refused') findings.push(`${row.request_id}: ${row.action} was refused, and carried out`)
    if (write.outcome !== 'acknowledged') continue
    findings.push(...differences(`${row.request_id}: the response’s id`, String(idIn(write)), row.entity_id))
  }
  const lost = [...open.values()].filter(({ outcome }) => outcome === 'acknowledged')
  return [
    ...findings,
    ...lost.map(({ requestId, action }) => `${requestId}: ${action.kind} was acknowledged, and is not in the audit`),
  ]
}

const auditedAs = (action: Action) =>
  action.kind === 'client.update' && action.fields.deleted ? 'client.delete' : action.kind

function compareStates(expected: CompanyState, actual: CompanyState): string[] {
  return [
    ...compareMaps('client', expected.clients, actual.clients),
    ...compareMaps('order', expected.orders, actual.orders),
    ...compareMaps('invoice of order', expected.invoices, actual.invoices),
    ...differences('the last ids and number', actual.last, expected.last),
    ...compareEvents(expected.events, actual.events),
    ...compareLists((place) => `change ${place} of the feed`, expected.changes, actual.changes),
  ]
}

function compareMaps<T extends object>(what: string, expected: Map<number, T>, actual: Map<number, T>): string[] {
  const ids = new Set([...expected.keys(), ...actual.keys()])
  return [...ids].flatMap((id) => differences(`${what} ${id}`, actual.get(id), expected.get(id)))
}

function compareEvents(expected: EventRow[], actual: EventRow[]): string[] {
  const asSent = (event: EventRow, other: EventRow | undefined) =>
    other?.operation === 'sent' && event.operation !== 'delete' ? { ...event, operation: 'sent' } : event
  const wanted = expected.map((event, index) => asSent(event, actual[index]))
  return compareLists((place) => `event ${place} for the accounting system`, wanted, actual)
}

const FOLDED = ['company_name', 'first_name', 'last_name', 'email', 'phone']

/** The columns that are derived from a client's text. */
function checkKeys(db: DatabaseSync): string[] {
  return select<Record<string, string | null>>(db, 'SELECT * FROM clients').flatMap((row) => {
    const stored = FOLDED.map((name) => row[`${name}_key`])
    const wanted = FOLDED.map((name) => (row[name] ? fold(row[name]) : row[name]))
    const digits = digitsOf(row.phone ?? '')
    return differences(`the keys of client ${row.id}`, [...stored, row.phone_digits], [...wanted, digits])
  })
}

/** The stored counts must equal the counted rows. */
function checkCounts(db: DatabaseSync): string[] {
  const [stored] = select(db, 'SELECT client_count, order_count FROM companies')
  const [real] = select(
    db,
    `SELECT (SELECT count(*) FROM clients WHERE deleted = 0) AS client_count,
       (SELECT count(*) FROM orders WHERE deleted = 0) AS order_count`,
  )
  return differences('the counts of the company', stored, real)
}
