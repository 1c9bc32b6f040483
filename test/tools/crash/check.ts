import type { DatabaseSync } from 'node:sqlite'
import { digitsOf, fold } from '../../../src/kernel/db/columns.ts'
import {
  type AuditRow,
  compareLists,
  differences,
  type EventRow,
  openCopy,
  readAudit,
  readState,
  select,
} from './rows.ts'
import { type Action, apply, type CompanyState, entityOf, idIn, type Write } from './state.ts'
import { checkMailObjects, checkThreads, type MailObjects } from './threads.ts'

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
  using db = openCopy(path)
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
  // Of two deletions of a client, the second changes nothing.
  const deleted = new Set(audit.flatMap((row) => (row.action === 'client.delete' ? row.entity_id : [])))
  const isRepeated = (action: Action) => auditedAs(action) === 'client.delete' && deleted.has(String(idOf(action)))
  const lost = [...open.values()].filter(({ outcome, action }) => outcome === 'acknowledged' && !isRepeated(action))
  return [
    ...findings,
    ...lost.map(({ requestId, action }) => `${requestId}: ${action.kind} was acknowledged, and is not in the audit`),
  ]
}

const idOf = (action: Action) => ('id' in action ? action.id : null)

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

function checkKeys(db: DatabaseSync): string[] {
  return select<Record<string, string | null>>(db, 'SELECT * FROM clients').flatMap((row) => {
    const stored = FOLDED.map((name) => row[`${name}_key`])
    const wanted = FOLDED.map((name) => (row[name] ? fold(row[name]) : row[name]))
    const digits = digitsOf(row.phone ?? '')
    return differences(`the keys of client ${row.id}`, [...stored, row.phone_digits], [...wanted, digits])
  })
}

function checkCounts(db: DatabaseSync): string[] {
  const [stored] = select(db, 'SELECT client_count, order_count FROM companies')
  const [real] = select(
    db,
    `SELECT (SELECT count(*) FROM clients WHERE deleted = 0) AS client_count,
       (SELECT count(*) FROM orders WHERE deleted = 0) AS order_count`,
  )
  return differences('the counts of the company', stored, real)
}

/** A row for each character of `text`: `key` counts them from 0. */
const charactersOf = (text: string) =>
  `json_each('[' || rtrim(replace(hex(zeroblob(length(${text}))), '00', '0,'), ',') || ']')`

const spaced = (text: string) =>
  `(SELECT char(30) || group_concat(substr(${text}, key + 1, 1), char(30)) || char(30) FROM ${charactersOf(text)})`

/** Each full-text table, the table and the text that it indexes, and whether it has deleted rows. */
const SOURCES = [
  ['clients_fts', 'clients', 'search_text || char(31) || phone_digits', false],
  ['catalog_items_fts', 'catalog_items', 'search_text', false],
  ['invoice_items_fts', 'invoice_items', 'search_text', true],
  ['orders_fts', 'orders', 'title_key || char(31) || number_key', true],
  ['client_names_fts', 'clients', 'company_name_key', true],
] as const

/** Builds a copy of each full-text table from its rows and compares the two, trigram by trigram. */
function compareIndexes(db: DatabaseSync): string[] {
  return SOURCES.flatMap(([name, table, text, hasAll]) => {
    // Digits are searched on their own.
    const whole = name === 'clients_fts' ? 'search_text, phone_digits' : text
    const columns = name === 'clients_fts' ? 'text, digits, spaced' : 'text, spaced'
    const [made] = select<{ sql: string }>(db, `SELECT sql FROM sqlite_schema WHERE name = '${name}'`)
    if (!made) return [`there is no ${name}`]
    db.exec(`${made.sql.replace(name, `temp.fresh_${name}`)};
      INSERT INTO temp.fresh_${name} (rowid, ${columns})
        SELECT slot << 53 | t.id, ${whole}, ${spaced(`(${text})`)}
        FROM main.${table} AS t JOIN main.companies AS c ON c.id = company_id WHERE ${hasAll ? 'true' : 'deleted = 0'};
      CREATE VIRTUAL TABLE temp.old_${name} USING fts5vocab(main, ${name}, instance);
      CREATE VIRTUAL TABLE temp.new_${name} USING fts5vocab(temp, fresh_${name}, instance)`)
    const only = (one: string, other: string) =>
      select<{ rows: number }>(
        db,
        `SELECT count(DISTINCT doc) AS rows FROM (SELECT * FROM temp.${one}_${name} EXCEPT SELECT * FROM temp.${other}_${name})`,
      )[0]?.rows ?? 0
    const [stale, missing] = [only('old', 'new'), only('new', 'old')]
    return stale + missing === 0 ? [] : [`${name} is wrong: ${missing} rows lack words, ${stale} have words too many`]
  })
}
