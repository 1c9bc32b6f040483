import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { type Actor, auditEntry } from '../db/audit.ts'
import { type CompanyContext, orm, type Placeholders, prepare, prepareBatch } from '../db/client.ts'
import { assignments, clientColumns, insertRow, jsonRow, type RowOf } from '../db/columns.ts'
import { type KeyName, requireVersion, resultStatement, type Write, writerOf } from '../db/idempotency.ts'
import { clients, companies } from '../db/schema.ts'
import { digitsOf, fold } from '../db/search.ts'
import { versionsOf } from '../http/etag.ts'
import type { ClientFields, NewClient } from './contract.ts'

export type ClientRow = RowOf<typeof clientColumns>

/** Identifies a client by id, or by its email in any case. */
export type ClientKey = { id: number } | { email: string }

type Key = Placeholders<'companyId', 'clientId' | 'emailKey'>

const clientByKey = prepare((p: Key) => orm.select(clientColumns).from(clients).where(isClient(p)))

export async function findClient({ db, companyId }: CompanyContext, key: ClientKey) {
  const [[row]] = await db.read([clientByKey({ companyId, ...keyValues(key) })])
  return row
}

type Column = keyof ReturnType<typeof columnValues>
type Change = Placeholders<Actor, Column | KeyName>

const client = jsonRow(clientColumns)

const creation = prepareBatch((p: Change) => {
  const created = sql`(SELECT last_client_id FROM companies WHERE id = ${p.companyId})`
  const isCreated = sql`${clients.company_id} = ${p.companyId} AND ${clients.id} = ${created}`
  return [
    insertRow(
      clients,
      { ...p, company_id: p.companyId, id: sql`last_client_id + 1`, created_at: p.now, updated_at: p.now },
      sql`FROM ${companies} WHERE ${companies.id} = ${p.companyId}`,
    ),
    auditEntry(p, 'client.create', created),
    resultStatement(p, sql`SELECT ${client.row} FROM ${clients} WHERE ${isCreated}`),
  ]
})

/** The creation of a client. */
export function creationOf(context: RequestContext, fields: NewClient): Write<ClientRow> {
  const statements = creation({ ...writerOf(context), ...columnValues(fields) })
  return {
    statements,
    read: (result) => {
      if (result === null) throw new Error('An insert returned no row.')
      return client.decode(result)
    },
  }
}

const change = prepareBatch((p: Change & Key) => {
  const id = sql`(SELECT id FROM ${clients} WHERE ${isClient(p)})`
  const values = assignments(clients, { ...p, updated_at: p.now, version: sql`version + 1` })
  // After the change, the email may name another client, or none: the changed one is the feed's newest.
  const isChanged = sql`changes() > 0 AND ${clients.company_id} = ${p.companyId}
    AND ${clients.id} = (SELECT entity_id FROM changes WHERE company_id = ${p.companyId}
      AND sequence = (SELECT last_change FROM companies WHERE id = ${p.companyId}))`
  return [
    auditEntry(p, 'client.update', id, sql`EXISTS ${id}`),
    orm.update(clients).set(values).where(isClient(p)),
    resultStatement(p, sql`SELECT ${client.row} FROM ${clients} WHERE ${p.emailKey ? isChanged : isClient(p)}`),
  ]
})

const versionGuard = prepare((p: Key & Placeholders<'versions'>) =>
  requireVersion(sql`${clients}`, isClient(p), sql`${p.versions}`),
)

/**
 * The change of a client: sets only the columns of the fields that are sent, so that concurrent updates of different
 * fields are all applied. Its result is undefined when there is no such client.
 */
export function changeOf(context: RequestContext, key: ClientKey, fields: ClientFields): Write<ClientRow | undefined> {
  const named = { ...keyValues(key), companyId: context.companyId }
  const versions = versionsOf(context.ifMatch)
  const statements = change({ ...writerOf(context), ...columnValues(fields), ...named })
  return {
    statements: versions === null ? statements : [versionGuard({ ...named, versions }), ...statements],
    // After a change of the email or of `deleted`, the same email may name another client: such a write is not retried.
    isIdempotent: 'id' in key && versions === null,
    read: (result) => (result === null ? undefined : client.decode(result)),
  }
}

function keyValues(key: ClientKey) {
  return 'id' in key ? { clientId: key.id } : { emailKey: fold(key.email) }
}

/** Of several clients with one email: one that is not deleted, then the lowest id. */
function isClient({ companyId, clientId, emailKey }: Key): SQL {
  const id =
    clientId ??
    sql`(SELECT id FROM clients WHERE company_id = ${companyId} AND email_key = ${emailKey} ORDER BY deleted, id LIMIT 1)`
  return sql`${clients.company_id} = ${companyId} AND ${clients.id} = ${id}`
}

/** The fields that are sent, with the folded columns that searches and lookups read. */
function columnValues(fields: ClientFields) {
  const { company_name, first_name, last_name, email, phone } = fields
  return {
    ...fields,
    company_name_key: foldIfSent(company_name),
    first_name_key: foldIfSent(first_name),
    last_name_key: foldIfSent(last_name),
    email_key: foldIfSent(email),
    phone_key: foldIfSent(phone),
    phone_digits: phone === undefined ? undefined : digitsOf(phone ?? ''),
  }
}

const foldIfSent = (value: string | null | undefined) => (typeof value === 'string' ? fold(value) : value)
